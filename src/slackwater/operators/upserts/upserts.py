"""Turns updates by key into changes: the value of a key lasts from its own time until the next one's.

    updates    (a, 1) at 3      (a, 2) at 7                          a deleted at 9
    changes    insert [3, -)    adjust [3, -) to [3, 7), insert [7, -)    adjust [7, -) to [7, 9)

Updates wait in a sort until their time is complete; then the next one of each key is known as far as time has come. A
value that has none yet goes out without an end, and is adjusted when one comes. So a value is inserted once, adjusted
at most once, and the temporal table is that of the updates in order of time, in whatever order they came.

Of several updates of one key and time one counts: a value before a deletion, and of values the greatest by all columns
(tied_rows). The others are counted as duplicates.

Invariants: rows in = values sent + deletions + duplicates + rows that wait. Exactly the values that went out without an
end are remembered, one for each key at most.
Cost: that of the sort, and O(log updates) for each update to order them by key; memory and stored state follow the
values without an end, and what waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import gather, no_rows
from slackwater.events.kinds import Kind
from slackwater.operators.deduplicate.tied_rows import choose_among_ties
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.sort import SortOperator, SortState
from slackwater.operators.stream_progress import StreamProgress
from slackwater.operators.upserts.key_numbers import NOBODY, KeyNumbers
from slackwater.operators.upserts.live_rows import LivePiece, LiveRows, LiveRowsState
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import Mask
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

    Column = NDArray[np.int64]


@dataclass(frozen=True)
class UpsertsState:
    """What the step remembers: its input's progress, the updates that wait, the values without an end, and a count."""

    progress: StreamProgress
    waiting: SortState
    values: LiveRowsState
    duplicates: int


class UpsertsOperator(Operator[UpsertsState]):
    """Makes changes of updates. `ordered`: each event of the input closes the time before it.

    `deleted` names the column that says which updates take the value of their key away; it is not sent on.

    >>> from slackwater.events.elements import elements_of
    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")
    >>> step = UpsertsOperator(schema, ["k"], ordered=True)
    >>> rows = EventBatch.inserts(pa.record_batch({"k": ["a", "a", "b"], "v": [1, 2, 3]}), start=[3, 7, 9])
    >>> for call in (step.on_batch(0, rows.slice(0, 2)), step.on_batch(0, rows.slice(2, 3)), step.on_end(0)):
    ...     for batch in call.batches:
    ...         print(*elements_of(batch))
    insert(('a', 1), 3, forever)
    punctuate(7)
    adjust(('a', 1), 3, forever, 7) insert(('a', 2), 7, forever)
    punctuate(9)
    insert(('b', 3), 9, forever)
    punctuate(forever)
    """

    __slots__ = (
        "_compared",
        "_deleted",
        "_duplicates",
        "_keys",
        "_no_rows",
        "_ordered",
        "_peak",
        "_progress",
        "_sort",
        "_values",
        "_where",
    )
    state_types = (UpsertsState, EventBatch, LivePiece, LiveRowsState, *SortOperator.state_types)

    def __init__(
        self,
        schema: EventSchema,
        key: Sequence[str],
        deleted: str | None = None,
        *,
        ordered: bool,
        step: str = "upserts",
        resume: UpsertsState | None = None,
    ) -> None:
        sent = pa.schema([field for field in schema.payload if field.name != deleted])
        self._no_rows = no_rows(sent)
        self._deleted = deleted
        self._compared = sent.names
        self._ordered = ordered
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._sort = SortOperator(schema, step, resume.waiting if resume else None)
        self._values = LiveRows(resume.values if resume else None)
        self._keys = KeyNumbers(sent, key, step)
        for rows, numbers in self._values.rows():
            self._keys.put(self._keys.codes(rows.payload), numbers)
        self._duplicates = resume.duplicates if resume else 0
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take updates in; send the changes that those make whose time the batch as a whole completes."""
        if not len(batch):
            return NOTHING
        before = self._progress.complete_before
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        self._peak = max(self._peak, self.buffered() + batch.rows)
        complete, bound = list(self._sort.on_batch(port, batch).batches), self._progress.complete_before
        if bound == before:
            return NOTHING
        if self._ordered:  # then rows show how far the input is complete, while the sort goes by punctuations
            complete += self._sort.on_batch(port, batch.punctuation(bound)).batches
        return self._send(complete, bound)

    def on_end(self, port: Port) -> Emission:
        """Send all changes; values that nothing followed stay without an end."""
        return self._send(self._sort.on_end(port).batches, FOREVER)

    def _send(self, complete: Sequence[EventBatch], bound: Instant) -> Emission:
        rows = [batch.data() for batch in complete if batch.rows]
        changes = [self._changes(EventBatch.concat(rows))] if rows else []
        self._keys.sweep(len(self._values))
        return Emission.of(*changes, punctuation_like(self._no_rows, bound))

    def _changes(self, updates: EventBatch) -> EventBatch:
        """What updates in order of time come to, all of one time together."""
        lasting = self._lasting(updates.payload)
        payload = updates.payload.select(self._compared)
        codes = self._keys.codes(payload)
        by_key = self._without_ties(np.argsort(codes, kind="stable"), codes, lasting, updates)
        codes, starts, lasting = codes[by_key], updates.start[by_key], lasting[by_key]
        followed = codes[1:] == codes[:-1]
        first, last = np.r_[True, ~followed], np.r_[~followed, True]
        ends = np.full(len(codes), FOREVER)
        ends[:-1][followed] = starts[1:][followed]

        former, closed_at = self._keys.get(codes[first]), starts[first]
        # What is sent and held is in the order of the rows: that of the codes depends on what was seen before.
        closed = np.flatnonzero(former != NOBODY)
        closed = closed[np.argsort(former[closed])]
        values = EventBatch(payload, updates.start)
        adjusted = self._values.take(former[closed]) if len(closed) else values.slice(0, 0)
        self._keys.put(codes[first], NOBODY)
        in_order = np.argsort(by_key)
        inserted, stay = in_order[lasting[in_order]], in_order[(last & lasting)[in_order]]
        self._keys.put(codes[stay], self._values.add(values.take_rows(by_key[stay])))
        return _in_order(adjusted, closed_at[closed], values.take_rows(by_key[inserted]), ends[inserted])

    def _lasting(self, rows: pa.RecordBatch) -> Mask:
        """Which updates are values, and not deletions. A null marks none."""
        if self._deleted is None:
            return np.ones(rows.num_rows, dtype=np.bool_)
        deleted: Mask = rows.column(self._deleted).fill_null(False).to_numpy(zero_copy_only=False)
        return ~deleted

    def _without_ties(self, by_key: Column, codes: Column, lasting: Mask, updates: EventBatch) -> Column:
        """The places of updates by key and time, of those of one key and time only the one that counts."""
        codes, starts = codes[by_key], updates.start[by_key]
        ties = np.r_[False, (codes[1:] == codes[:-1]) & (starts[1:] == starts[:-1])]
        if not ties.any():
            return by_key
        self._duplicates += int(np.count_nonzero(ties))
        group = np.cumsum(~ties) - 1
        firsts = by_key[~ties]
        columns = [pa.array(lasting), *(updates.payload.column(name) for name in self._compared)]
        names = [str(place) for place in range(len(columns))]
        compared = EventBatch(pa.RecordBatch.from_arrays(columns, names=names), updates.start)
        return choose_among_ties(compared, firsts[group[ties]], by_key[ties], names, greatest=True)[firsts]

    def duplicates(self) -> int:
        """How many updates did not count because another one of their key and time did."""
        return self._duplicates

    def idle_waiting_on(self) -> Port | None:
        """The input, while updates are held: a punctuation may release them though no row comes."""
        return 0 if self.buffered() else None

    def buffered(self) -> int:
        """How many updates wait. The values of keys have been sent."""
        return self._sort.buffered()

    def peak_buffered(self) -> int:
        """The most updates that waited: those of a batch beside those that were held."""
        return self._peak

    def snapshot(self) -> UpsertsState:
        """Return what is remembered. Cost: that of a sort's, and a bit for each value near one that was adjusted."""
        return UpsertsState(self._progress, self._sort.snapshot(), self._values.snapshot(), self._duplicates)

    def check(self) -> None:
        """Assert the invariants."""
        self._sort.check()
        self._values.check()
        numbers = [numbers for _, numbers in self._values.rows()]
        self._keys.check(np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64))


def _in_order(adjusted: EventBatch, closed_at: Column, inserted: EventBatch, ends: Column) -> EventBatch:
    """Changes in order of the times at which they happen; at one time values end before others begin."""
    if not adjusted.rows:
        return EventBatch(inserted.payload, inserted.start, ends)
    order = np.argsort(np.concatenate([closed_at, inserted.start]), kind="stable")
    return EventBatch(
        gather(pa.concat_batches([adjusted.payload, inserted.payload]), order),
        np.concatenate([adjusted.start, inserted.start])[order],
        np.concatenate([closed_at, ends])[order],
        np.where(order < adjusted.rows, np.int8(Kind.ADJUST), np.int8(Kind.INSERT)),
        np.concatenate([np.full(adjusted.rows, FOREVER), ends])[order],
    )
