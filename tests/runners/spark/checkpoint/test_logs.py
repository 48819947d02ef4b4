"""What Spark keeps in a checkpoint, whole and damaged, as files alone: the first that is damaged is named."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.errors import RunError
from slackwater.runners.spark.checkpoint.logs import require_whole
from slackwater.runners.spark.checkpoint.ownership import Run
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from pathlib import Path

_SESSION: Any = SimpleNamespace()
_ABOUT = {"batchTimestampMs": 7}


def _log(checkpoint: Path, name: str, *lines: Any, version: str = "v1") -> None:
    path = checkpoint / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([version, *(line if isinstance(line, str) else json.dumps(line) for line in lines)]))


def _written(checkpoint: Path) -> None:
    """Two sources, files and a topic; micro-batch 11 is the last, and its files are listed up to 12."""
    _log(checkpoint, "metadata")
    (checkpoint / "metadata").write_text('{"id":"7"}')
    _log(checkpoint, "commits/10", {})
    _log(checkpoint, "offsets/10", _ABOUT, {"logOffset": 10}, "-")
    _log(checkpoint, "offsets/11", _ABOUT, {"logOffset": 11}, {"topic": {"0": 5}})
    entries = [{"path": f"file:///{number}", "timestamp": 1, "batchId": number} for number in range(13)]
    _log(checkpoint, "sources/0/9.compact", *entries[:10])
    for number in range(10, 13):
        _log(checkpoint, f"sources/0/{number}", entries[number])
    _log(checkpoint, "sources/1/0", "whatever it is", version="\0v1")


def _require_whole(checkpoint: Path) -> None:
    require_whole(_SESSION, Run("query", "run", 1, {}, Place.written(str(checkpoint))))


def _failure_text(checkpoint: Path) -> str:
    with pytest.raises(RunError, match="a file of the checkpoint is damaged") as refusal:
        _require_whole(checkpoint)
    return str(refusal.value)


def test_what_is_whole_or_not_there_yet_is_not_refused(tmp_path: Path) -> None:
    """Nor what Spark has no need of, other sources' logs, and files that it is just writing."""
    _require_whole(tmp_path / "nothing")
    _written(tmp_path)
    (tmp_path / "offsets/.12.tmp").write_text("v")
    (tmp_path / "offsets/3").write_text("")
    (tmp_path / "sources/0/3").write_text("")
    _require_whole(tmp_path)


@pytest.mark.parametrize("name", ["metadata", "commits/10", "offsets/10", "offsets/11", "sources/0/9.compact"])
@pytest.mark.parametrize("damage", [b"", b"v1", b"v1\n{}\n{", b"1", b"\xff"])
def test_what_is_damaged_is_named(tmp_path: Path, name: str, damage: bytes) -> None:
    """Empty, cut after a line and within one, without a version, no text."""
    _written(tmp_path)
    (tmp_path / name).write_bytes(damage)
    assert f"{tmp_path.as_uri()}/{name}\n" in _failure_text(tmp_path)


@pytest.mark.parametrize("number", [10, 11, 12])
def test_source_logs_are_all_needed_since_the_last_that_has_all_before(tmp_path: Path, number: int) -> None:
    """One that no micro-batch has come to may be missing, but not be without its lines."""
    _written(tmp_path)
    log = tmp_path / f"sources/0/{number}"
    log.write_text("v1")
    assert f"sources/0/{number}\n" in _failure_text(tmp_path)
    log.unlink()
    if number == 12:
        _require_whole(tmp_path)
    else:
        assert "it is missing" in _failure_text(tmp_path)


@pytest.mark.parametrize("number", [10, 11])
def test_offsets_that_lack_a_source_are_named(tmp_path: Path, number: int) -> None:
    """Spark would say that the plan has other sources."""
    _written(tmp_path)
    log = tmp_path / f"offsets/{number}"
    log.write_text(log.read_text().rpartition("\n")[0])
    failure_text = _failure_text(tmp_path)
    assert f"offsets/{number}\n" in failure_text
    assert "it lacks a source" in failure_text
