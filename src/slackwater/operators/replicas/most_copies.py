"""Every event that a merge of points holds, as often as the replica has it that has it most.

Where nobody is known to have everything, this is all that is known: what one replica has sent is true, and what it
has not sent may be true as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.columns.row_codec import WORD, RowCodec
from slackwater.events.batch import EventBatch
from slackwater.kernels.replicas import counted_ends, event_index
from slackwater.kernels.replicas import merged_events as merged
from slackwater.operators.replicas.multiset import MultisetState

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.operators.replicas.revised_replicas import RevisedState
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


def all_held(state: RevisedState | MultisetState, payload: pa.Schema) -> EventBatch:
    """Return the events of a merge that emits only what is frozen, and whose events all are points.

    >>> import pyarrow as pa
    >>> from slackwater.operators.replicas.multiset import MergeMultiset
    >>> merge = MergeMultiset(2, pa.record_batch({"x": pa.array([], pa.string())}))
    >>> for port, words in enumerate([["a", "b"], ["b", "b"]]):
    ...     _ = merge.on_batch(port, EventBatch.inserts(pa.record_batch({"x": words}), start=[3, 3]))
    >>> all_held(merge.snapshot(), pa.schema({"x": pa.string()})).payload.to_pydict()
    {'x': ['a', 'b', 'b']}
    """
    return _events_of(state, payload, _counts(state).max(axis=1, initial=0))


def held_by_others(state: RevisedState | MultisetState, payload: pa.Schema, port: Port, before: Instant) -> EventBatch:
    """Return those events that start before a time which a replica does not have, or not as often as another."""
    counts = _counts(state)
    missing = counts.max(axis=1, initial=0) - counts[:, port]
    return _events_of(state, payload, np.where(state.nodes[:, event_index.START] < before, missing, 0))


def _counts(state: RevisedState | MultisetState) -> NDArray[np.int64]:
    """How often each replica has each event: a row for each event, a column for each replica."""
    given = state.nodes[:, merged.ENDS :]
    if isinstance(state, MultisetState):
        # A point has one end, so that a list has one entry.
        return np.where(given > counted_ends.NO_ENTRY, state.entries[np.maximum(given, 0), counted_ends.COUNT], 0)
    return (given != merged.NOWHERE).astype(np.int64)


def _events_of(state: RevisedState | MultisetState, payload: pa.Schema, counts: NDArray[np.int64]) -> EventBatch:
    nodes = np.repeat(state.nodes, counts, axis=0)
    places, lengths = WORD * nodes[:, event_index.AT], WORD * nodes[:, event_index.LENGTH]
    rows = RowCodec(payload).decode_some(state.held.view(np.uint8), places, lengths)
    return EventBatch.inserts(rows, nodes[:, event_index.START].copy())
