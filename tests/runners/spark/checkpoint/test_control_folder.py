"""Control records of a query on Spark: each is written once, and read in one micro-batch, which may be done again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.cli.main import main
from slackwater.errors import PlanError
from slackwater.operators.why import Grounds
from slackwater.runners.control_records import Controllable, ControlRecord
from slackwater.runners.spark.checkpoint.control_folder import ControlFolder
from slackwater.runners.spark.storage.files import LocalFiles
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.spark.query import SparkQuery

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_ROWS = pa.schema({"at": pa.int64(), "k": pa.string()})
_NAMES = ("orders", "refunds")
_BATCH = sw.Every.batch()


# ---- the folder ------------------------------------------------------------------------------------------------------


def _folder(path: Path) -> ControlFolder:
    return ControlFolder(Place.written(str(path)), LocalFiles(), Controllable())


def test_whoever_writes_at_the_same_time_gets_a_number_of_their_own(tmp_path: Path) -> None:
    """And no record is lost."""
    folder = _folder(tmp_path)
    with ThreadPoolExecutor(8) as writers:
        numbers = list(writers.map(lambda _: folder.write(ControlRecord(0, "flush")), range(60)))
    assert sorted(numbers) == list(range(1, 61)) == folder.numbers()
    written = [ControlRecord.of_text(file.read_text()) for file in sorted((tmp_path / "control").glob("*.json"))]
    assert [record.number for record in written] == list(range(1, 61))
    assert [file.name for file in (tmp_path / "control").iterdir() if not file.name.endswith(".json")] == []


def test_what_somebody_else_has_put_there_is_no_record(tmp_path: Path) -> None:
    """It is shown as such, and its number is taken."""
    folder = _folder(tmp_path)
    folder.write(ControlRecord(0, "flush"))
    (tmp_path / "control/0000000002.json").write_text("pause orders")
    (tmp_path / "control/readme.txt").write_text("what is this")
    assert folder.asked() == {1: "flush", 2: "this is no record"}
    assert folder.write(ControlRecord(0, "flush")) == 3


# ---- a query ---------------------------------------------------------------------------------------------------------


class _Given(dict[tuple[str, int], list[Any]]):
    """What micro-batches gave, by output and number; one that is done again gives the same."""

    def taker(self, output: str) -> Any:
        """A sink."""

        def take(rows: DataFrame, batch_id: int) -> None:
            found = sorted(tuple(row) for row in rows.collect())
            assert self.setdefault((output, batch_id), found) == found, (
                "a micro-batch that is done again gives the same"
            )

        return take

    def in_order(self, output: str) -> list[list[Any]]:
        """What each gave, in order."""
        return [rows for (name, _), rows in sorted(self.items()) if name == output]


def _counts(streams: Sequence[sw.DisorderedStream]) -> Any:
    both = sw.union(*(one.sort(patience=2, every=_BATCH) for one in streams))
    return both.tumbling(10).group_by("k").aggregate(n=sw.count())


class _Query:
    """A query of two streams, round by round: started again from its checkpoint whenever that is asked for."""

    def __init__(self, session: SparkSession, folder: Path, shards: int) -> None:
        self._session, self._folder, self._shards = session, folder, shards
        self.given = _Given()
        for name in _NAMES:
            (folder / name).mkdir()
        self.checkpoint = folder / "checkpoint"
        self._files = 0
        self.query = self.start(control=True)

    def start(self, **options: Any) -> SparkQuery:
        """Start it."""
        frames = [
            self._session.readStream.schema("at long, k string").parquet(str(self._folder / name)) for name in _NAMES
        ]
        streams = [sw.stream(frame, time="at", name=name) for frame, name in zip(frames, _NAMES, strict=True)]
        self.query = _counts(streams).start(
            checkpoint=str(self.checkpoint),
            main=self.given.taker("main"),
            late={name: self.given.taker(f"late {name}") for name in _NAMES},
            shards=self._shards,
            **options,
        )
        return self.query

    def send(self, name: str, *at: int) -> None:
        """Send rows of several keys, in a file that appears whole."""
        self._files += 1
        hidden = self._folder / name / f".{self._files}"
        pq.write_table(pa.table({"at": at, "k": ["xyz"[time % 3] for time in at]}, schema=_ROWS), hidden)
        hidden.rename(self._folder / name / f"{self._files}.parquet")

    def do_the_last_again(self) -> None:
        """Stop it, and be as if it had died between the last sink's commit and Spark's."""
        self.query.stop()
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        for file in (commits / str(last), commits / f".{last}.crc"):
            file.unlink(missing_ok=True)
        self.start()


def _in_process() -> tuple[sw.Query, dict[str, sw.PushSource], dict[str, list[Any]]]:
    """The same plan in process."""
    sources = {name: sw.PushSource(_ROWS, name=name) for name in _NAMES}
    counts = _counts([sw.stream(source, time="at") for source in sources.values()])
    given: dict[str, list[Any]] = {"main": [], "late": []}
    query = counts.open(
        lambda rows: given["main"].extend(tuple(row.values()) for row in rows.to_pylist()),
        on_late=lambda rows: given["late"].extend(tuple(row.values()) for row in rows.to_pylist()),
        clock=sw.ManualClock(),
    )
    return query, sources, given


@pytest.mark.parametrize("shards", [1, 3])
def test_a_query_is_steered_as_in_process_also_where_micro_batches_are_done_again(
    session: SparkSession, tmp_path: Path, shards: int
) -> None:
    """With rows, and alone; two records in one micro-batch are applied by their numbers."""
    one = _Query(session, tmp_path, shards)
    query, sources, given = _in_process()

    def both(send: dict[str, tuple[int, ...]], ask: Any = None, *, again: bool = False) -> None:
        """Let both take rows, and then what is asked; on Spark in one micro-batch of its own each."""
        for name, at in send.items():
            one.send(name, *at)
            sources[name].push([{"at": time, "k": "xyz"[time % 3]} for time in at])
        one.query.work()
        query.work()
        if ask is not None:
            ask(one.query.control)
            ask(query.control)
        one.query.work()
        if again:
            one.do_the_last_again()
            one.query.work()
        found = {
            "main": one.given.in_order("main"),
            "late": [*one.given.in_order("late orders"), *one.given.in_order("late refunds")],
        }
        for output, rows in found.items():
            assert sorted(row for some in rows for row in some) == sorted(given[output]), (output, send)

    both({"orders": (1, 2, 15, 27), "refunds": (3,)})
    both({}, lambda control: control.pause("refunds"), again=True)
    reasons = {reason.step: reason for reason in one.query.why()}
    assert reasons["punctuate#2"].ground is Grounds.ASSUMED
    both({"orders": (44, 45, 46)}, again=True)
    both({"refunds": (30, 44)})
    both({}, lambda control: (control.patience(9, step="punctuate#1"), control.resume("refunds")), again=True)
    both({"orders": (60,)}, lambda control: control.flush(), again=True)
    both({"orders": (50, 75), "refunds": (58,)})
    assert any(given["late"])
    read = [(record.number, record.applied) for record in one.query.control.records()]
    assert read == [(1, True), (2, True), (3, True), (4, True)]
    one.query.stop()


def test_a_record_that_cannot_be_applied_is_left_alone_and_shown(session: SparkSession, tmp_path: Path) -> None:
    """The query goes on, and so do the records behind it."""
    one = _Query(session, tmp_path, 1)
    one.send("orders", 1, 20)
    one.query.work()
    control = tmp_path / "checkpoint/control"
    for number, text in ((1, "pause orders"), (2, '{"format": 1, "number": 2, "action": "pause", "source": "x"}')):
        (control / f".{number}").write_text(text)
        (control / f".{number}").rename(control / f"{number:010}.json")
    assert one.query.control.pause("refunds") == 3
    one.query.work()
    assert one.given.in_order("main")[-1] == [(0, 10, "y", 1)]
    *_, second, third = one.query.control.records()
    assert str(second).startswith("2  pause source=x  left alone: this query has no such source: source x; ")
    assert str(third) == "3  pause source=refunds  applied in micro-batch 1"
    assert one.query._asked()[-1][1].left_alone == 2
    one.query.stop()


def test_what_is_chosen_with_the_checkpoint_stays(session: SparkSession, tmp_path: Path) -> None:
    """Spark's log of offsets speaks of the records, or does not."""
    one = _Query(session, tmp_path, 1)
    one.query.stop()
    one.start().stop()
    with pytest.raises(PlanError, match="this query has a control stream, and keeps it"):
        one.start(control=False)
    with pytest.raises(PlanError, match="control= says whether records are read"):
        one.start(control="yes")
    one.checkpoint = tmp_path / "other"
    one.given.clear()
    one.start().stop()
    assert not (one.checkpoint / "control").exists()
    with pytest.raises(PlanError, match=r"(?s)started without control=True.*with a new checkpoint"):
        one.start(control=True)
    with pytest.raises(PlanError, match="this query reads no control records"):
        _ = one.query.control
    assert main(["control", str(one.checkpoint), "flush"]) == 2


def test_the_command_line_writes_records(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Spark, as far as the last start has noted what may be asked."""
    one = _Query(session, tmp_path, 1)
    one.send("orders", 1, 20)
    place = str(one.checkpoint)

    def asked(*words: str, code: int = 0) -> str:
        assert main(["control", place, *words]) == code
        out, err = capsys.readouterr()
        return err if code else out

    assert asked("pause", "refunds") == "record 1: the query reads it with its next micro-batch\n"
    assert asked("patience", "5", "--step=punctuate#1").startswith("record 2: ")
    assert asked("flush").startswith("record 3: ")
    assert asked() == asked("list") == ("1  pause source=refunds\n2  patience step=punctuate#1 patience=5\n3  flush\n")
    assert "several steps have a patience" in asked("patience", "5", code=2)
    assert "this duration does not fit a stream of sequence numbers" in asked(
        "patience", "5s", "--step=punctuate#1", code=2
    )
    assert "this query has no such source" in asked("retire", "returns", code=2)
    assert "resume needs to know whom" in asked("resume", code=2)
    assert "this query has no such replica" in asked("detach", "orders", code=2)
    assert "this is no time" in asked("attach", "orders", "--complete-from=soon", code=2)
    assert "flush takes no name" in asked("flush", "refunds", code=2)
    assert "no query has this checkpoint" in _error(["control", str(tmp_path / "none"), "flush"], capsys)
    one.query.work()
    assert [str(record).split("  ")[-1][:7] for record in one.query.control.records()] == ["applied"] * 3
    assert json.loads((one.checkpoint / "_slackwater/query.json").read_text())["control"]["sources"] == dict.fromkeys(
        _NAMES, ""
    )
    one.query.stop()


def _error(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    return capsys.readouterr().err
