"""Keeps one row of each event that arrives several times; key columns and a span of time define which ones.

Of each key, rows are looked at in order of time. The first is an *original*; rows that come at most `within` after it
repeat it; the next one after that is an original again. Of an original and the rows that repeat it one is kept, the
first or the last. So it is a function of the temporal table: neither the cut into batches nor the order of arrival
changes it. Where rows of one key have the same time, what is in them decides (tied_rows).

Rows wait until their time is complete: in a sort, or, if they come in order, only those of the newest time. Then, where
the first is kept, it is known at once what becomes of a row: only keys are remembered. Where the last is kept, a row
waits until its original is more than `within` back.

Invariants: rows in = rows out + rows held + duplicates. What is remembered of the past began at most `within` before
complete_before. Output is ordered, and no two rows of it have the same key and time.
Cost: that of the sort, and a look-up for each row (known_keys).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.errors import BadDuration, message
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.kernels.match.known_keys import KEPT
from slackwater.operators.deduplicate.key_words import KeyWords
from slackwater.operators.deduplicate.known_keys import KnownKeys, KnownState
from slackwater.operators.deduplicate.latest_rows import LatestRows, PieceState
from slackwater.operators.deduplicate.shares import split_known, unite_known
from slackwater.operators.deduplicate.tied_rows import choose_among_ties
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.shares import ordered_together, parts_of_ordered, require_alike
from slackwater.operators.sort import SortOperator, SortState
from slackwater.operators.stream_progress import StreamProgress
from slackwater.policies.keep import Keep
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.schema import EventSchema
    from slackwater.operators.deduplicate.known_keys import Column, Lasts
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant


_FEW: Final = 16_384
"""Rows that are copied faster than looked at in two parts."""


@dataclass(frozen=True)
class DeduplicateState:
    """What the step remembers: its input's progress, the rows that wait, the keys, and what it has counted."""

    progress: StreamProgress
    waiting: SortState
    newest: tuple[EventBatch, ...]
    """Rows of an ordered input whose time is not complete."""

    known: KnownState
    latest: tuple[PieceState, ...]
    looked_at: int
    """How many rows have come out of the sort: the number of the next one."""

    duplicates: int


class DeduplicateOperator(Operator[DeduplicateState]):
    """Leaves out repeats. `ordered`: each event of the input closes the time before it.

    >>> import pyarrow as pa
    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string()}), time="at")
    >>> step = DeduplicateOperator(schema, ["k"], within=5, keep=Keep.FIRST, ordered=True)
    >>> rows = EventBatch.inserts(pa.record_batch({"k": ["a", "b", "a", "a"]}), start=[1, 2, 6, 7])
    >>> [batch.start.tolist() for call in (step.on_batch(0, rows), step.on_end(0)) for batch in call.batches]
    [[1, 2], [7], [7], [9223372036854775807]]
    """

    __slots__ = (
        "_compared",
        "_duplicates",
        "_keep",
        "_keys",
        "_known",
        "_latest",
        "_looked_at",
        "_newest",
        "_no_rows",
        "_ordered",
        "_peak",
        "_progress",
        "_sort",
        "_where",
        "_within",
    )
    state_types = (DeduplicateState, EventBatch, KnownState, PieceState, *SortOperator.state_types)
    splits = True

    def __init__(
        self,
        schema: EventSchema,
        on: Sequence[str],
        within: Duration,
        keep: Keep,
        *,
        ordered: bool,
        step: str = "deduplicate",
        resume: DeduplicateState | None = None,
    ) -> None:
        if not 0 <= within <= FOREVER:
            raise BadDuration(message(f"{step} needs a duration that is not negative and fits int64", {"got": within}))
        self._no_rows = schema.no_rows
        self._keys = KeyWords(schema.payload, on, step)
        # What rows of one key may differ in: zeros of both signs are one key.
        self._compared = [f.name for f in schema.payload if f.name not in on or _has_two_zeros(f.type)]
        self._within = within
        self._keep = keep
        self._ordered = ordered
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._sort = SortOperator(schema, step, resume.waiting if resume else None)
        self._newest = list(resume.newest) if resume else []
        self._known = KnownKeys(within, resume.known if resume else None, self._keys.few)
        self._latest = LatestRows(resume.latest if resume else ())
        for begun_by, numbers in self._latest.kept():
            self._known.set_latest(begun_by, numbers)
        self._looked_at = resume.looked_at if resume else 0
        self._duplicates = resume.duplicates if resume else 0
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take the rows in; look at those whose time the batch as a whole completes."""
        before = self._progress.complete_before
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        bound = self._progress.complete_before
        self._peak = max(self._peak, self.buffered() + batch.rows)
        if self._ordered:
            if batch.rows:
                data = batch.data()
                self._newest.append(EventBatch(data.payload, data.start, data.end))
            return self._send(self._in_order_before(bound), before, bound) if bound > before else NOTHING
        complete = self._sort.on_batch(port, batch).batches  # it sees the same punctuations
        return self._send(complete, before, bound) if bound > before else NOTHING

    def _in_order_before(self, bound: Instant) -> list[EventBatch]:
        """Take out the rows of an ordered input that are older than a bound."""
        complete: list[EventBatch] = []
        while self._newest and self._newest[0].start[-1] < bound:
            complete.append(self._newest.pop(0))
        if self._newest and self._newest[0].start[0] < bound:
            cut = int(np.searchsorted(self._newest[0].start, bound))
            complete.append(self._newest[0].slice(0, cut))
            self._newest[0] = self._newest[0].slice(cut, len(self._newest[0]))
        return complete

    def on_end(self, port: Port) -> Emission:
        """Look at every row, and end the output."""
        waiting = self._in_order_before(FOREVER) if self._ordered else self._sort.on_end(port).batches
        return self._send(waiting, self._progress.complete_before, FOREVER)

    def _send(self, complete: Iterable[EventBatch], before: Instant, bound: Instant) -> Emission:
        kept = [self._look_at(rows) for rows in _by_whole_times([rows for rows in complete if rows.rows])]
        self._known.forget_before(_back(bound, self._within))
        if self._keep is Keep.FIRST:
            return Emission.of(*kept, punctuation_like(self._no_rows, bound))
        until = self._complete_before(bound)
        if until <= self._complete_before(before):
            return NOTHING
        return Emission.of(*self._latest.release(until), punctuation_like(self._no_rows, until))

    def _complete_before(self, bound: Instant) -> Instant:
        """How far the output is complete: rows before that have originals that nothing repeats any more."""
        if self._keep is Keep.FIRST or bound == FOREVER:  # past which there is no row that could
            return bound
        return _back(bound, self._within)

    def _look_at(self, rows: EventBatch) -> EventBatch:
        """Find repeats among rows in order of time, all of one time together; return what goes out at once."""
        keys = self._keys.encode(rows.payload)
        first_row = self._looked_at
        self._looked_at += rows.rows
        if self._keep is Keep.LAST:
            self._keep_lasts(rows, self._known.find_lasts(rows.start, keys, first_row), first_row)
            return rows.slice(0, 0)
        found = self._known.find_firsts(rows.start, keys, first_row)
        self._duplicates += rows.rows - len(found.kept)
        if len(found.kept) == rows.rows:
            return rows
        return rows.take_rows(self._chosen(rows, found.firsts, found.tied, found.kept))

    def _keep_lasts(self, rows: EventBatch, found: Lasts, first_row: int) -> None:
        """Hold the rows that are kept, for now, in place of those that they replace."""
        kept = found.fates == KEPT
        mine = found.replaced >= first_row
        kept[found.replaced[mine] - first_row] = False
        places = np.flatnonzero(kept)
        older = found.replaced[~mine]
        self._duplicates += rows.rows - len(places) + len(older)
        self._latest.replace(older)
        tied = np.flatnonzero(found.fates >= 0)
        chosen = self._chosen(rows, found.fates[tied], tied, places)
        self._latest.add(rows.take_rows(chosen), places + first_row, found.begun_by[places])

    def _chosen(self, rows: EventBatch, firsts: Column, others: Column, places: Column) -> Column:
        """For each row that is kept the one that is sent: itself, unless it ties with a better one."""
        if not len(others):
            return places
        greatest = self._keep is Keep.LAST
        return choose_among_ties(rows, firsts, others, self._compared, greatest=greatest)[places]

    def duplicates(self) -> int:
        """How many rows were left out because another one stands for them."""
        return self._duplicates

    def idle_waiting_on(self) -> Port | None:
        """The input, while rows are held: a punctuation may release them though no row comes."""
        return 0 if self.buffered() else None

    def buffered(self) -> int:
        """How many rows wait, for their time to be complete or for a later one to take their place."""
        return self._sort.buffered() + sum(batch.rows for batch in self._newest) + len(self._latest)

    def peak_buffered(self) -> int:
        """The most rows that waited: those of a batch beside those that were held."""
        return self._peak

    def snapshot(self) -> DeduplicateState:
        """Return what is remembered. Cost: that of a sort's, and a copy of the keys that are new."""
        return DeduplicateState(
            self._progress,
            self._sort.snapshot(),
            tuple(self._newest),
            self._known.snapshot(),
            self._latest.snapshot(),
            self._looked_at,
            self._duplicates,
        )

    def split(self, spreads: Sequence[RowSpread]) -> list[DeduplicateState]:
        """What waits and the keys that are known, by these keys; the first goes on counting."""
        state, spread = self.snapshot(), spreads[0]
        known = split_known(self._keys, spread, state.known, state.latest, state.looked_at)
        shares = zip(self._sort.split(spreads), parts_of_ordered(state.newest, spread), known, strict=True)
        return [
            DeduplicateState(state.progress, *share[:2], *share[2], state.looked_at, 0 if number else state.duplicates)
            for number, share in enumerate(shares)
        ]

    def unite(self, states: Sequence[DeduplicateState]) -> DeduplicateState:
        """All that waits, and all keys that are known. Rows that came in order must have come as far everywhere."""
        newest = ordered_together(state.newest for state in states)
        if newest:
            require_alike(self._where, (state.progress.complete_before for state in states))
        looked_at = sum(state.looked_at for state in states)
        return DeduplicateState(
            StreamProgress.least(state.progress for state in states),
            self._sort.unite([state.waiting for state in states]),
            newest,
            *unite_known([(state.known, state.latest) for state in states], looked_at),
            looked_at,
            sum(state.duplicates for state in states),
        )

    def check(self) -> None:
        """Assert the invariants."""
        self._sort.check()
        self._known.check()
        self._latest.check()
        assert 0 <= self._duplicates <= self._looked_at, (self._duplicates, self._looked_at)


def _has_two_zeros(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind.value_type if pa.types.is_dictionary(kind) else kind))


def _by_whole_times(batches: Sequence[EventBatch]) -> list[EventBatch]:
    """Rows in order of time, cut so that all of one time are in one batch; few rows are not worth a cut."""
    if len(batches) <= 1 or sum(batch.rows for batch in batches) <= _FEW:
        return [EventBatch.concat(batches)] if batches else []
    together: list[list[EventBatch]] = []
    for batch in batches:
        same = 0
        if together and together[-1][-1].start[-1] == batch.start[0]:
            same = int(np.searchsorted(batch.start, batch.start[0], side="right"))
            together[-1].append(batch.slice(0, same))
        if same < len(batch):
            together.append([batch.slice(same, len(batch))])
    return [EventBatch.concat(parts) for parts in together]


def _back(bound: Instant, within: Duration) -> Instant:
    """The instant so long before a bound; BEGINNING where int64 has none."""
    return max(bound - within, BEGINNING)
