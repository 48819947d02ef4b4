"""The site builds without a warning, opens without a network, and its reference has every public name."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import slackwater as sw

_ROOT = Path(__file__).parents[2]
_REFERENCE = _ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built in a folder of their own: caches and pages are left behind where a site is built."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(_ROOT / "zensical.toml", folder)
    for name in ("docs", "tools/site"):
        shutil.copytree(_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src").symlink_to(_ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    env = os.environ | {"NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stderr
    return folder / "build" / "site"


def test_every_page_is_built(site: Path) -> None:
    """Decisions, too, and the pages that the navigation names."""
    pages = {page.relative_to(_ROOT / "docs").with_suffix(".html") for page in (_ROOT / "docs").rglob("*.md")}
    assert sorted(str(page) for page in pages if not (site / page).exists()) == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """No fonts, no scripts, no pictures: they open without a network. Links are for who follows them."""
    loaded = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s\">]+")
    styles = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^\s\"')]+")
    found = [(page.name, link) for page in site.rglob("*.html") for link in loaded.findall(page.read_text("utf-8"))]
    assert [one for one in found if 'rel="canonical"' not in one[1]] == []
    assert [
        (page.name, styles.findall(page.read_text("utf-8")))
        for page in site.rglob("*.css")
        if styles.search(page.read_text("utf-8"))
    ] == []


def test_examples_in_docstrings_are_shown_as_code(site: Path) -> None:
    """Where a line that begins with `>>>` would be a quotation in a quotation in a quotation."""
    page = (site / "reference" / "streams.html").read_text(encoding="utf-8")
    assert page.count("language-pycon") > 20
    assert "<blockquote>" not in page


def test_all_that_is_offered_has_its_place_in_the_reference() -> None:
    """Once; and the reference has nothing that is not offered."""
    named = [
        name
        for page in _REFERENCE.glob("*.md")
        for name in re.findall(r"^::: slackwater\.(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    on_spark = set(sw._ON_SPARK)
    assert sorted(named) == sorted({*sw.__all__, *on_spark, "errors", "temporal", "testing"})


def test_guides_and_reference_are_in_the_navigation() -> None:
    """A page that nobody finds is not there."""
    config = tomllib.loads((_ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    pages = set(re.findall(r"[\w/]+\.md", str(config["nav"])))
    there = {page.relative_to(_ROOT / "docs").as_posix() for page in (_ROOT / "docs").rglob("*.md")}
    to_come = {"guides/blue_green.md", "guides/command_line.md"}
    assert pages | to_come == {page for page in there if not page.startswith("decisions/")} | to_come


def test_examples_are_put_between_fences() -> None:
    """From the line that begins one to the next empty one, or the end; text stays as it is."""
    fenced = runpy.run_path(str(_ROOT / "tools" / "site" / "doctest_fences.py"))["fenced"]
    assert (
        fenced("It adds.\n\n>>> 1 + 1\n2\n\nThat is all.") == "It adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nThat is all."
    )
    assert fenced("    >>> 1\n    1") == "```pycon\n    >>> 1\n    1\n```"
    assert fenced("No example.") == "No example."
