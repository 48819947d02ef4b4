"""A checkpoint that is taken to another number of shards: nothing is lost, nothing doubled, whoever is killed when."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi
from deltalake import DeltaTable
from without_spark import in_process

import slackwater as sw
from slackwater.cli.main import main
from slackwater.errors import PlanError
from slackwater.runners.spark import runner
from slackwater.runners.spark.checkpoint.ownership import Run
from slackwater.runners.spark.checkpoint.rescaling import Rescaling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

_COLUMNS = "at long, k string, n long"
_FILES = 4
_MANY = 100_000


def _file(number: int, rows: int = 300) -> pa.Table:
    """Rows of which a few are late, and most wait for a while."""
    rng = Random(number)
    at = [max(0, number * 100 + rng.randint(0, 99) - rng.choice([0, 0, 0, 40, 400])) for _ in range(rows)]
    keys, n = (rng.choice("abcdefgh") for _ in at), (rng.randint(0, 9) for _ in at)
    return pa.table({"at": at, "k": list(keys), "n": list(n)}, pa.schema({"at": "int64", "k": "string", "n": "int64"}))


def _bring(folder: Path, numbers: Sequence[int]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        hidden = folder / f"in/.{number}"
        pq.write_table(_file(number), hidden)
        os.utime(hidden, (1_000 + number, 1_000 + number))
        hidden.rename(folder / f"in/{number}.parquet")


def _planned(streams: list[sw.DisorderedStream], *, also: bool = False) -> list[Any]:
    """Rows wait in a sort, then in a join, and as groups. There may also be a step that a query can do without."""
    ordered = streams[0].sort(patience=120, every=sw.Every.batch())
    pairs = ordered.join(ordered.select("k", other="n"), on="k", within=5)
    counted = pairs.tumbling(50).group_by("k").aggregate(rows=sw.count(), most=sw.max("other"))
    sums = ordered.tumbling(80).group_by("k").aggregate(sum=sw.sum("n"))
    return [sums.where(nw.col("sum") >= 0) if also else sums, counted]


class _Lives:
    """One query that is started again and again; it is flushed in the end. It writes to a folder and two tables."""

    def __init__(self, session: SparkSession, folder: Path, postgres: str) -> None:
        self._session, self._folder, self._postgres = session, folder, postgres
        self.seen: list[int] = []
        self.wish = folder / "checkpoint/_slackwater/wish.json"

    def start(self, *, also: bool = False, **options: Any) -> sw.SparkQuery:
        """Start it."""
        frame = self._session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1)
        rows = sw.stream(frame.parquet(str(self._folder / "in")), time="at", name="source 0")
        sums, pairs = _planned([rows], also=also)
        given = {"trigger": {"availableNow": True}, "at_end": "flush", **options}
        return sw.start_together(
            [(sums, str(self._folder / "sums")), (pairs, sw.DeltaSink(self._folder / "pairs"))],
            checkpoint=str(self._folder / "checkpoint"),
            late=sw.PostgresSink(self._postgres, "late"),
            metrics=lambda _, batch_id: self.seen.append(batch_id),
            **given,
        )

    def live(self, *, to_the_end: bool = False, **options: Any) -> sw.SparkQuery:
        """Run it until all there is has been taken, or, if it is to be, flushed."""
        query = self.start(**options)
        if to_the_end:
            assert query.wait()
        else:
            query.work()
            query.stop()
        return query

    def rows(self, output: str) -> Counter[str]:
        """All rows that an output has."""
        if output == "sums":
            table = pq.read_table(self._folder / output, partitioning=None)
        elif output == "pairs":
            table = DeltaTable(self._folder / output).to_pyarrow_table()
        else:
            with dbapi.connect(self._postgres) as connection, connection.cursor() as cursor:
                table = cursor.execute(f"SELECT * FROM {output}").fetch_arrow_table()
        return Counter(map(repr, table.to_pylist()))


def _expected(output: str) -> Counter[str]:
    cuts = [[_file(number) for number in range(_FILES)]]
    return Counter(repr(row) for given in in_process(_planned, cuts) for row in given[output])


def _assert_complete(lives: _Lives) -> None:
    names = {"main 0": "sums", "main 1": "pairs", "punctuate#1": "late"}
    for output, folder in names.items():
        assert lives.rows(folder) == _expected(output) != Counter()


@pytest.mark.parametrize("numbers", [(2, 3, 2), pytest.param((2, 8, 3), marks=pytest.mark.long)])
def test_more_shards_then_fewer_give_the_same_rows(
    session: SparkSession, tmp_path: Path, postgres: str, numbers: tuple[int, int, int]
) -> None:
    """What was held goes out once; micro-batches, totals, files and tables go on as if nothing had been.

    The command wishes for more, and the program says that there are to be fewer.
    """
    few, more, fewer = numbers
    lives = _Lives(session, tmp_path, postgres)
    _bring(tmp_path, [0, 1])
    first = lives.live(shards=few)
    held = first.progress()
    _bring(tmp_path, [2])
    assert main(["rescale", str(tmp_path / "checkpoint"), f"--shards={more}"]) == 0
    second = lives.live()
    assert second.last_micro_batch()["shards"] == more
    assert second.progress().total_in == held.total_in + 300, "what was counted goes with it"
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir() if path.name[0] != "_") == [
        "flush",
        "rescaled",
    ], "what was there before is gone"
    _bring(tmp_path, [3])
    third = lives.live(shards=fewer, rescale=True, to_the_end=True, also=True)
    assert third.last_micro_batch()["batch_id"] == lives.seen[-1] == _FILES
    assert lives.seen == list(range(_FILES + 1)), "files, and the flush; none twice"
    assert held.held["all shards"] > 300
    assert third.progress().total_late == lives.rows("late").total() > 0
    _assert_complete(lives)
    with pytest.raises(PlanError, match=r"(?s)cannot be taken to another number.*being flushed, or has been"):
        lives.start(shards=more, rescale=True, also=True)


@pytest.mark.long  # a minute; many rows are held in many segments
def test_many_rows_that_are_held_go_where_they_belong(session: SparkSession, tmp_path: Path) -> None:
    """The same with half a million rows, of which nearly all are held when shards become others."""
    frame = session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1)
    (tmp_path / "in").mkdir()
    for number in range(_FILES):
        at = np.arange(number * _MANY, (number + 1) * _MANY)
        columns = {"at": at, "k": [f"key {time % 1_000}" for time in at.tolist()], "n": at % 10}
        pq.write_table(pa.table(columns), tmp_path / f"in/{number}.parquet")

    def live(**options: Any) -> sw.SparkQuery:
        rows = sw.stream(frame.parquet(str(tmp_path / "in")), time="at")
        ordered = rows.sort(patience=(_FILES - 1) * _MANY, late=sw.Late.drop())
        sums = ordered.tumbling(_MANY).group_by("k").aggregate(rows=sw.count(), sum=sw.sum("n"))
        paths = {name: str(tmp_path / name) for name in ("rows", "sums", "checkpoint")}
        return sw.start_together(
            [(ordered, paths["rows"]), (sums, paths["sums"])],
            checkpoint=paths["checkpoint"],
            trigger={"availableNow": True},
            at_end="flush",
            **options,
        )

    for options in ({"shards": 2}, {"shards": 8, "rescale": True}):
        query = live(**options)
        query.work()
        assert query.progress().held["all shards"] >= (_FILES - 1) * _MANY
        query.stop()
    assert live(shards=3, rescale=True).wait()
    rows = pq.read_table(tmp_path / "rows", partitioning=None)
    assert sorted(rows["at"].to_pylist()) == list(range(_FILES * _MANY))
    sums = pq.read_table(tmp_path / "sums", partitioning=None)
    assert sums.num_rows == _FILES * 1_000
    assert set(sums["rows"].to_pylist()) == {_MANY // 1_000}
    assert sum(sums["sum"].to_pylist()) == sum(rows["n"].to_pylist())


class _Killed(Exception):
    """Stands for the end of a process."""


def _start_and_die(lives: _Lives, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, fatal: Any) -> None:
    """Start with other shards, given or wished for, where a step is the last thing that happens."""
    monkeypatch.setattr(owner, step, fatal)
    with pytest.raises(_Killed):
        lives.start(shards=2, rescale=not lives.wish.exists())
    monkeypatch.undo()


def _fatal(*_: Any, **__: Any) -> None:
    raise _Killed


@pytest.mark.parametrize(
    "steps", [("_unite",), pytest.param(("_split", "_unite", "_lay_out_logs"), marks=pytest.mark.long)]
)
def test_who_is_killed_at_it_leaves_the_checkpoint_as_it_was_or_has_done_it(
    session: SparkSession, tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch, steps: Sequence[str]
) -> None:
    """Before a step, the last one, the query itself, and before a wish for it is forgotten."""
    lives = _Lives(session, tmp_path, postgres)
    _bring(tmp_path, range(2))
    lives.live(shards=3)
    (tmp_path / "checkpoint/commits/1").unlink()  # it has been written, and not committed
    for step in steps:
        _start_and_die(lives, monkeypatch, Rescaling, step, _fatal)
    lives.live()  # in as many as before
    assert lives.seen == [0, 1, 1]
    write = Run.write
    _start_and_die(lives, monkeypatch, Run, "write", lambda run, on: _fatal() if run.log else write(run, on))
    (tmp_path / "checkpoint/commits/1").unlink()
    _bring(tmp_path, [2])
    assert main(["rescale", str(tmp_path / "checkpoint"), "--shards=2"]) == 0
    _start_and_die(lives, monkeypatch, runner, "remove_earlier", _fatal)
    assert lives.wish.exists()
    with pytest.raises(PlanError, match=r"(?s)somebody wished for another number.*shards=3.*wished were +2"):
        lives.start(shards=3, rescale=True)
    _bring(tmp_path, [3])
    query = lives.live(to_the_end=True)  # it has two by now
    assert query.last_micro_batch()["shards"] == 2
    assert not lives.wish.exists()
    assert lives.seen == [0, 1, 1, 1, 2, 3, 4]
    _assert_complete(lives)


def test_as_many_shards_as_before_need_no_rescaling(
    session: SparkSession, tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who always says rescale=True pays for it when the number changes, and not otherwise."""
    lives = _Lives(session, tmp_path, postgres)
    _bring(tmp_path, [])
    monkeypatch.setattr(Rescaling, "carry_out", _fatal)
    for _ in range(2):
        lives.start(shards=2, rescale=True).stop(within=None)
    with pytest.raises(_Killed):
        lives.start(shards=3, rescale=True)
    with pytest.raises(PlanError, match=r"(?s)timers cannot be taken.*timeout +1s"):
        lives.start(shards=3, rescale=True, timeout="1s", trigger={"processingTime": "1s"}, at_end=None)
    with pytest.raises(PlanError, match="rescale= says whether"):
        lives.start(shards=2, rescale=3)


def test_steps_that_cannot_be_parted_are_refused_by_name(session: SparkSession, tmp_path: Path) -> None:
    """Nothing is written then; in as many shards as before the query goes on."""
    _bring(tmp_path, [0])

    def start(**options: Any) -> sw.SparkQuery:
        frame = session.readStream.schema(_COLUMNS).parquet(str(tmp_path / "in"))
        ordered = sw.stream(frame, time="at").sort(patience=10, late=sw.Late.drop())
        return sw.merge_replicas(ordered, ordered).start(
            checkpoint=str(tmp_path / "checkpoint"), main=str(tmp_path / "out"), **options
        )

    start(shards=2).stop(within=None)
    record = (tmp_path / "checkpoint/_slackwater/query.json").read_text()
    with pytest.raises(PlanError, match="cannot be taken to another number of shards"):
        start(shards=3, rescale=True)
    assert (tmp_path / "checkpoint/_slackwater/query.json").read_text() == record
    start().stop()


def test_a_stateful_step_of_the_users_own_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Its state has as many partitions as ours, and nobody here knows how to part it."""
    _bring(tmp_path, [0])

    def start(**options: Any) -> sw.SparkQuery:
        frame = session.readStream.schema(_COLUMNS).parquet(str(tmp_path / "in")).dropDuplicates(["n"])
        counts = sw.stream(frame, time="at").tumbling(5).sort(patience=10, late=sw.Late.drop()).group_by("k")
        return counts.aggregate(n=sw.count()).start(
            checkpoint=str(tmp_path / "checkpoint"), main=str(tmp_path / "out"), **options
        )

    query = start(shards=2)
    query.work()
    query.stop()
    with pytest.raises(PlanError, match=r"(?s)cannot be taken to another number.*a stateful step of its own"):
        start(shards=3, rescale=True)
