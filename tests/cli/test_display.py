"""How a run is shown while it goes on: in place on a terminal, in lines elsewhere."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

import slackwater as sw
from slackwater.cli.display import Display
from slackwater.cli.standing import Standing

if TYPE_CHECKING:
    import pytest


def _standing(rows: int) -> Standing:
    query = sw.stream([{"at": 1}, {"at": 7}], time="at", name="tides").sort(patience=3).open([].append, on_late=print)
    query.step()
    return Standing(query.progress(), query.why(), float(rows))


def test_a_terminal_shows_a_bar_and_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the share of rows that are read, where it is known how many there are."""
    monkeypatch.setenv("TERM", "xterm")
    for rows, bar in ((4, "50%"), (None, "running")):
        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=100, color_system=None)
        with Display(rows, quiet=False, console=console) as display:
            assert display.wanted
            display.show(_standing(9))
            assert not display.wanted
        shown = text.getvalue()
        assert bar in shown
        assert "2 rows in (9/s), 1 out, 1 held, 0 late" in shown
        assert "source#1  read up to 7" in shown
        assert "punctuate#1  complete before 4, the newest row is at 7" in shown


def test_elsewhere_it_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Every few seconds; none at once, and none where nobody wants any."""
    with Display(None, quiet=False) as display:
        assert not display.wanted
        display.show(_standing(9))
    assert capsys.readouterr().err == ("slackwater: 2 rows in (9/s), 1 out, 1 held, 0 late; complete before 4\n")
    with Display(None, quiet=True) as display:
        assert not display.wanted
