"""Rows that came too late: in the result, in a callback, in a file, as a stream of their own, and never nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet
import pytest

import slackwater as sw
from slackwater.errors import PlanError, StepFailed
from slackwater.streams.diverted_rows import diverted_streams

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Parting

_ROWS = pa.schema({"at": pa.int64(), "v": pa.int64()})
_CLICKS = (("web", 2), ("app", 3))
"""The names of two sources, and the time of a late row of each."""


def _numbers(*values: int) -> sw.OrderedStream:
    table = pa.table({"at": list(range(len(values))), "v": list(values)}, schema=_ROWS)
    return sw.stream(table, time="at").assume_ordered()


def _pushed(*values: int) -> sw.OrderedStream:
    """A live source that holds one batch per value, then ends."""
    source = sw.PushSource(_ROWS, name="pushed")
    for at, value in enumerate(values):
        source.push({"at": at, "v": value})
    source.close()
    return sw.stream(source, time="at").assume_ordered()


def _into(seen: list[int]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: seen.extend(rows.column("v").to_pylist())


def _values(table: Any) -> list[int]:
    return table.column("v").to_pylist()


def _refuse_eight(rows: pa.RecordBatch) -> pa.Array:
    if 8 in rows.column("v").to_pylist():
        raise ValueError("eight")
    return pa.array([True] * rows.num_rows, pa.bool_())


# ---- in the result --------------------------------------------------------------------------------------------------


def test_a_run_gives_the_late_rows_of_the_one_step_that_diverts_some(part: Parting) -> None:
    """As users see them: with their times, and with the columns that the step gives to late rows."""
    result = part(_numbers(1, 2, 3, 4))[0].where(nw.col("v") > 2).run()
    assert _values(result.table) == [4]
    assert result.late.to_pylist() == [{"at": 0, "v": 1, "why": "odd"}, {"at": 2, "v": 3, "why": "odd"}]
    assert {name: table.num_rows for name, table in result.late_by_source.items()} == {"table": 2}
    assert result.counters["part#1"].late == 2


def test_a_run_without_late_rows_gives_an_empty_table_of_the_right_columns(part: Parting) -> None:
    """And a plan that diverts nothing gives none at all."""
    main, _ = part(_numbers(2))
    late = main.run().late
    assert late.num_rows == 0
    assert late.schema == main.late.schema
    assert _numbers(1, 2).run().late == {}


def test_a_result_says_how_many_rows_were_late_when_there_are_any(part: Parting) -> None:
    """On its first line, and on the line of the step."""
    lines = str(part(_numbers(1, 2, 3))[0].run()).splitlines()
    assert lines[0] == "1 rows, 2 came too late"
    assert ", late 2, idle-waiting 0s; now held 0" in lines[-1]
    assert str(part(_numbers(2))[0].run()).splitlines()[0] == "1 rows"


def test_late_rows_of_several_steps_are_named_by_their_sources() -> None:
    """Never by a step that nobody wrote: users wrote sort(), and named the sources."""
    web, app = (sw.stream([{"at": 1}, {"at": 9}, {"at": at}], time="at", name=name) for name, at in _CLICKS)
    result = sw.union(web.sort(5), app.sort(5)).run()
    assert {name: table["at"].to_pylist() for name, table in result.late.items()} == {"web": [2], "app": [3]}


def test_late_rows_of_several_sources_have_the_names_of_all() -> None:
    """A step behind a union has rows of either."""
    web, app = (sw.stream([{"at": 1}, {"at": 50}], time="at", name=name).assume_ordered() for name, _ in _CLICKS)
    windows = sw.union(web, app).hopping(20, 10)
    both = windows.sort(0, every=sw.Every.rows(1)).run()
    assert list(both.late_by_source) == ["web+app"]
    assert both.late.schema.names[-2:] == ["late_bound", "late_by"]


def test_late_rows_of_several_steps_on_one_source_are_numbered_from_the_source_on() -> None:
    """Guarantees of the source come before the patience; what is late for the late ones comes behind both."""
    source = sw.PushSource({"at": pa.timestamp("us", "UTC")}, name="clicks")
    guaranteeing = sw.stream(
        source, time="at", punctuations=sw.Punctuations.on_demand(skew="2s"), late=sw.Late.divert()
    )
    first = guaranteeing.sort("5s")
    again = first.late.select().sort("1s")
    assert list(diverted_streams(first, again)) == ["clicks", "clicks#2", "clicks#3"]
    assert re.search(r"late rows  clicks of \w+#1, clicks#2 of \w+#1$", first.explain())


def test_a_source_may_be_called_as_the_second_of_another() -> None:
    """Names stay apart."""
    one, other = (sw.stream([{"at": 1}], time="at", name=name) for name in ("clicks", "clicks#2"))
    streams = one.sort(5), other.sort(5), one.sort(6), one.sort(7)
    assert list(diverted_streams(*streams)) == ["clicks", "clicks#2", "clicks#3", "clicks#4"]


def test_every_step_that_diverts_has_its_own_late_rows(part: Parting) -> None:
    """One behind the other, and side by side in components that share nothing; all are in every result."""
    first, _ = part(_numbers(1, 2, 4))
    second, _ = part(first.select(v=nw.col("v") - 1))
    other, _ = part(_numbers(7, 8))
    results = sw.run_together(second, other)
    assert [_values(result.table) for result in results] == [[], [8]]
    for result in results:
        assert {name: _values(table) for name, table in result.late.items()} == {
            "table": [1],
            "table#2": [1, 3],
            "table#3": [7],
        }


def test_main_and_late_rows_run_together(part: Parting) -> None:
    """Two streams of one query; the step runs once, and the late rows can be worked on like any."""
    main, band = part(_numbers(1, 2, 3, 100))
    rows, late, many = sw.run_together(main, main.late.where(nw.col("v") > 1).select("why", "v"), band)
    assert [_values(result.table) for result in (rows, late, many)] == [[2], [3], [100]]
    assert late.table.schema.names == ["at", "why", "v"]
    assert _values(rows.late) == [1, 3]
    assert rows.counters["part#1"].rows_in == 4


def test_late_rows_run_by_themselves(part: Parting) -> None:
    """The main output need not be read."""
    result = part(_numbers(1, 2, 3))[0].late.run()
    assert _values(result.table) == _values(result.late) == [1, 3]


def test_an_error_carries_the_late_rows_that_came_before_it(part: Parting) -> None:
    """In the result of every stream, whether their rows are collected or called back with."""
    seen: list[int] = []
    for run in (
        lambda stream: stream.run(),
        lambda stream: sw.run_together(stream, stream),
        lambda stream: stream.for_each(_into(seen)),
    ):
        main, _ = part(_pushed(5, 6, 7, 8, 9))
        with pytest.raises(StepFailed, match="eight") as failed:
            run(main.where(_refuse_eight))
        for result in failed.value.emitted:
            assert isinstance(result, sw.Result)
            assert _values(result.late) == [5, 7, 9]
    assert seen == [6]


# ---- callbacks ------------------------------------------------------------------------------------------------------


def test_for_each_keeps_late_rows_unless_somebody_takes_them(part: Parting) -> None:
    """With on_late the result has the columns only, as its table has."""
    main, _ = part(_numbers(1, 2, 3))
    seen: list[int] = []
    late: list[int] = []
    kept = main.for_each(_into(seen))
    assert (seen, _values(kept.late)) == ([2], [1, 3])
    taken = main.for_each(_into(seen), on_late=_into(late))
    assert (seen, late) == ([2, 2], [1, 3])
    assert taken.late.num_rows == 0
    assert taken.late.schema == main.late.schema
    assert str(taken).startswith("0 rows, 2 came too late")


def test_open_calls_back_with_late_rows_as_they_come(part: Parting) -> None:
    """Of every step that diverts."""
    source = sw.PushSource(_ROWS)
    first, _ = part(sw.stream(source, time="at").assume_ordered())
    second, _ = part(first.select(v=nw.col("v") - 1))
    seen: list[int] = []
    late: list[int] = []
    query = second.open(_into(seen), clock=sw.ManualClock(), on_late=_into(late))
    source.push([{"at": 1, "v": 1}, {"at": 2, "v": 2}])
    query.work()
    assert (seen, late) == ([], [1])
    source.close()
    result = query.run_to_end()
    assert (seen, late) == ([], [1, 1])
    assert {name: table.num_rows for name, table in result.late.items()} == {"push": 0, "push#2": 0}


def test_batches_call_back_with_late_rows(part: Parting) -> None:
    """The others are handed out."""
    late: list[int] = []
    batches = part(_numbers(1, 2, 3))[0].batches(on_late=_into(late))
    assert [value for rows in batches for value in _values(rows)] == [2]
    assert late == [1, 3]


def test_taking_late_rows_where_none_are_diverted_is_harmless() -> None:
    """Nobody is ever called."""
    seen: list[int] = []
    late: list[int] = []
    _numbers(1, 2).for_each(_into(seen), on_late=_into(late))
    assert (seen, late) == ([1, 2], [])


_NOBODY = r"(?s)would be lost.*step  part#1 late=diverted.*hint: .*on_late=.*`stream\.late`.*Late\.drop\(\)"


def test_a_query_in_which_nobody_takes_the_late_rows_is_refused(part: Parting) -> None:
    """Before anything runs; also when the rows are only handed out later."""
    main, band = part(_numbers(1, 2))
    behind = main.where(nw.col("v") > 0)
    for start in (
        lambda: band.open(lambda _: None),
        lambda: behind.open(lambda _: None),
        behind.batches,
        lambda: sw.Query([(behind, lambda _: None), (main, lambda _: None)]),
    ):
        with pytest.raises(PlanError, match=_NOBODY):
            start()


def test_a_refusal_names_the_step_whose_late_rows_nobody_takes(part: Parting) -> None:
    """Reading those of one step is not reading those of another."""
    first, _ = part(_numbers(1, 2))
    second, _ = part(first)
    with pytest.raises(PlanError, match=r"step  part#1 "):
        sw.Query([(second, lambda _: None), (second.late, lambda _: None)])


def test_a_stream_of_the_query_that_reads_the_late_rows_is_enough(part: Parting) -> None:
    """Whatever it does with them, and also if it is the only one."""
    main, _ = part(_numbers(1, 2, 3))
    seen: list[int] = []
    late: list[int] = []
    sw.Query([(main, _into(seen)), (main.late.where(nw.col("v") > 1), _into(late))]).run_to_end()
    assert (seen, late) == ([2], [3])
    assert [value for rows in main.late.batches() for value in _values(rows)] == [1, 3]


# ---- files ----------------------------------------------------------------------------------------------------------


def test_write_parquet_keeps_late_rows_in_the_result_or_writes_them_to_a_file_of_their_own(
    part: Parting, tmp_path: Path
) -> None:
    """The file of late rows has their columns, and is there also when there are none."""
    main, _ = part(_numbers(1, 2, 3))
    path, late = tmp_path / "rows.parquet", tmp_path / "late.parquet"
    assert _values(main.write_parquet(path).late) == [1, 3]
    assert not late.exists()
    assert main.write_parquet(path, late=late).late.num_rows == 0
    assert _values(pa.parquet.read_table(path)) == [2]
    assert pa.parquet.read_table(late).to_pylist() == main.run().late.to_pylist()
    part(_numbers(2))[0].write_parquet(path, late=str(late))
    assert pa.parquet.read_table(late).schema.names == ["at", "v", "why"]
    assert pa.parquet.read_table(late).num_rows == 0


def test_a_failing_run_leaves_both_files_partial(part: Parting, tmp_path: Path) -> None:
    """Readable, with what came before, and what was there stays."""
    main, _ = part(_pushed(5, 6, 7, 8, 9))
    with pytest.raises(StepFailed) as failed:
        main.where(_refuse_eight).write_parquet(tmp_path / "rows.parquet", late=tmp_path / "late.parquet")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["late.parquet.partial", "rows.parquet.partial"]
    assert _values(pa.parquet.read_table(tmp_path / "late.parquet.partial")) == [5, 7, 9]
    assert len(failed.value.__notes__) == 2


def test_a_file_for_late_rows_is_refused_where_it_cannot_be_written(part: Parting, tmp_path: Path) -> None:
    """No step diverts, several do, or it is the file of the other rows; nothing is written then."""
    first, _ = part(_numbers(1, 2))
    second, _ = part(first)
    path, late = tmp_path / "rows.parquet", tmp_path / "late.parquet"
    with pytest.raises(PlanError, match=r"(?s)no step above .* diverts.*hint: choose Late\.divert\(\)"):
        _numbers(1).write_parquet(path, late=late)
    with pytest.raises(PlanError, match=r"(?s)several steps.*table, table#2.*hint: .*on_late="):
        second.write_parquet(path, late=late)
    with pytest.raises(PlanError, match=r"a file of their own"):
        first.write_parquet(path, late=tmp_path / "." / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


# ---- as a stream ----------------------------------------------------------------------------------------------------


def test_the_late_rows_are_those_of_the_nearest_step_that_diverts(part: Parting) -> None:
    """However many steps are in between; a band has those of its step."""
    first, band = part(_numbers(1, 2, 4))
    second, _ = part(first.select(v=nw.col("v") - 1))
    behind = second.where(nw.col("v") > 0).tumbling(10).aggregate(n=sw.count())
    assert type(behind.late) is sw.DisorderedStream
    assert _values(behind.late.run().table) == [1, 3]
    assert _values(first.late.run().table) == _values(band.late.run().table) == [1]
    diamond = sw.union(first.where(nw.col("v") > 2), first.where(nw.col("v") <= 2))
    assert _values(diamond.late.run().table) == [1]


def test_late_rows_of_no_step_or_of_several_are_refused(part: Parting) -> None:
    """The steps are named."""
    one, _ = part(_numbers(1))
    other, _ = part(_numbers(2))
    with pytest.raises(PlanError, match=r"(?s)no step above this stream diverts.*stream  where v"):
        _ = _numbers(1).where(nw.col("v") > 0).late
    with pytest.raises(PlanError, match=r"(?s)several steps.*late rows of  table, table#2.*hint: .*right behind one"):
        _ = sw.union(one, other).late


def test_late_rows_say_nothing_of_completeness(part: Parting) -> None:
    """So that a step that needs it is refused."""
    with pytest.raises(PlanError, match="needs an ordered or punctuated stream"):
        part(_numbers(1))[0].late.aggregate(n=sw.count())


def test_measuring_disorder_counts_the_rows_of_the_stream_only(part: Parting) -> None:
    """Of the late rows, those of the late stream."""
    main, _ = part(_numbers(1, 2, 3))
    assert main.disorder().events == 1
    assert main.late.disorder().events == 2
