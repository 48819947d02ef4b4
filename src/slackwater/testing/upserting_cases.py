"""The torture cases of upserts: ordered and disordered, with deletions and without, ties, and both ends of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.events.batch import EventBatch
from slackwater.events.elements import elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.upserts.upserts import UpsertsOperator
from slackwater.testing.deduplicating_cases import stretched
from slackwater.testing.oracles.upserts import upserts_oracle
from slackwater.testing.strategies import disordered_batches, ordered_batches
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.testing.torture import Streams

_DELETED = "gone"


def upserting_cases(payload: pa.Schema) -> list[TortureCase]:
    """All cases."""
    return [
        *(_case(payload, ["k"], deletes=deletes, ordered=bool(n)) for deletes in (False, True) for n in range(2)),
        _case(payload, ["k", "v"], deletes=False, ordered=False),
        _case(payload, ["v"], deletes=True, ordered=False),
        _case(payload, ["k"], deletes=True, ordered=False, name="a few times", change=_crowded),
        _case(payload, ["k"], deletes=True, ordered=True, name="both ends of time", change=stretched),
    ]  # fmt: skip


def with_deletions(batch: EventBatch) -> EventBatch:
    """The same updates, of which some are deletions; by a column of its own, which is null in others."""
    third = pc.subtract(batch.payload.column("v"), pc.multiply(pc.divide(batch.payload.column("v"), 3), 3))
    return batch.with_payload(batch.payload.append_column(_DELETED, pc.equal(third, 0)))


def _crowded(batch: EventBatch) -> EventBatch:
    """So few different times that most updates of a key tie; punctuations are left out."""
    rows = batch.data()
    return EventBatch(rows.payload, rows.start % 3)


def _case(
    payload: pa.Schema,
    key: Sequence[str],
    *,
    deletes: bool,
    ordered: bool,
    name: str = "a sequence",
    change: Callable[[EventBatch], EventBatch] = lambda batch: batch,
) -> TortureCase:
    updates = payload.append(pa.field(_DELETED, pa.bool_())) if deletes else payload
    schema = EventSchema(updates, TimeColumn("at", pa.int64()), None, ("at", *updates.names))
    deleted = _DELETED if deletes else None
    places = [payload.names.index(column) for column in key]

    def streams(batch: EventBatch) -> Streams:
        changed = change(batch)
        return (with_deletions(changed) if deletes else changed,)

    return TortureCase(
        f"upserts by {key}, {'ordered' if ordered else 'disordered'}, at {name}" + " with deletions" * deletes,
        UpsertsOperator,
        lambda state: UpsertsOperator(schema, key, deleted, ordered=ordered, resume=state),
        (ordered_batches if ordered else disordered_batches)(payload).map(streams),
        lambda streams: upserts_oracle(elements_of(streams[0]), places, len(payload) if deletes else None),
        ordered=False,
    )
