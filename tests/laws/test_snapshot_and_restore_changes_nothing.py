"""Law 4: a snapshot at any point, and a query resumed from it, give what an undisturbed query gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import PIPELINES, ROWS, rows_of_batch
from slackwater.testing.strategies import ordered_batches

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_STREAMS = st.tuples(*[ordered_batches(_PAYLOAD, max_rows=12, punctuated=False)] * 2)


@pytest.mark.parametrize("name", PIPELINES)
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
