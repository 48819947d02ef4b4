"""Law 3: the same events give the same temporal table, whatever the batch cuts, interleaving and order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import PIPELINES, ROWS, rows_of_batch
from slackwater.testing.strategies import batch_cuts, disordered_batches, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.streams.stream import Stream

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_STREAMS = st.tuples(*[ordered_batches(_PAYLOAD, max_rows=15, punctuated=False)] * 2)


def as_multiset(table: pa.Table) -> list[str]:
    """The rows of a table without their order."""
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("name", PIPELINES)
@FEWER
@given(data=st.data())
def test_the_table_does_not_depend_on_cuts_and_interleaving(name: str, data: st.DataObject) -> None:
    """Tables read at once, and rows pushed bit by bit from two sides in any interleaving, say the same."""
    streams = data.draw(_STREAMS)
    expected = _read_at_once(name, streams)
    cuts = [data.draw(batch_cuts(stream)) for stream in streams]
    assert as_multiset(_pushed(name, cuts, data)) == as_multiset(expected)


def _read_at_once(name: str, streams: tuple[EventBatch, ...]) -> pa.Table:
    a, b = (sw.stream(rows_of_batch(stream), time="at").assume_ordered() for stream in streams)
    return PIPELINES[name](a, b).run().table


def _pushed(name: str, cuts: list[list[EventBatch]], data: st.DataObject) -> pa.Table:
    sources = [sw.PushSource(ROWS), sw.PushSource(ROWS)]
    a, b = (sw.stream(source, time="at").assume_ordered() for source in sources)
    pipeline = PIPELINES[name](a, b)
    collected: list[pa.RecordBatch] = []
    query = pipeline.open(collected.append, clock=sw.ManualClock(), batch_rows=data.draw(st.integers(1, 5)))
    while any(cuts):
        port = data.draw(st.sampled_from([port for port, left in enumerate(cuts) if left]))
        sources[port].push(rows_of_batch(cuts[port].pop(0)))
        if data.draw(st.booleans()):
            query.work()
    query.close()
    return pa.Table.from_batches(collected, schema=pipeline.schema)


# ---- disordered streams ---------------------------------------------------------------------------------------------

Ordering: TypeAlias = "Callable[[sw.DisorderedStream, dict[str, Any]], Sequence[sw.OrderedStream]]"
"""Puts a disordered stream in order, with a cadence and a policy for late rows."""


def _sort(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    return [stream.sort(6, **options)]


def _sort_and_filter(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    return [stream.sort(6, **options).where(nw.col("v") > 0).select("k", v=nw.col("v") * 2)]


def _sort_windows(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    return [stream.tumbling(7).sort(6, **options).group_by("k").aggregate(n=sw.count(), top=sw.top_k("v", 2))]


def _events_in_bands(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    return stream.in_bands(2, 8, 20, **options)


def _counts_in_bands(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    return stream.tumbling(7).group_by("k").in_bands(2, 8, **options, n=sw.count(), total=sw.sum("v"))


def _query_in_bands(stream: sw.DisorderedStream, options: dict[str, Any]) -> Sequence[sw.OrderedStream]:
    def greatest(part: sw.OrderedStream) -> sw.OrderedStream:
        return part.group_by("k").aggregate(v=sw.max("v"))

    return stream.hopping(10, 5).in_bands(2, 8, **options, partial=greatest, merge=greatest)


_ORDERINGS: dict[str, Ordering] = {
    "sort": _sort,
    "sort and filter": _sort_and_filter,
    "sort windows": _sort_windows,
    "events in bands": _events_in_bands,
    "counts in bands": _counts_in_bands,
    "a query in bands": _query_in_bands,
}
_OPTIONS = st.fixed_dictionaries(
    {
        "every": st.sampled_from([sw.Every.rows(1), sw.Every.rows(3), sw.Every.time(1), sw.Every.time(5)]),
        "late": st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
    }
)
_DISORDERED = disordered_batches(_PAYLOAD, punctuated=False)


@pytest.mark.parametrize("name", _ORDERINGS)
@FEWER
@given(data=st.data(), batch=_DISORDERED, options=_OPTIONS, batch_rows=st.integers(1, 7))
def test_cuts_decide_neither_the_table_nor_what_is_late(
    name: str, data: st.DataObject, batch: EventBatch, options: dict[str, Any], batch_rows: int
) -> None:
    """By rows or by time, instants are places in the stream: every stream has the same rows, the late one too."""
    streams = _ORDERINGS[name](sw.stream(rows_of_batch(batch), time="at"), options)
    results = sw.run_together(*streams)
    source = sw.PushSource(ROWS)
    live = _ORDERINGS[name](sw.stream(source, time="at"), options)
    tables, late = _collected(source, live, data.draw(batch_cuts(batch)), batch_rows)
    for result, table in zip(results, tables, strict=True):
        assert as_multiset(table) == as_multiset(result.table)
    assert late == [row for table in results[0].late_by_source.values() for row in table.to_pylist()]


def _collected(
    source: sw.PushSource, streams: Sequence[Stream], cuts: list[EventBatch], batch_rows: int
) -> tuple[list[pa.Table], list[dict[str, Any]]]:
    """Push a stream bit by bit; return what each stream gave, and the late rows."""
    collected: list[list[pa.RecordBatch]] = [[] for _ in streams]
    late: list[dict[str, Any]] = []
    query = sw.Query(
        [(stream, seen.append) for stream, seen in zip(streams, collected, strict=True)],
        clock=sw.ManualClock(),
        on_late=lambda rows: late.extend(rows.to_pylist()),
        batch_rows=batch_rows,
    )
    for cut in cuts:
        source.push(rows_of_batch(cut))
        query.work()
    query.close()
    return [pa.Table.from_batches(seen, stream.schema) for stream, seen in zip(streams, collected, strict=True)], late


@given(
    rows=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=30),
    every=st.sampled_from([sw.Every.rows(1), sw.Every.rows(3), sw.Every.time(4), sw.Every.batch()]),
    patience=st.integers(9, 15),
)
def test_the_order_of_arrival_within_the_patience_decides_nothing(
    rows: list[tuple[int, int]], every: sw.Every, patience: int
) -> None:
    """Rows that are delayed by no more than the patience come out as if they had come in order; none is late."""
    by_time = sorted(range(len(rows)), key=lambda number: rows[number][0])
    by_arrival = sorted(by_time, key=lambda number: sum(rows[number]))

    def table(numbers: list[int]) -> pa.Table:
        columns = {"at": [rows[number][0] for number in numbers], "k": ["x"] * len(rows), "v": numbers}
        return pa.table(columns, schema=ROWS)

    result = sw.stream(table(by_arrival), time="at").sort(patience, every=every, late=sw.Late.raise_error()).run()
    assert result.table.column("at").to_pylist() == [rows[number][0] for number in by_time]
    assert as_multiset(result.table) == as_multiset(table(by_time))
