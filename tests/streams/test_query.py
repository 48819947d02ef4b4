"""Running queries: driven by hand, closed, resumed, several at once, and what is left when something fails."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet
import pytest

import slackwater as sw
from slackwater.errors import BrokenOrder, PlanError, RunError, SlackwaterError, StepFailed

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = pa.schema({"at": pa.int64(), "v": pa.int64()})


def _live(name: str) -> tuple[sw.PushSource, sw.OrderedStream]:
    source = sw.PushSource(_ROWS, name=name)
    return source, sw.stream(source, time="at").assume_ordered()


def _row(at: int, v: int = 0) -> dict[str, int]:
    return {"at": at, "v": v}


def _refuse_seven(rows: pa.RecordBatch) -> pa.Array:
    if 7 in rows.column("v").to_pylist():
        raise ValueError("seven")
    return pa.array([True] * rows.num_rows, pa.bool_())


# ---- who takes the rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taker", "words"),
    [
        (sw.FolderSink("out"), "this sink is for streams of Spark DataFrames"),
        (sw.DeltaSink("table"), "this sink is for streams of Spark DataFrames"),
        (sw.PostgresSink("", "table"), "this sink is for streams of Spark DataFrames"),
        ("out", "the rows of a stream go to a function"),
    ],
)
def test_what_is_no_function_is_refused_with_the_reason(taker: Any, words: str) -> None:
    """When the query is opened, also for late rows; not when the first row comes out."""
    _, rows = _live("a")
    with pytest.raises(PlanError, match=words):
        rows.open(taker)
    with pytest.raises(PlanError, match=words):
        sw.stream([_row(1)], time="at").sort(5).open(print, on_late=taker)


# ---- work, close, flush ---------------------------------------------------------------------------------------------


def test_work_does_what_can_be_done_now_and_no_more() -> None:
    """What waits for a silent input stays; the query is not finished."""
    (a, left), (_, right) = _live("a"), _live("b")
    seen: list[int] = []
    query = sw.union(left, right).open(lambda rows: seen.extend(rows.column("at").to_pylist()), clock=sw.ManualClock())
    a.push([_row(1), _row(2)])
    query.work()
    query.work()
    assert seen == []
    assert not query.finished
    assert query.counters()["union#1"].buffered == 2


def test_wait_works_until_the_sources_have_ended_or_so_long() -> None:
    """It says whether the query has ended, and does the work that comes meanwhile."""
    a, left = _live("a")
    seen: list[int] = []
    query = left.open(lambda rows: seen.extend(rows.column("at").to_pylist()))
    assert (query.active, query.finished) == (True, False)
    assert not query.wait(seconds=0)
    a.push([_row(1)])
    assert not query.wait(seconds=0.01)
    assert seen == [1]
    a.push([_row(2)])
    a.close()
    assert query.wait()
    assert seen == [1, 2]
    assert (query.active, query.finished) == (False, True)
    assert query.wait()


def test_stop_flushes_nothing_and_a_snapshot_goes_on() -> None:
    """What is held stays held; the query is neither active nor finished, and has nothing to wait for."""
    source, left = _live("a")
    seen: list[Any] = []
    query = left.tumbling(10).aggregate(n=sw.count()).open(lambda rows: seen.extend(rows["n"].to_pylist()))
    source.push([_row(1), _row(2)])
    query.work()
    query.stop()
    assert (query.active, query.finished, query.wait(), seen) == (False, False, False, [])
    _, again = _live("a")
    with (
        again.tumbling(10)
        .aggregate(n=sw.count())
        .open(lambda rows: seen.extend(rows["n"].to_pylist()), resume=query.snapshot())
    ):
        pass
    assert seen == [2]


def test_a_query_that_has_failed_is_neither_active_nor_finished() -> None:
    """As on Spark."""
    source, left = _live("a")
    query = left.where(_refuse_seven).open(print)
    source.push([_row(1, 7)])
    with pytest.raises(StepFailed):
        query.wait()
    assert (query.active, query.finished) == (False, False)


def test_close_flushes_everything_and_ends_the_sources() -> None:
    """Rows that wait in sources, in the union and in open windows all come out."""
    (a, left), (b, right) = _live("a"), _live("b")
    rows: list[dict[str, Any]] = []
    counted = sw.union(left, right).tumbling(10).aggregate(n=sw.count())
    query = counted.open(lambda batch: rows.extend(batch.to_pylist()), clock=sw.ManualClock())
    a.push([_row(1), _row(12)])
    query.work()
    b.push(_row(13))
    query.close()
    assert [(row["window_start"], row["n"]) for row in rows] == [(0, 1), (10, 2)]
    assert query.finished
    assert a.ended
    with pytest.raises(SlackwaterError, match="closed source"):
        b.push(_row(14))


def test_close_loses_no_row_of_a_table_that_was_held_back() -> None:
    """Back-pressure leaves rows unread; a clean shutdown reads them before it ends."""
    _, live = _live("live")
    table = pa.table({"at": list(range(100)), "v": list(range(100))})
    seen: list[int] = []
    query = sw.union(sw.stream(table, time="at").assume_ordered(), live).open(
        lambda rows: seen.extend(rows.column("v").to_pylist()), clock=sw.ManualClock(), batch_rows=10, buffer_limit=20
    )
    query.work()
    assert seen == []
    query.close()
    assert seen == list(range(100))


def test_a_query_can_be_closed_twice_and_after_its_end() -> None:
    """Nothing happens the second time."""
    seen: list[int] = []
    query = sw.stream([_row(1)], time="at").open(lambda rows: seen.extend(rows.column("at").to_pylist()))
    query.run_to_end()
    query.close()
    query.close()
    query.work()
    assert seen == [1]


def test_a_query_in_a_with_block_is_closed_at_its_end() -> None:
    """And flushed."""
    (a, left), (_, right) = _live("a"), _live("b")
    seen: list[int] = []
    with sw.union(left, right).open(
        lambda rows: seen.extend(rows.column("at").to_pylist()), clock=sw.ManualClock()
    ) as query:
        a.push(_row(1))
        query.work()
        assert seen == []
    assert seen == [1]


def test_a_with_block_that_fails_runs_nothing_more() -> None:
    """The sources are closed, what waits is not sent."""
    (a, left), (_, right) = _live("a"), _live("b")
    seen: list[int] = []

    def fail() -> None:
        with sw.union(left, right).open(
            lambda rows: seen.extend(rows.column("at").to_pylist()), clock=sw.ManualClock()
        ) as query:
            a.push(_row(1))
            query.work()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert seen == []
    with pytest.raises(SlackwaterError, match="closed source"):
        a.push(_row(2))


def test_run_to_end_gives_the_counters_and_the_peak() -> None:
    """The rows went to the callback."""
    query = sw.stream([_row(1), _row(2)], time="at").open(lambda _: None)
    result = query.run_to_end()
    assert result.table.num_rows == 0
    assert result.table.schema == _ROWS
    assert result.counters["source#1"].rows_out == 2
    assert query.finished


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_has_the_state_of_every_step_by_name() -> None:
    """Sources have none: rows that were not taken are not in it."""
    (_, left), (_, right) = _live("a"), _live("b")
    query = sw.union(left, right).tumbling(5).aggregate(n=sw.count()).open(lambda _: None, clock=sw.ManualClock())
    assert list(query.snapshot()) == ["assume_ordered#1", "assume_ordered#2", "union#1", "tumbling#1", "aggregate#1"]


def test_a_query_resumed_from_a_snapshot_goes_on_where_the_first_one_was() -> None:
    """Rows that waited, open windows and the order so far are remembered; the first query may go on by itself."""
    rows: list[dict[str, Any]] = []

    def build(resume: dict[str, Any] | None) -> tuple[sw.PushSource, sw.PushSource, sw.Query]:
        (a, left), (b, right) = _live("a"), _live("b")
        counted = sw.union(left, right).tumbling(10).aggregate(n=sw.count())
        query = counted.open(lambda batch: rows.extend(batch.to_pylist()), clock=sw.ManualClock(), resume=resume)
        return a, b, query

    a, _, first = build(None)
    a.push([_row(1), _row(5), _row(12)])
    first.work()
    _, b, second = build(first.snapshot())
    b.push([_row(3), _row(20)])
    second.work()
    assert [(row["window_start"], row["n"]) for row in rows] == [(0, 3)]
    a, _, third = build(first.snapshot())
    a.push(_row(11))
    with pytest.raises(BrokenOrder):
        third.work()


# ---- several streams at once ----------------------------------------------------------------------------------------


def test_run_together_gives_one_result_per_stream_and_runs_shared_steps_once() -> None:
    """A one-way source feeds both; the shared predicate is asked once per batch."""
    asked = 0

    def predicate(rows: pa.RecordBatch) -> pa.Array:
        nonlocal asked
        asked += 12 in rows.column("at").to_pylist()  # not the made-up rows of a plan
        return pa.array([True] * rows.num_rows, pa.bool_())

    table = pa.table({"at": [1, 2, 12], "v": [5, 6, 7]})
    shared = sw.stream(table.to_reader(), time="at").where(predicate).assume_ordered()
    rows, counts = sw.run_together(shared, shared.tumbling(10).aggregate(n=sw.count()))
    assert rows.table.equals(table)
    assert counts.table.column("n").to_pylist() == [2, 1]
    assert asked == 1
    assert rows.counters["source#1"].rows_out == 3
    assert "source#2" not in rows.counters


def test_run_together_of_streams_that_share_nothing_runs_them_all() -> None:
    """Components of one query; each has its own table."""
    streams = [sw.stream([_row(n)], time="at") for n in range(3)]
    assert [result.table.column("at").to_pylist() for result in sw.run_together(*streams)] == [[0], [1], [2]]


def test_a_stream_run_together_with_itself_gives_its_rows_twice() -> None:
    """Two outputs of one step."""
    stream = sw.stream([_row(1)], time="at")
    one, two = sw.run_together(stream, stream)
    assert one.table.equals(two.table)
    assert one.table.num_rows == 1


# ---- failures -------------------------------------------------------------------------------------------------------


def _pushed(*values: int) -> sw.OrderedStream:
    """A live source that holds one batch per value, then ends."""
    source, stream = _live("pushed")
    for at, value in enumerate(values):
        source.push(_row(at, value))
    source.close()
    return stream


def test_a_failing_function_names_the_step_the_row_and_the_cause_and_loses_nothing() -> None:
    """What was emitted before it is in error.emitted, one result per stream."""
    stream = _pushed(5, 6, 7, 8)
    with pytest.raises(StepFailed, match=r"(?s)step 'where#1' failed.*'v': 7.*ValueError: seven") as failed:
        stream.where(_refuse_seven).run()
    (result,) = failed.value.emitted
    assert isinstance(result, sw.Result)
    assert result.table.column("v").to_pylist() == [5, 6]
    assert result.counters["where#1"].rows_out == 2
    assert isinstance(failed.value.__cause__, ValueError)


def test_every_stream_of_a_failing_run_keeps_what_it_emitted() -> None:
    """Also those that did not fail themselves."""
    stream = _pushed(5, 6, 7, 8)
    with pytest.raises(StepFailed) as failed:
        sw.run_together(stream, stream.where(_refuse_seven))
    kept = [result.table.num_rows for result in failed.value.emitted if isinstance(result, sw.Result)]
    assert kept == [3, 2]


def test_a_stream_that_breaks_its_guarantee_keeps_what_came_before() -> None:
    """Any error of a run carries it."""
    source, stream = _live("a")
    for at in (1, 5, 3):
        source.push(_row(at))
    source.close()
    with pytest.raises(BrokenOrder) as failed:
        stream.run()
    assert [result.table.num_rows for result in failed.value.emitted if isinstance(result, sw.Result)] == [2]


def test_a_source_that_fails_is_an_error_of_the_run_and_loses_nothing() -> None:
    """A file that goes bad half-way, say; the source is named and the cause is chained."""

    def batches() -> Any:
        yield pa.record_batch({"at": [1], "v": [5]})
        yield pa.record_batch({"at": [2], "v": [6]})
        raise OSError("disk on fire")

    reader = pa.RecordBatchReader.from_batches(_ROWS, batches())
    with pytest.raises(RunError, match=r"(?s)(orders|source#1).*disk on fire") as failed:
        sw.stream(reader, time="at", name="orders").run()
    assert [result.table.num_rows for result in failed.value.emitted if isinstance(result, sw.Result)] == [2]


def test_a_sink_that_raises_is_named() -> None:
    """It is a step as good as any."""

    def full(_: pa.RecordBatch) -> None:
        raise OSError("disk full")

    with pytest.raises(StepFailed, match=r"(?s)sink of where#1.*OSError: disk full") as failed:
        sw.stream([_row(1)], time="at").where(nw.col("v") == 0).for_each(full)
    assert isinstance(failed.value.__cause__, OSError)


def test_a_failing_query_leaves_a_readable_parquet_file(tmp_path: Path) -> None:
    """With every row that was emitted before, beside what was there, which stays as it was."""
    path = tmp_path / "out.parquet"
    _pushed(1, 2).write_parquet(path)
    with pytest.raises(StepFailed) as failed:
        _pushed(5, 6, 7, 8).where(_refuse_seven).write_parquet(path)
    assert pa.parquet.read_table(path).column("v").to_pylist() == [1, 2]
    assert pa.parquet.read_table(tmp_path / "out.parquet.partial").column("v").to_pylist() == [5, 6]
    assert "out.parquet.partial" in failed.value.__notes__[0]


def test_a_parquet_file_can_be_written_over_itself(tmp_path: Path) -> None:
    """It is read to its end before its successor takes its place."""
    path = tmp_path / "own.parquet"
    _pushed(1, 2, 3).write_parquet(path)
    sw.stream(path, time="at").where(nw.col("v") > 1).write_parquet(path)
    assert pa.parquet.read_table(path).column("v").to_pylist() == [2, 3]


def test_a_query_that_has_failed_does_not_go_on() -> None:
    """A batch that stopped half-way cannot be taken back, so that going on could lose or double it."""

    def refuse(_: pa.RecordBatch) -> None:
        raise OSError("disk full")

    query = _pushed(1, 2).open(refuse)
    with pytest.raises(StepFailed, match="disk full"):
        query.work()
    with pytest.raises(RunError, match=r"(?s)has failed and cannot go on.*StepFailed.*hint: open a new query"):
        query.work()


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (lambda s: s.tumbling(10).aggregate(n=sw.count()), lambda s: s.tumbling(20).aggregate(n=sw.count())),
        (lambda s: s.aggregate(n=sw.max("v")), lambda s: s.aggregate(n=sw.min("v"))),
        (lambda s: s.join(s, on="v", within=1), lambda s: s.join(s, on="v", within=2)),
    ],
    ids=["another window", "another aggregate", "another distance"],
)
def test_a_snapshot_of_another_plan_is_refused(then: Any, now: Any) -> None:
    """The names of the steps are the same; what they do is not."""
    table = pa.table({"at": [1, 2], "v": [3, 4]})
    query = then(sw.stream(table, time="at").assume_ordered()).open(lambda _: None)
    state = pickle.loads(pickle.dumps(query.snapshot()))  # noqa: S301 - our own
    with pytest.raises(PlanError, match=r"(?s)different plan.*in the snapshot.*in the plan"):
        now(sw.stream(table, time="at").assume_ordered()).open(lambda _: None, resume=state)


@pytest.mark.parametrize("options", [{"batch_rows": 0}, {"batch_rows": -1}, {"buffer_limit": 0}])
def test_limits_that_would_never_let_anything_through_are_refused(options: dict[str, Any]) -> None:
    """Before anything runs, so that nothing can hang."""
    with pytest.raises(PlanError, match="above zero"):
        _pushed(1).open(lambda _: None, **options)


def test_an_interrupt_is_not_taken_for_a_failure_of_a_step() -> None:
    """Control-C stops the query as it is."""

    def interrupted(_: pa.RecordBatch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sw.stream([_row(1)], time="at").for_each(interrupted)


def test_a_snapshot_between_any_two_steps_has_all_that_was_read() -> None:
    """Also where a source feeds two branches, of which a depth-first walk takes one first."""
    values = list(range(10))
    for steps in range(12):
        seen: list[pa.RecordBatch] = []
        sources = [sw.PushSource({"at": pa.int64(), "v": pa.int64()}, name="a") for _ in range(2)]
        before, after = (_diamond(source) for source in sources)
        sources[0].push([{"at": at, "v": at} for at in values])
        query = before.open(seen.append, batch_rows=1)
        for _ in range(steps):
            query.step()
        unread = values[len(values) - sources[0].waiting :]
        resumed = after.open(seen.append, resume=query.snapshot())
        sources[1].push([{"at": at, "v": at} for at in unread])
        resumed.close()
        assert sorted(value for rows in seen for value in rows.column("v").to_pylist()) == values


def _diamond(source: sw.PushSource) -> sw.OrderedStream:
    rows = sw.stream(source, time="at").assume_ordered()
    return sw.union(rows.where(nw.col("v") < 5), rows.where(nw.col("v") >= 5))
