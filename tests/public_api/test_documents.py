"""What README and the pages of the site show is what their code prints; what needs Spark is run where Spark is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from document_examples import DATA, ROOT, TESTED_ELSEWHERE, documents, needs_spark, not_run, parsed, run
from sybil.example import SybilFailure

if TYPE_CHECKING:
    from pathlib import Path

_PAGES = [page for page in documents() if not needs_spark(page)]

_NOT_RUN = {
    "CONTRIBUTING.md": [],
    "README.md": ["sh"],  # make demo, make test
    "docs/guides/cluster.md": ["sh", "python", "python"],
    "docs/guides/kafka.md": ["python", "python"],
    "docs/guides/quiet_sources.md": ["sh"],
}
"""Blocks that are shown and cannot be run here; each has a comment that says why."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", _PAGES, ids=_name)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first block to its last, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    run(parsed(page), {"folder": str(tmp_path)})


def test_few_blocks_are_not_run() -> None:
    """Those that need what is not here, and no others."""
    assert {_name(page): blocks for page in documents() if (blocks := not_run(page))} == {
        page: blocks for page, blocks in _NOT_RUN.items() if blocks
    }


def test_there_are_pages() -> None:
    """A test of nothing would pass too."""
    pages = {_name(page) for page in documents()}
    assert {"README.md", "docs/index.md", "docs/semantics.md", "docs/tutorial.md", "docs/guides/late_rows.md"} <= pages


def test_pages_that_others_run_are_run() -> None:
    """Where such a page is, so is its test."""
    assert [page for page, test in TESTED_ELSEWHERE.items() if (ROOT / page).exists() > (ROOT / test).exists()] == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("```python\nprint(1)\n```\n\n```\n2\n```\n", "and it prints"),
        ("```python\nprint(1)\n```\n", "and it prints"),
        ("```python\nn = 1\n```\n\n```\n1\n```\n", "and it prints"),
        ("```\nmake test\n```\n", "nothing printed"),
        ("```python\nn = 1\n```\n\nThis is no output:\n\n```\n1\n```\n", "nothing printed"),
        ("```sh\nls\n```\n", "nothing printed"),
        ("```console\n$ slackwater --version\n0.0.0\n```\n", "and it prints"),
        ("```console\n$ ls\n```\n", "only slackwater is run here"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(page: str, wrong: str, tmp_path: Path) -> None:
    """Whatever is shown and was not printed, printed and not shown, or neither."""
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    with pytest.raises(SybilFailure, match=wrong):
        run(parsed(tmp_path / "page.md"), {})


def test_a_page_that_is_right_is_not(tmp_path: Path) -> None:
    """Names last from block to block; data and what is skipped are let be."""
    data = "".join(f"```{language}\nx\n```\n" for language in sorted(DATA))
    skipped = '<!-- skip: next "not here" -->\n\n```python\n1 / 0\n```\n'
    console = "```console\n$ slackwater --version\n0.1.0\n```\n"
    code = "```python\nn = 2\n```\n\ntext\n\n```python\nprint(n)\n```\n```\n2\n```\n"
    (tmp_path / "page.md").write_text(code + data + skipped + console, encoding="utf-8")
    run(parsed(tmp_path / "page.md"), {})
    assert not_run(tmp_path / "page.md") == ["python"]
