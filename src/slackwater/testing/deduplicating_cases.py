"""The torture cases of deduplicate: ordered and disordered, points and lifetimes, the first row and the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.deduplicate.deduplicate import DeduplicateOperator
from slackwater.policies.keep import Keep
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.deduplicate import deduplicate_oracle
from slackwater.testing.strategies import LATEST, disordered_batches, ordered_batches
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from slackwater.progress.instants import Duration
    from slackwater.testing.torture import Streams


def deduplicating_cases(payload: pa.Schema) -> list[TortureCase]:
    """All cases."""
    return [
        _case(payload, ["k"], 0, Keep.FIRST, ordered=True),
        _case(payload, ["k"], 6, Keep.FIRST, ordered=True, intervals=True),
        _case(payload, ["k"], 6, Keep.FIRST, ordered=False),
        _case(payload, ["k", "v"], 9, Keep.FIRST, ordered=False),
        _case(payload, ["v"], 3, Keep.LAST, ordered=True),
        _case(payload, ["k"], 6, Keep.LAST, ordered=False, intervals=True),
        _case(payload, ["k"], 6, Keep.LAST, ordered=False),
        _case(payload, ["k"], FOREVER, Keep.LAST, ordered=False),
        *(_far_apart(payload, within, keep) for within in (FOREVER, FOREVER - 7) for keep in Keep),
    ]


def _case(
    payload: pa.Schema, on: Sequence[str], within: Duration, keep: Keep, *, ordered: bool, intervals: bool = False
) -> TortureCase:
    batches = ordered_batches if ordered else disordered_batches
    extent = "intervals" if intervals else "points"
    name = f"deduplicate {'ordered' if ordered else 'disordered'} {extent} on {on} within {within}, {keep.value} kept"
    streams = st.tuples(batches(payload, intervals=intervals))
    return _of(payload, name, streams, on, within, keep, ordered=ordered, intervals=intervals)


def _far_apart(payload: pa.Schema, within: Duration, keep: Keep) -> TortureCase:
    """Times so far apart that their distance does not fit int64."""
    streams = st.tuples(ordered_batches(payload).map(stretched))
    name = f"deduplicate at both ends of time within {within}, {keep.value} kept"
    return _of(payload, name, streams, ["k"], within, keep, ordered=True, intervals=False)


def stretched(batch: EventBatch) -> EventBatch:
    """The first half of the times right behind the beginning, the others right before the end."""
    times = batch.start
    moved = np.where(times <= LATEST // 2, BEGINNING + 1 + times, FOREVER - 2 - LATEST + times)
    return EventBatch(batch.payload, np.where(times == FOREVER, FOREVER, moved), None, batch.kind)


def _of(
    payload: pa.Schema,
    name: str,
    streams: SearchStrategy[Streams],
    on: Sequence[str],
    within: Duration,
    keep: Keep,
    *,
    ordered: bool,
    intervals: bool,
) -> TortureCase:
    until = TimeColumn("until", pa.int64()) if intervals else None
    columns = ("at", *(["until"] if intervals else []), *payload.names)
    schema = EventSchema(payload, TimeColumn("at", pa.int64()), until, columns)
    places = [payload.names.index(key) for key in on]
    return TortureCase(
        name,
        DeduplicateOperator,
        lambda state: DeduplicateOperator(schema, on, within, keep, ordered=ordered, resume=state),
        streams,
        lambda streams: deduplicate_oracle(elements_of(streams[0]), places, within, keep),
        divided=(schema,) if "k" in on else (),
    )
