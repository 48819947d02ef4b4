"""Law 4: a snapshot at any point, and a query resumed from it, give what an undisturbed query gives."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import PIPELINES, ROWS, rows_of_batch
from slackwater.testing.strategies import disordered_batches, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.events.batch import EventBatch

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_STREAMS = st.tuples(*[ordered_batches(_PAYLOAD, max_rows=12, punctuated=False)] * 2)


@pytest.mark.parametrize("name", PIPELINES)
@FEWER
@given(streams=_STREAMS, when=st.integers(0, 12))
def test_a_resumed_query_goes_on_undisturbed(name: str, streams: tuple[EventBatch, ...], when: int) -> None:
    """Rows before the snapshot through one query, rows after it through another, together give the whole table."""
    tables = [rows_of_batch(stream) for stream in streams]
    a, b = (sw.stream(table, time="at").assume_ordered() for table in tables)
    expected = PIPELINES[name](a, b).run().table
    collected: list[pa.RecordBatch] = []
    first, sources = _live(name)
    query = first.open(collected.append, clock=sw.ManualClock())
    for source, table in zip(sources, tables, strict=True):
        source.push(table.slice(0, when))
    query.work()
    state = query.snapshot()
    second, sources = _live(name)
    resumed = second.open(collected.append, clock=sw.ManualClock(), resume=state)
    for source, table in zip(sources, tables, strict=True):
        source.push(table.slice(when))
    resumed.close()
    got = pa.Table.from_batches(collected, schema=expected.schema)
    assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def _live(name: str) -> tuple[sw.OrderedStream, list[sw.PushSource]]:
    sources = [sw.PushSource(ROWS), sw.PushSource(ROWS)]
    a, b = (sw.stream(source, time="at").assume_ordered() for source in sources)
    stream = PIPELINES[name](a, b)
    assert isinstance(stream, sw.OrderedStream)
    return stream, sources


_ORDERINGS: dict[str, Callable[[sw.DisorderedStream, dict[str, Any]], Sequence[sw.OrderedStream]]] = {
    "sort": lambda stream, options: [stream.sort(6, **options).where(nw.col("v") > -2)],
    "events in bands": lambda stream, options: stream.in_bands(2, 8, 20, **options),
    "counts in bands": lambda stream, options: stream.tumbling(7).group_by("k").in_bands(2, 8, **options, n=sw.count()),
    "a query in bands": lambda stream, options: stream.tumbling(7).in_bands(
        2,
        8,
        **options,
        partial=lambda band: band.aggregate(v=sw.max("v")),
        merge=lambda both: both.aggregate(v=sw.max("v")),
    ),
}
_OPTIONS = st.fixed_dictionaries(
    {
        "every": st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(3)]),
        "late": st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
    }
)


@pytest.mark.parametrize("name", _ORDERINGS)
@FEWER
@given(
    batch=disordered_batches(_PAYLOAD, punctuated=False),
    cuts=st.lists(st.integers(0, 30), min_size=1, max_size=3).map(sorted),
    options=_OPTIONS,
)
def test_a_query_over_a_disordered_stream_goes_on_undisturbed(
    name: str, batch: EventBatch, cuts: list[int], options: dict[str, Any]
) -> None:
    """Resumed once or several times: the same rows of every stream, the same late rows, and the same counts."""
    table = rows_of_batch(batch)
    results = sw.run_together(*_ORDERINGS[name](sw.stream(table, time="at"), options))
    collected: list[list[dict[str, Any]]] = [[] for _ in results]
    late: list[dict[str, Any]] = []
    state: Any = None
    for first, stop in pairwise([0, *cuts, table.num_rows]):
        source = sw.PushSource(ROWS)
        streams = _ORDERINGS[name](sw.stream(source, time="at"), options)
        outputs = [(stream, _keep(rows)) for stream, rows in zip(streams, collected, strict=True)]
        query = sw.Query(outputs, clock=sw.ManualClock(), resume=state, on_late=_keep(late))
        source.push(table.slice(first, max(stop - first, 0)))
        query.work()
        state = query.snapshot()
    query.close()
    for result, rows in zip(results, collected, strict=True):
        assert sorted(map(repr, rows)) == sorted(map(repr, result.table.to_pylist()))
    assert late == [row for one in results[0].late_by_source.values() for row in one.to_pylist()]
    assert query.counters()["punctuate#1"].late == results[0].counters["punctuate#1"].late


def _keep(kept: list[dict[str, Any]]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: kept.extend(rows.to_pylist())
