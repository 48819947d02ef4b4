"""Law 3: the same events give the same temporal table, whatever the batch cuts and interleaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import PIPELINES, ROWS, rows_of_batch
from slackwater.testing.strategies import batch_cuts, ordered_batches

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_STREAMS = st.tuples(*[ordered_batches(_PAYLOAD, max_rows=15, punctuated=False)] * 2)


def as_multiset(table: pa.Table) -> list[str]:
    """The rows of a table without their order."""
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("name", PIPELINES)
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
