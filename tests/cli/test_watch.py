"""What a checkpoint says of its query, without Spark: how it stands, why, whether it runs; mistakes are one message."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

import slackwater as sw
from slackwater.cli import watch_command
from slackwater.cli.checkpoint_view import seems_over, state_in_words
from slackwater.cli.display import in_place
from slackwater.cli.main import main
from slackwater.progress.clock import SystemClock
from slackwater.runners.spark.checkpoint.ownership import as_record
from slackwater.runners.spark.checkpoint.status import FAILED, RUNNING, STOPPED, Status
from slackwater.runners.spark.shard.reasons import _form
from slackwater.runners.spark.state.segments import VERSION
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable

_NOW = SystemClock().now()
"""The present of each test."""

_MINUTE = 60_000_000
_WHY = sw.Why(
    "heartbeats#1", 5, 8, sw.Grounds.PROVEN, "each source: in order", "b", "a", 9, held={"sort#1": 2}, calendar=False,
    origins=(sw.OriginWhy("b", 5, 2, sw.Grounds.PROVEN, "in order"),),
)  # fmt: skip
_FIGURES = {
    "rows_in": 30,
    "rows_out": 20,
    "late": 1,
    "duplicates": 0,
    "rows_in_total": 1000,
    "rows_out_total": 900,
    "late_total": 25,
    "held": 4,
    "complete_before": 5,
    "open_events": 0,
    "open_events_from": 0,
    "why": [json.dumps([_form(_WHY, {})])] * 2,
}


def _status(**changes: Any) -> Status:
    batch = sw.MicroBatch("q" * 32, "tides", 7, 2.0, _FIGURES, calendar=False)
    place = socket.gethostname(), os.getpid()
    status = Status("q" * 32, "r" * 32, 3, "tides", *place, RUNNING, _NOW, _NOW, micro_batch=batch)
    return dataclasses.replace(status, **changes)


@pytest.fixture(autouse=True)
def _present(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may have taken minutes since this file was read."""
    monkeypatch.setattr(sys.modules[__name__], "_NOW", SystemClock().now())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query, as its start leaves it."""
    folder = tmp_path / "checkpoint" / "_slackwater"
    folder.mkdir(parents=True)
    text = as_record(query="q" * 32, run="r" * 32, epoch=3, plan={}, state=VERSION)
    (folder / "query.json").write_text(text)
    return folder.parent


def _leave(checkpoint: Path, status: Status) -> None:
    (checkpoint / "_slackwater/status.json").write_text(status.as_text())


def test_why_says_whom_the_query_waits_for(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the query itself had it behind its last micro-batch."""
    _leave(checkpoint, _status())
    assert main(["why", str(checkpoint)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"query tides, start 3: running on {socket.gethostname()}, last seen ")
    assert lines[1].startswith("micro-batch 7, ")
    assert lines[1].endswith(" ago: 30 rows in, 20 out, 1 late, in 2.0 s")
    assert lines[2] == "1,000 rows in (15/s), 900 out, 4 held, 25 late (2.50 %)"
    assert lines[3] == "complete before 5"
    both = dataclasses.replace(_WHY, held={"sort#1": 4}, origins=(dataclasses.replace(_WHY.origins[0], held=4),))
    assert "\n".join(lines[4:]) == str(both)


def test_why_says_it_to_other_programs(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all figures, and reasons in fields."""
    _leave(checkpoint, _status())
    assert main(["why", str(checkpoint), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["over"], found["micro_batch"], found["late_share"]) == ("running", False, 7, 0.025)
    assert found["figures"]["rows_in_total"] == 1000
    (why,) = found["why"]
    assert (why["source"], why["ground"], why["held"]) == ("b", "PROVEN", {"sort#1": 4})
    assert [origin["origin"] for origin in why["origins"]] == ["b"]


def test_a_query_without_a_micro_batch_says_so(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is there, and has nothing to show."""
    _leave(checkpoint, _status(micro_batch=None))
    assert main(["why", str(checkpoint)]) == 0
    assert "no micro-batch yet in which a shard worked" in capsys.readouterr().out
    assert main(["why", str(checkpoint), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["micro_batch"] is None


@pytest.mark.parametrize(
    ("changes", "after", "words", "over"),
    [
        ({}, 5_000_000, "running on HOST, last seen 5 s ago", False),
        ({}, 2 * _MINUTE, "no sign of life for 2 min: its driver is gone, or a micro-batch takes very long", False),
        ({"state": STOPPED}, 2 * _MINUTE, "stopped 2 min ago, or came to its end", True),
        ({"state": FAILED, "failure": "a\nb"}, 7_200_000_000, "failed 2 h ago: a", True),
        ({"process": 2**22 + 1}, _MINUTE, "gone: its driver, process 4194305, does not run any more", True),
        ({"process": 2**22 + 1, "host": "another"}, 5_000_000, "running on another, last seen 5 s ago", False),
    ],
)
def test_whether_it_runs_is_shown_as_far_as_it_is_known(
    changes: dict[str, Any], after: int, words: str, over: bool
) -> None:
    """By what its driver has left, by whether it is there, and by how long it has been silent."""
    status = _status(**changes)
    assert state_in_words(status, _NOW + after).startswith(words.replace("HOST", socket.gethostname()))
    assert seems_over(status) is over


def test_a_long_micro_batch_is_no_sign_of_death() -> None:
    """Within one there are no signs of life; those before say how long it may take."""
    batch = sw.MicroBatch("q", None, 1, 100.0, _FIGURES)
    assert state_in_words(_status(micro_batch=batch), _NOW + 5 * _MINUTE).startswith("running")
    assert state_in_words(_status(micro_batch=batch), _NOW + 9 * _MINUTE).startswith("no sign of life")


class _Looks:
    """Instead of a pause between two looks: each leaves the next status, and the last one an end."""

    def __init__(self, leave: Callable[[Status | str], None], *statuses: Status | str) -> None:
        self._leave, self._left = leave, list(statuses)

    def Event(self) -> _Looks:  # noqa: N802 - as threading calls it
        return self

    def wait(self, seconds: float) -> None:
        assert seconds == 0.5
        if not self._left:
            raise KeyboardInterrupt
        self._leave(self._left.pop(0))


def _watched(monkeypatch: pytest.MonkeyPatch, checkpoint: Path, *statuses: Status | str) -> None:
    def leave(status: Status | str) -> None:
        text = status if isinstance(status, str) else status.as_text()
        (checkpoint / "_slackwater/status.json").write_text(text)

    monkeypatch.setattr(watch_command, "threading", _Looks(leave, *statuses))


def _batch(number: int) -> sw.MicroBatch:
    return sw.MicroBatch("q" * 32, "tides", number, 2.0, _FIGURES, calendar=False)


def test_watch_prints_a_line_for_each_micro_batch_until_the_query_ends(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Signs of life alone print nothing; a status that is torn is passed over."""
    _leave(checkpoint, _status())
    later = _status(micro_batch=_batch(8), at=_NOW + 1)
    news: list[Status | str] = [
        _status(seen=_NOW + 1),
        '{"format": 1, "que',
        later,
        dataclasses.replace(later, state=STOPPED),
    ]
    _watched(monkeypatch, checkpoint, *news)
    assert main(["watch", str(checkpoint), "--every=0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    line = "1,000 rows in (15/s), 900 out, 4 held, 25 late (2.50 %); complete before 5; waits for b"
    assert [text.partition(", start 3: ")[2].split()[0] for text in lines if "start 3" in text] == [
        "running",
        "stopped",
    ]
    assert [text for text in lines if "start 3" not in text] == [f"7: {line}", f"8: {line}"]


def test_watch_prints_json_and_ends_by_ctrl_c(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The query goes on; the exit code is that of the shell."""
    _leave(checkpoint, _status())
    _watched(monkeypatch, checkpoint, _status(micro_batch=_batch(8)))
    assert main(["watch", str(checkpoint), "--every=0.5", "--json"]) == 130
    assert [json.loads(line)["micro_batch"] for line in capsys.readouterr().out.splitlines()] == [7, 8]


def test_watch_looks_once_if_asked(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And shows what `why` does."""
    _leave(checkpoint, _status(state=STOPPED))
    shown = []
    for arguments in (["watch", str(checkpoint), "--once"], ["why", str(checkpoint)], ["watch", str(checkpoint)]):
        assert main(arguments) == 0
        shown.append(capsys.readouterr().out.splitlines())
    assert shown[0][2:] == shown[1][2:]
    assert len(shown[2]) == 2


def test_a_terminal_shows_all_of_it_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before is replaced."""
    monkeypatch.setenv("TERM", "xterm")
    text = io.StringIO()
    with in_place(Console(file=text, force_terminal=True, width=80, color_system=None)) as show:
        show("first")
        show("second")
    assert text.getvalue().index("first") < text.getvalue().index("second")
    assert "\x1b[2K" in text.getvalue()


def _sink(folder: Path) -> None:
    (folder / "_slackwater").mkdir()
    (folder / "_slackwater/owner.json").write_text("{}")


def _of_spark(folder: Path) -> None:
    (folder / "offsets").mkdir()
    (folder / "metadata").touch()


def _with(name: str, text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "_slackwater").mkdir()
        record = as_record(query="q", run="r", epoch=1, plan={}, state=VERSION)
        (folder / "_slackwater/query.json").write_text(record)
        (folder / "_slackwater" / name).write_text(text)

    return make


def _without_text(folder: Path) -> None:
    _with("status.json", "")(folder)
    (folder / "_slackwater/query.json").write_bytes(b"\xff")


_MISTAKES: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing there": (Path.rmdir, "no query has this checkpoint"),
    "an empty folder": (lambda _: None, "it is   empty"),
    "a folder of files": (lambda folder: (folder / "a.csv").touch(), "this is no checkpoint"),
    "the folder of a sink": (_sink, "this is the folder of a sink"),
    "a query of others": (_of_spark, "a query that leaves no status"),
    "no status": (_with("other", ""), "has left no status"),
    "a torn status": (_with("status.json", '{"format": 1, "query'), "has left no status"),
    "an empty status": (_with("status.json", ""), "has left no status"),
    "a status of other fields": (_with("status.json", as_record(query="q")), "has left no status"),
    "a status of another version": (_with("status.json", '{"format": 2}'), "another version of slackwater"),
    "a damaged owner": (_with("query.json", "{"), "the owner file of a folder is damaged"),
    "no text": (_without_text, "the owner file of a folder is damaged"),
    "states of another version": (
        _with("query.json", as_record(query="q", run="r", epoch=1, plan={}, state=-1)),
        "a format version that this release cannot read",
    ),
    "a folder for a file": (lambda folder: (folder / "_slackwater/query.json").mkdir(parents=True), "cannot be read"),
}


@pytest.mark.parametrize("command", ["why", "watch"])
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_what_is_no_checkpoint_is_named(
    command: str, mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For what it is."""
    make, part = _MISTAKES[mistake]
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    assert main([command, str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("slackwater: ")
    assert part in err
    assert "Traceback" not in err


def test_options_that_are_wrong_are_named(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As those of other commands."""
    _leave(checkpoint, _status())
    for option, part in (("--every=0", "above zero"), ("--every=soon", "--every"), ("--onec", "Did you mean --once?")):
        assert main(["watch", str(checkpoint), option]) == 2
        assert part in capsys.readouterr().err
    assert main(["why"]) == 2
    assert "CHECKPOINT" in capsys.readouterr().err


def test_a_status_goes_to_a_file_and_back() -> None:
    """As it was; one that has more or less in it is none."""
    status, place = _status(), Place.written("/c")
    assert Status.of_text(status.as_text(), place) == status
    record = json.loads(status.as_text())
    assert Status.of_text(json.dumps({**record, "more": 1}), place) is None
