"""The guide to the command line prints what it shows, by the files that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from document_examples import ROOT, not_run, parsed, run

from slackwater.cli import standing
from slackwater.progress.clock import ManualClock

if TYPE_CHECKING:
    import pytest

_PAGE = ROOT / "docs/guides/command_line.md"
_FILES = re.compile(r"^`(?P<name>[\w.]+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_guide_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its files in a folder, and a clock that stands still."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(standing, "SystemClock", ManualClock)
    files = {found["name"]: found["text"] for found in _FILES.finditer(_PAGE.read_text(encoding="utf-8"))}
    assert list(files) == ["levels.toml", "stations.py"]
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    run(parsed(_PAGE), {"folder": str(tmp_path)})
    assert len(Path("late.csv").read_text().splitlines()) == 2


def test_only_what_needs_spark_is_not_run() -> None:
    """A query that runs on, and what its checkpoint shows."""
    assert not_run(_PAGE) == ["python", "console", "console"]
