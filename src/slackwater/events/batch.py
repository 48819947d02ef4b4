"""EventBatch: an immutable, columnar chunk of a physical stream, punctuations included.

Every element is one position of `start` (and of `kind`, `end`, `prior_end` where those are present), punctuations
too: they stand inline, at the place where they came. `payload` is dense: it has one row per insert or adjust
and none for punctuations, so user columns never hold made-up values. See docs/decisions/0002.

Absent columns are statements about the whole batch:
    kind is None       every element is an insert
    end is None        every event is a point, lasting for [start, start + 1)
    prior_end is None  there is no adjust
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.events.gather import gather
from slackwater.events.gather import keep as keep_marked
from slackwater.events.kinds import Kind
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.progress.instants import Instant

Times: TypeAlias = "NDArray[np.int64]"
"""A column of instants."""

Kinds: TypeAlias = "NDArray[np.int8]"
"""A column of Kind values."""

Mask: TypeAlias = "NDArray[np.bool_]"
"""A column of yes or no."""

_PUNCTUATE = int(Kind.PUNCTUATE)  # a plain int: comparing a column with an enum member costs ten times as much
_ONE_PUNCTUATION = np.array([_PUNCTUATE], dtype=np.int8)
_NOWHERE: NDArray[np.int64] = np.empty(0, dtype=np.int64)

_LONG_STRETCH = 256
"""Elements between two punctuations: so many are copied faster as a whole than one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """A chunk of a physical stream: inserts, adjusts and punctuations in the order in which they came.

    >>> batch = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=[3, 5])
    >>> len(batch), batch.rows, batch.start.tolist()
    (2, 2, [3, 5])
    >>> both = EventBatch.concat([batch, batch.punctuation(5)])
    >>> len(both), both.rows, both.last_punctuation()
    (3, 2, 5)
    """

    payload: pa.RecordBatch
    start: Times
    end: Times | None = None
    kind: Kinds | None = None
    prior_end: Times | None = None
    rows: int = field(init=False, repr=False)
    """How many inserts and adjusts there are. Kept, not computed: it is asked for at every step of every batch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.payload.num_rows)
        self.start.setflags(write=False)
        for column in (self.end, self.kind, self.prior_end):
            if column is not None:
                column.setflags(write=False)

    @classmethod
    def inserts(
        cls,
        payload: pa.RecordBatch,
        start: Times | Sequence[Instant],
        end: Times | Sequence[Instant] | None = None,
    ) -> EventBatch:
        """Make a batch of inserts; without `end` they are point events. Copies nothing that is int64 already."""
        return cls(payload, _times(start), None if end is None else _times(end))

    @classmethod
    def concat(cls, batches: Sequence[EventBatch]) -> EventBatch:
        """Join batches of one schema, in order. Cost: one copy of all columns; none for a single batch."""
        if len(batches) == 1:
            return batches[0]
        return cls(
            pa.concat_batches([batch.payload for batch in batches]),
            np.concatenate([batch.start for batch in batches]),
            _concat_present(batches, "end", EventBatch.ends),
            _concat_present(batches, "kind", EventBatch.kinds),
            _concat_present(batches, "prior_end", EventBatch.prior_ends),
        )

    def punctuation(self, complete_before: Instant) -> EventBatch:
        """Make a batch of one punctuation, with this batch's schema and columns."""
        return punctuation_like(self.payload.slice(0, 0), complete_before)

    def __len__(self) -> int:
        return len(self.start)

    def ends(self) -> Times:
        """`end`, with point events spelled out as [start, start + 1)."""
        return self.start + 1 if self.end is None else self.end

    def kinds(self) -> Kinds:
        """`kind`, spelled out where it is absent."""
        return np.zeros(len(self), dtype=np.int8) if self.kind is None else self.kind

    def prior_ends(self) -> Times:
        """`prior_end`, spelled out where it is absent (and meaningless there)."""
        return self.start if self.prior_end is None else self.prior_end

    def is_data(self) -> Mask | None:
        """Which elements are inserts or adjusts; None when all are."""
        return None if self.kind is None else self.kind != _PUNCTUATE

    def punctuated_at(self) -> NDArray[np.int64]:
        """Where the punctuations stand among the elements."""
        return _NOWHERE if self.kind is None else np.flatnonzero(self.kind == _PUNCTUATE)

    def punctuations(self) -> Times:
        """The instants of the punctuations, in order."""
        return self.start[self.punctuated_at()] if self.rows else self.start

    def last_punctuation(self) -> Instant | None:
        """The last punctuation, if there is one."""
        punctuations = self.punctuations()
        return int(punctuations[-1]) if len(punctuations) else None

    def data(self) -> EventBatch:
        """Return the batch without its punctuations. Copies nothing when there are none."""
        if self.kind is None or self.rows == len(self):
            return self
        punctuated_at = self.punctuated_at()
        if len(punctuated_at) * _LONG_STRETCH > len(self):
            rows_at = np.flatnonzero(self.kind != _PUNCTUATE)
            start, end, prior_end = self.start[rows_at], _at(self.end, rows_at), _at(self.prior_end, rows_at)
            return EventBatch(self.payload, start, end, None if prior_end is None else self.kind[rows_at], prior_end)
        end, prior_end = _without(self.end, punctuated_at), _without(self.prior_end, punctuated_at)
        kind = None if self.prior_end is None else _without(self.kind, punctuated_at)
        return EventBatch(self.payload, _without(self.start, punctuated_at), end, kind, prior_end)

    def slice(self, first: int, stop: int) -> EventBatch:
        """Elements first to stop. Cost: O(1), plus counting the punctuations before `stop` when there are any."""
        row, last_row = first, stop
        if self.kind is not None:
            row = int(np.count_nonzero(self.kind[:first] != _PUNCTUATE))
            last_row = row + int(np.count_nonzero(self.kind[first:stop] != _PUNCTUATE))
        cut = slice(first, stop)
        return EventBatch(
            self.payload.slice(row, last_row - row),
            self.start[cut],
            _at(self.end, cut),
            _at(self.kind, cut),
            _at(self.prior_end, cut),
        )

    def keep_rows(self, keep: Mask) -> EventBatch:
        """Keep the data rows that `keep` marks, and every punctuation. `keep` has one entry per payload row."""
        if keep.all():
            return self
        if self.kind is not None:
            elements = self.kind == _PUNCTUATE
            elements[~elements] = keep
        # Places, not marks: NumPy gathers by number several times faster than by a mask.
        elements = np.flatnonzero(keep if self.kind is None else elements)
        return EventBatch(
            keep_marked(self.payload, keep),
            self.start[elements],
            _at(self.end, elements),
            _at(self.kind, elements),
            _at(self.prior_end, elements),
        )

    def take_rows(self, rows: NDArray[np.int64]) -> EventBatch:
        """Gather data rows by number; only for batches without punctuations."""
        assert self.rows == len(self), "take_rows is for batches without punctuations"
        columns = (_at(column, rows) for column in (self.end, self.kind, self.prior_end))
        return EventBatch(gather(self.payload, rows), self.start[rows], *columns)

    def with_payload(self, payload: pa.RecordBatch) -> EventBatch:
        """Return the same elements with other payload columns, row for row."""
        return EventBatch(payload, self.start, self.end, self.kind, self.prior_end)

    def check(self) -> None:
        """Assert that the columns fit together, that no interval runs backward and no end is past FOREVER."""
        n = len(self)
        for column in (self.end, self.kind, self.prior_end):
            assert column is None or len(column) == n, self
        data = self.is_data()
        assert self.rows == (n if data is None else np.count_nonzero(data)), self
        assert (self.prior_end is not None) or not (self.kinds() == Kind.ADJUST).any(), self
        starts, ends = (self.start, self.ends()) if data is None else (self.start[data], self.ends()[data])
        assert (starts < FOREVER).all(), self
        assert (ends >= starts).all(), self


def punctuation_like(no_rows: pa.RecordBatch, complete_before: Instant) -> EventBatch:
    """Make a batch of one punctuation; `no_rows` is an empty payload of the stream's schema."""
    return EventBatch(no_rows, np.array([complete_before], dtype=np.int64), None, _ONE_PUNCTUATION)


def _times(values: Times | Sequence[Instant]) -> Times:
    # A view, so that making the column read-only leaves the caller's own array alone.
    return np.asarray(values, dtype=np.int64).view()


def _at(column: Any, where: Any) -> Any:
    return None if column is None else column[where]


def _without(column: Any, places: NDArray[np.int64]) -> Any:
    """A column without the elements at a few places, given in order."""
    if column is None:
        return None
    return np.concatenate([column[a + 1 : b] for a, b in pairwise([-1, *places.tolist(), len(column)])])


def _concat_present(batches: Sequence[EventBatch], name: str, spelled_out: Any) -> Any:
    """Concatenate a column unless it is absent everywhere."""
    if all(getattr(batch, name) is None for batch in batches):
        return None
    return np.concatenate([spelled_out(batch) for batch in batches])
