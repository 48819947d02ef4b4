"""Finds the changes of a log that come behind the log's own punctuations, and does with them what the user chose.

A change is late when it concerns time before the greatest punctuation: the start of an insert, the lesser of the two
ends of an adjust. To leave it out makes the log and what is passed on differ, so what differs is remembered: an event
that the log has and the output lacks is a *stray*, and every later change of a stray is late, too. So no change is
passed on whose event is not there, and nothing contradicts a punctuation that was passed on.

An event whose end was brought forward too late keeps its former end in the output; the late output has the change.

Invariant: of each start, payload and end at or past the punctuation, the log has as many events as were passed on and
not changed too late, and strays. Where an event and a stray are the same but for that, the stray is changed first.
Cost: O(elements) while nothing is late and there is no stray; otherwise a look-up for each element. A stray is
forgotten when its end is before the punctuation: changes of it are late by themselves then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BrokenPunctuation, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.events.changes import ChangeLog, concerned_from
from slackwater.events.kinds import Kind
from slackwater.events.schema import EventSchema
from slackwater.events.shown_values import show_row
from slackwater.kernels.progress.follow_punctuations import NOBODY, follow_punctuations
from slackwater.operators.emission import LATE, NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.policies.late import LateAction
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.batch import Mask, Times
    from slackwater.policies.late import Late
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


def late_changes_schema(schema: EventSchema, step: str) -> EventSchema:
    """The columns of late changes: those of the log, the punctuation that was missed, and by how much."""
    shown = ChangeLog(schema).shown
    late_by = pa.duration("us") if schema.calendar else pa.int64()
    added = [pa.field("late_bound", schema.time.type), pa.field("late_by", late_by)]
    for field in added:
        if field.name in shown.names:
            hint = "give the column another name, or choose another Late policy"
            raise SchemaMismatch.clash(step, field.name, hint)
    columns = [*shown, *added]
    payload = pa.schema([field for field in columns if field.name != schema.time.name])
    return EventSchema(payload, schema.time, None, tuple(field.name for field in columns))


@dataclass(frozen=True)
class LateChangesState:
    """What is remembered: the greatest punctuation, how many changes were late, and how often there is each stray."""

    complete_before: Instant = BEGINNING
    late: int = 0
    strays: tuple[tuple[bytes, int, int, int], ...] = ()


class LateChangesOperator(Operator[LateChangesState]):
    """Passes on the changes that are in time. Late ones are diverted, dropped or refused.

    >>> from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
    >>> from slackwater.policies.late import Late
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
    >>> step = LateChangesOperator(schema, Late.drop())
    >>> log = [Insert(("a",), 5, 6), Punctuate(4), Insert(("b",), 3, 4), Insert(("c",), 4, 5)]
    >>> for batch in step.on_batch(0, batch_of(log, schema.payload)).batches:
    ...     print(*elements_of(batch))
    insert(('a',), 5, 6) punctuate(4) insert(('c',), 4, 5)
    >>> step.late()
    1
    """

    __slots__ = ("_codec", "_complete", "_fate", "_late", "_late_payload", "_schema", "_step", "_strays")
    state_types = (LateChangesState,)

    def __init__(
        self, schema: EventSchema, late: Late, step: str = "late_changes", resume: LateChangesState | None = None
    ) -> None:
        state = resume or LateChangesState()
        self._schema = schema
        self._step = step
        self._fate = late.action
        self._codec = RowCodec(schema.payload, step)
        self._late_payload = late_changes_schema(schema, step).payload if late.action is LateAction.DIVERTED else None
        self._complete, self._late = state.complete_before, state.late
        self._strays = Counter({(payload, start, end): often for payload, start, end, often in state.strays})

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Decide of every change whether it is late, by the punctuations before it."""
        if not len(batch):
            return NOTHING
        kinds, concerned = batch.kinds(), concerned_from(batch)
        complete, broken = follow_punctuations(concerned, kinds, int(Kind.PUNCTUATE), self._complete)
        if broken == NOBODY and not self._strays:
            self._complete = int(complete)
            return Emission((batch,))
        bounds = np.maximum.accumulate(np.where(kinds == Kind.PUNCTUATE, batch.start, self._complete))
        late = self._late_among(batch, kinds, concerned, bounds)
        self._complete = max(self._complete, int(bounds[-1]))
        self._forget_frozen()
        return self._emission(batch, late, concerned, bounds)

    def _late_among(self, batch: EventBatch, kinds: NDArray[np.int8], concerned: Times, bounds: Times) -> Mask:
        """Which elements are late, one after the other: what becomes of one may decide about the next."""
        rows = self._codec.encode(batch.payload)
        late, row = np.zeros(len(batch), dtype=np.bool_), 0
        times = zip(batch.start.tolist(), batch.prior_ends().tolist(), batch.ends().tolist(), strict=True)
        for at, (start, prior, end) in enumerate(times):
            if kinds[at] == Kind.PUNCTUATE:
                continue
            payload = rows.data[rows.offsets[row] : rows.offsets[row + 1]].tobytes()
            row += 1
            former = (payload, start, prior)
            stray = kinds[at] == Kind.ADJUST and former in self._strays
            if stray:
                self._strays.subtract([former])
                self._strays += Counter()  # leaves out what is there no more
            late[at] = stray or concerned[at] < bounds[at]
            if late[at] and end >= bounds[at] and end > start:
                self._strays[payload, start, end] += 1
        return late

    def _forget_frozen(self) -> None:
        """Forget strays whose changes are late by themselves."""
        for stray in [one for one in self._strays if one[2] < self._complete]:
            del self._strays[stray]

    def _emission(self, batch: EventBatch, late: Mask, concerned: Times, bounds: Times) -> Emission:
        if not late.any():
            return Emission((batch,))
        places = np.flatnonzero(late)
        if self._fate is LateAction.REFUSED:
            first = int(places[0])
            came = show_row(ChangeLog(self._schema).show(batch.slice(first, first + 1)), 0)
            raise BrokenPunctuation.by(f"step {self._step!r}", came, self._schema.time.show(int(bounds[first])))
        self._late += len(places)
        is_row = batch.kinds() != Kind.PUNCTUATE
        kept = batch.keep_rows(~late[is_row])
        if self._late_payload is None:
            return Emission.of(kept)
        diverted = self._diverted(batch.data().keep_rows(late[is_row]), concerned[places], bounds[places])
        return Emission((kept,) if len(kept) else (), ((LATE, diverted),))

    def _diverted(self, changes: EventBatch, concerned: Times, bounds: Times) -> EventBatch:
        assert self._late_payload is not None
        shown = ChangeLog(self._schema).show(changes)
        # A change of a stray may concern no time that was complete; it has missed no bound by itself.
        missed_by = np.maximum(
            np.minimum(bounds.view(np.uint64) - concerned.view(np.uint64), FOREVER).astype(np.int64), 0
        )
        missed_by[concerned >= bounds] = 0
        added = [self._schema.time.renamed("late_bound").write(bounds), pa.array(missed_by)]
        added[1] = added[1].view(self._late_payload.field("late_by").type)
        columns = [shown.column(name) for name in shown.schema.names if name != self._schema.time.name]
        payload = pa.RecordBatch.from_arrays([*columns, *added], schema=self._late_payload)
        return EventBatch.inserts(payload, changes.start)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is nothing to flush
        """Release nothing: nothing was held."""
        return NOTHING

    def late(self) -> int:
        """How many changes were diverted or dropped."""
        return self._late

    def snapshot(self) -> LateChangesState:
        """Return what is remembered. Cost: a copy of the strays."""
        strays = tuple((*stray, often) for stray, often in self._strays.items())
        return LateChangesState(self._complete, self._late, strays)

    def check(self) -> None:
        """Assert that no stray is kept that is not needed."""
        assert all(often > 0 and stray[2] >= self._complete for stray, often in self._strays.items()), self._strays
