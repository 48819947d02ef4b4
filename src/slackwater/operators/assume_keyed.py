"""Takes it that start and payload are a key, as was declared, and stops a stream at the first event that comes twice.

What is remembered of an event is two hashes and a time, until nothing more can come of it; its payload is not held. Of
a revised stream that is when the event is frozen. Of one that only inserts it is when its start is complete: by a
punctuation, or, where rows come in order, by a later row. An adjust of an event that is not known is let pass: it may
have come before this stream began.

Invariant: of each start and payload there is at most one event.
Cost: one look-up per element; 60 to 120 bytes for each event that is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.columns.row_codec import WORD, RowCodec
from slackwater.errors import BadElement, UnknownEvent, message
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_element
from slackwater.kernels.replicas import known_events as kernel
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_LEAST_PLACES: Final = 1_024
_FULL: Final = 1.25
"""Places that there must be for each event in the table."""


@dataclass(frozen=True)
class KeyedState:
    """What is remembered: the events that are known, and the last punctuation.

    Events of no interest are not among them: what becomes of those may have been left out before the step.
    """

    known: NDArray[np.int64]
    complete_before: Instant


class AssumeKeyedOperator(Operator[KeyedState]):
    """Passes batches on unchanged while no event comes twice.

    `final`: the stream inserts events and never revises them; `ordered`: these come in order of time.

    >>> import pyarrow as pa
    >>> from slackwater.events.elements import Insert, batch_of
    >>> rows = pa.schema({"x": pa.string()})
    >>> step = AssumeKeyedOperator(batch_of([], rows).payload)
    >>> len(step.on_batch(0, batch_of([Insert(("a",), 1, 5), Insert(("a",), 2, 5)], rows)).batches)
    1
    """

    __slots__ = ("_bound", "_codec", "_complete", "_final", "_ordered", "_table", "_used", "_where")
    state_types = (KeyedState,)

    def __init__(
        self,
        no_rows: pa.RecordBatch,
        where: str = "assume_keyed",
        resume: KeyedState | None = None,
        *,
        final: bool = False,
        ordered: bool = False,
    ) -> None:
        self._where = where
        self._final, self._ordered = final, ordered
        self._codec = RowCodec(no_rows.schema, where)
        self._complete = BEGINNING if resume is None else resume.complete_before
        self._bound = BEGINNING
        self._table = np.empty((0, kernel.FIELDS), dtype=np.int64) if resume is None else resume.known.copy()
        self._used = np.zeros(1, dtype=np.int64)
        self._make_room(0, anew=True)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Look every element up."""
        if not len(batch):
            return NOTHING
        if batch.rows:
            self._follow(batch)
        if batch.kind is not None:
            self._complete = int(batch.punctuations().max(initial=self._complete))
        if self._ordered and batch.rows:
            self._complete = max(self._complete, int(batch.data().start[-1]))
        return Emission((batch,))

    def _follow(self, batch: EventBatch) -> None:
        payloads = self._codec.encode(batch.payload)
        self._make_room(batch.rows)
        kinds = batch.kinds()
        rows = np.cumsum(kinds != Kind.PUNCTUATE) - 1
        # What is not revised counts until its start is complete, whatever its end: as a point.
        times = batch.start, batch.prior_ends(), batch.start + (batch.start < FOREVER) if self._final else batch.ends()
        broken = kernel.follow_events(
            self._table, self._used, kinds, *times, rows, payloads.offsets // WORD, payloads.words, self._unsure_before
        )
        if broken == kernel.ALL_WELL:
            return
        element = show_element(batch, broken)
        if kinds[broken] == Kind.ADJUST:
            raise UnknownEvent.adjusted_by(self._where, element)
        hint = "leave keyed=True out: then equal events count"
        if self._final:
            hint = "leave assume_keyed() out: then equal rows count; or deduplicate(on=..., within=0) before it"
        twice = f"{self._where} expects time and payload to be a key, and got an event twice"
        raise BadElement(message(twice, {"element": element}, hint))

    def _make_room(self, rows: int, *, anew: bool = False) -> None:
        """See that so many more events fit; where they do not, leave out those that nothing is expected of."""
        if not anew and _FULL * (int(self._used[0]) + rows) <= len(self._table):
            return
        kept = int(np.count_nonzero(self._still_known()))
        # Twice as many must fit as there are now, or all of them would be moved again soon.
        room = max(_LEAST_PLACES, 1 << int(2 * _FULL * (kept + rows)).bit_length())
        table = np.full((room, kernel.FIELDS), kernel.FREE, dtype=np.int64)
        old, unsure = np.ascontiguousarray(self._table), self._unsure_before
        self._used[0] = kernel.move_known(old, self._forgotten_before, unsure, table)
        self._table = table

    @property
    def _forgotten_before(self) -> Instant:
        """Events that end before this do not come any more; those that are not revised count as points."""
        return min(self._complete, FOREVER - 1) + 1 if self._final else self._complete

    @property
    def _unsure_before(self) -> Instant:
        """Of an event that ends at or before this, a revision may have been left out; an insert is one or it is not."""
        return BEGINNING if self._final else self._bound

    def _still_known(self) -> NDArray[np.bool_]:
        ends = self._table[:, kernel.END]
        return (ends > kernel.GONE) & (ends >= self._forgotten_before) & (ends > self._unsure_before)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is nothing to flush
        """Release nothing: no event was held."""
        return NOTHING

    def of_interest_from(self, port: Port) -> Instant:  # noqa: ARG002 - there is one port
        """The same as behind the operator."""
        return self._bound

    def ignore_before(self, bound: Instant) -> None:
        """Expect nothing of events that end at or before the bound: their revisions may be left out."""
        self._bound = max(self._bound, bound)

    def snapshot(self) -> KeyedState:
        """Return what is known. Cost: a copy of it."""
        return KeyedState(self._table[self._still_known()], self._complete)

    def check(self) -> None:
        """Assert that the places in use are counted, and leave some of the table free."""
        used = int(np.count_nonzero(self._table[:, kernel.END] != kernel.FREE))
        assert used == self._used[0], (used, self._used)
        assert _FULL * used <= len(self._table), (used, len(self._table))
