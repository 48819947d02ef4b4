"""What tasks that pack rows know of late ones, on Spark: with a restart, and what it spares the shards."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.progress.instants import FOREVER
from slackwater.runners.spark.wire.late_bounds import LateBounds, announced_in_time_from

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_COLUMNS = "at long, k long, n long"
_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.int64(), "n": pa.int64()})
_TIMES = [
    [0, 3, 41, 20],
    [44, 17, 71, 19, 60],  # what was before 20 is late: 41 was the newest, and bands wait for 20
    [75, 12, 90, 52],
    [95, 49, 71, 100, 68, 130],
]  # fmt: skip
_WINDOW = 10


def _table(number: int) -> pa.Table:
    times = _TIMES[number]
    return pa.table({"at": times, "k": [at % 3 for at in times], "n": [100 + at for at in times]}, schema=_SCHEMA)


def _bring(folder: Path, *numbers: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        file = folder / "in" / f"{number}.parquet"
        pq.write_table(_table(number), file)
        os.utime(file, (100_000 + number, 100_000 + number))


def _noting(folder: Path) -> Callable[[pa.RecordBatch], pa.Array]:
    """A function of the user's that notes where it saw how many rows: in shards, or where they are packed."""

    def n_of(rows: pa.RecordBatch) -> pa.Array:
        names = {frame.name for frame in traceback.extract_stack()}
        place = "shards" if "handleInputRows" in names else "map tasks" if "packed" in names else ""
        if place:
            with (folder / "seen").open("a", encoding="utf-8") as file:
                file.writelines(f"{place} {n}\n" for n in rows.column("n").to_pylist())
        return rows.column("n")

    return n_of


_Function = Callable[[pa.RecordBatch], pa.Array]


def _banded(stream: sw.DisorderedStream, n_of: _Function) -> sw.PatienceBands:
    windows = stream.tumbling(_WINDOW).select("k", n=n_of).group_by("k")
    return windows.in_bands(5, 20, every=sw.Every.batch(), rows=sw.count(), total=sw.sum("n"))


def _sorted(stream: sw.DisorderedStream, n_of: _Function) -> sw.OrderedStream:
    windows = stream.sort(20, every=sw.Every.batch()).tumbling(_WINDOW).select("k", n=n_of).group_by("k")
    return windows.aggregate(rows=sw.count(), total=sw.sum("n"))


_Planned = Callable[[sw.DisorderedStream, _Function], sw.PatienceBands | sw.OrderedStream]


def _run(session: SparkSession, folder: Path, planned: _Planned, **options: Any) -> tuple[Counter[str], Any]:
    """Run to the end of what is there; how many rows were seen where meanwhile, and the query."""
    frame = session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    (folder / "seen").write_text("", encoding="utf-8")
    query = planned(sw.stream(frame, time="at"), _noting(folder)).start(
        checkpoint=str(folder / "checkpoint"),
        main=str(folder / "main"),
        late=str(folder / "late"),
        trigger={"availableNow": True},
        shards=2,
        **options,
    )
    query.wait()
    lines = (folder / "seen").read_text(encoding="utf-8").splitlines()
    return Counter(line.rpartition(" ")[0] for line in lines), query


def _in_process(planned: _Planned) -> tuple[list[str], list[str], int]:
    """Answers, late rows, and how many were late, after the micro-batches."""
    source, late = sw.PushSource(_SCHEMA, name="rows"), list[Any]()
    answers: list[Any] = []
    made = planned(sw.stream(source, time="at"), lambda rows: rows.column("n"))
    bands = [made] if isinstance(made, sw.OrderedStream) else list(made)
    outputs = [(band, lambda rows: answers.extend(rows.to_pylist())) for band in bands]
    with sw.Query(
        [*outputs, (bands[0].late, lambda rows: late.extend(rows.to_pylist()))], clock=sw.ManualClock()
    ) as query:
        for number in range(len(_TIMES)):
            source.push(_table(number).combine_chunks())
            query.work()
        counted = sum(step.late for step in query.counters().values())
        return sorted(map(str, list(answers))), sorted(map(str, list(late))), counted


def _written(folder: Path) -> list[str]:
    return sorted(map(str, pq.read_table(folder).drop_columns(["batch_id"]).to_pylist()))


@pytest.mark.parametrize("planned", [_banded, _sorted])
def test_shards_see_rows_that_may_be_late_and_groups_of_the_others(
    session: SparkSession, tmp_path: Path, planned: _Planned
) -> None:
    """All rows of the first micro-batch after a restart; all answers and late rows are those of one process.

    Rows behind a sort are late one by one, and others in windows; here these are the same rows.
    """
    _bring(tmp_path, 0, 1)
    seen, _ = _run(session, tmp_path, planned)
    # None can be late in the very first, and in the second those that were behind 20, of which the function sees none.
    assert seen == {"map tasks": 4 + 3}
    _bring(tmp_path, 2, 3)
    seen, query = _run(session, tmp_path, planned)
    assert seen == {"shards": 3, "map tasks": 4}, "12 is late, and then 49 and 68, which are before 70"
    answers, late, counted = _in_process(planned)
    assert len(late) == counted == 5
    assert _written(tmp_path / "main") == answers
    assert _written(tmp_path / "late") == late
    assert query.counters()["all shards"].late == counted
    assert query.counters()["all shards"].rows_in == sum(map(len, _TIMES))


def test_what_is_announced_is_for_one_micro_batch_of_one_query(session: SparkSession) -> None:
    """Tasks get it by the settings of the session that runs them; it is gone afterwards."""

    def heard(setting: str) -> list[int]:
        def of_task(batches: Any) -> Any:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            assert list(batches)
            yield pa.RecordBatch.from_pydict(
                {"heard": [announced_in_time_from(context, setting, way) for way in (0, 1)]}
            )

        rows = session.range(1).coalesce(1).mapInArrow(of_task, "heard long").collect()
        return [heard for (heard,) in rows]

    bounds = LateBounds("spark.slackwater.one", shards=1, ways=2, is_new=False)
    bounds.learn(6, [(0, [70, 80])])
    with bounds.announced(session, 7):
        assert heard("spark.slackwater.one") == [70, 80]
        assert heard("spark.slackwater.other") == [FOREVER, FOREVER]
    assert heard("spark.slackwater.one") == [FOREVER, FOREVER]
    with bounds.announced(session, 8):
        assert heard("spark.slackwater.one") == [FOREVER, FOREVER]
    # A task that knows the number of its micro-batch goes by nothing that is announced for another one.
    java: Any = session
    for number, wanted in (("7", [70, 80]), ("8", [FOREVER] * 2)):
        java._jsc.setLocalProperty("streaming.sql.batchId", number)
        try:
            with bounds.announced(session, 7):
                assert heard("spark.slackwater.one") == wanted
        finally:
            java._jsc.setLocalProperty("streaming.sql.batchId", None)


class _Closed:
    """A session whose settings may not be made."""

    class conf:  # noqa: N801 - Spark's name
        @staticmethod
        def set(name: str, value: str) -> None:
            raise PermissionError(name, value)


def test_where_nothing_can_be_announced_rows_travel(session: SparkSession) -> None:
    """The query goes on as if nothing were known."""
    assert session is not None
    bounds = LateBounds("spark.slackwater.one", shards=1, ways=1, is_new=True)
    closed: Any = _Closed()
    with bounds.announced(closed, 0):
        pass


@pytest.mark.parametrize("late", ["adjust", "raise_error"])
def test_all_fates_of_late_rows_know(session: SparkSession, tmp_path: Path, late: str) -> None:
    """Where there is one sink, too, whose rows nobody would look at otherwise; a DataFrame that ends has none late."""
    _bring(tmp_path, 0, 1)
    policy: sw.Late = getattr(sw.Late, late)()
    noting = _noting(tmp_path)

    def counted(frame: Any) -> Any:
        windows = sw.stream(frame, time="at").tumbling(_WINDOW).select("k", n=noting).group_by("k")
        return windows.in_bands(60, late=policy, total=sw.sum("n"))

    frame = session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    options: dict[str, Any] = {"trigger": {"availableNow": True}, "at_end": "flush", "shards": 2}
    counted(frame).start(checkpoint=str(tmp_path / "checkpoint"), main=str(tmp_path / "main"), **options).wait()
    ended = session.read.schema(_COLUMNS).parquet(str(tmp_path / "in"))
    at_once = counted(ended)[0].to_spark(shards=2).toArrow().to_pylist()
    lines = (tmp_path / "seen").read_text(encoding="utf-8").splitlines()
    assert Counter(line.rpartition(" ")[0] for line in lines) == {"map tasks": 2 * 9}
    assert _written(tmp_path / "main") == sorted(map(str, at_once))
    assert sum(row["total"] for row in at_once) == sum(100 + at for times in _TIMES[:2] for at in times)
