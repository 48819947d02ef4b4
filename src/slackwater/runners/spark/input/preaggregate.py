"""Sums up the rows of a task before they are packed, so that groups cross to the shards and not rows.

Cost: rows are grouped chunk by chunk, and groups are put together when there are as many of them as rows in a chunk. So
a task holds two chunks at most, however many groups it has; where these are as many as the rows, each is written once.
Where rows may come beside groups, those go on as they are that would only become as many groups, after a first chunk.
Rows that may be late are put together, too, unless they are about a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from slackwater.events.batch import EventBatch
from slackwater.operators.aggregate.partials import Partial
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.plan.node import StepNode
    from slackwater.policies.windows import Tumbling
    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.input.partitioner import Partitioner
    from slackwater.runners.spark.input.row_steps import RowSteps


_LEAST_PASSED: Final = 4
_MOST_PASSED: Final = 64
"""Chunks that go on as they are after one that made many groups: more and more, if the next that is tried does, too."""


@dataclass(frozen=True)
class MapSideGroups:
    """Makes rows of the groups of events, once these have windows."""

    windowing: Sequence[StepNode]
    """What gives rows windows."""

    groups: GroupRows
    unless_late: bool = False
    """Whether only those are summed up that cannot be late: the others are to be seen one by one."""

    beside_rows: bool = False
    """Whether a shard takes groups another way than rows; then they say since when they are."""

    in_order_with_rows: bool = False
    """Whether it takes them in one order, so that some may as well be rows though they are not late."""

    columns: tuple[str, ...] | None = None
    """The columns that decide the shard of a group; None where they are called as in rows."""

    keeps_rows: bool = True
    """Whether each row is in one group, so that groups say how many rows there were."""

    window_of_moved_rows: Tumbling | None = None
    """The windows of which the first that is open may get late rows, moved into it: it is not summed up."""

    def summed_up_from(self, in_time_from: Instant) -> Instant:
        """From when on rows are summed up, where from a time on none is late."""
        if not self.unless_late:
            return BEGINNING
        window = self.window_of_moved_rows
        if window is None or in_time_from in {BEGINNING, FOREVER}:
            return in_time_from
        return within_int64(window.done_before(in_time_from) + window.size)


class Part(NamedTuple):
    """A part of the rows of a task: events as they are, or groups of them."""

    events: EventBatch
    counted_by: str | None = None
    """The column that says how many events each group stands for; None where these are events."""

    since: Instant = FOREVER
    """No event was before, of those that groups stand for which come beside rows."""

    uncounted: NDArray[np.int64] | None = None
    """How many events came for each shard, where groups do not say it; those that are counted are taken out."""

    def shares(self, parts: Iterable[tuple[int, EventBatch]]) -> Iterator[tuple[int, EventBatch]]:
        """Parts of it for some shards, and none of its rows for those that get none, but had events."""
        seen = set()
        for shard, events in parts:
            seen.add(shard)
            yield shard, events
        if self.uncounted is not None:
            left = (shard for shard in np.flatnonzero(self.uncounted).tolist() if shard not in seen)
            yield from ((shard, self.events.slice(0, 0)) for shard in left)

    def events_in(self, piece: EventBatch, shard: int) -> int:
        """How many events a piece of it has, or stands for."""
        if self.counted_by is None:
            return piece.rows
        if self.uncounted is None:
            return int(piece.payload.column(self.counted_by).to_numpy().sum())
        events, self.uncounted[shard] = int(self.uncounted[shard]), 0
        return events


def parts(
    chunks: Iterable[EventBatch],
    summing_up: MapSideGroups,
    windowing: RowSteps,
    chunk_rows: int,
    in_time_from: Instant,
    partitioner: Partitioner | None = None,
) -> Iterator[Part]:
    """Yield the events that may be late, and groups of the others, each in order: from `in_time_from` on none is late.

    The rows of a part of groups are in order of interval. Where groups do not say how many events there were, these are
    counted for each shard, as they would have been split.
    """
    held = _Held(summing_up, windowing, None if summing_up.keeps_rows else partitioner)
    since = summing_up.summed_up_from(in_time_from)
    waiting: list[EventBatch] = []
    for chunk in chunks:
        may_be_late, others = _parted(chunk, since) if summing_up.unless_late else (None, chunk)
        if may_be_late is not None:
            waiting.append(may_be_late)
            if 2 * sum(one.rows for one in waiting) >= chunk_rows:
                yield Part(EventBatch.concat(waiting))
                waiting = []
        if others is not None and held.passes():
            if held.anything:
                yield held.part()  # first, for groups come as they first appeared
            yield Part(others)
        elif others is not None:
            held.add(others)
            if held.rows >= chunk_rows and 2 * held.merged() >= chunk_rows:
                yield held.part()
    if held.anything:
        yield held.part()
    if waiting:
        yield Part(EventBatch.concat(waiting))


class _Held:
    """The groups of a task that are not packed yet."""

    def __init__(self, summing_up: MapSideGroups, windowing: RowSteps, partitioner: Partitioner | None) -> None:
        self._summing_up, self._windowing, self._partitioner = summing_up, windowing, partitioner
        self._groups: list[Partial] = []
        self._counts: list[NDArray[np.int64]] = []
        self._since = FOREVER
        self._to_pass, self._then = 0, _LEAST_PASSED

    def passes(self) -> bool:
        """Whether a chunk had better go on as it is: those before it had nearly as many groups as events."""
        self._to_pass -= 1
        return self._to_pass >= 0

    def add(self, events: EventBatch) -> None:
        """Sum events up, and note what else is to be known of them."""
        before = self.rows
        if self._summing_up.beside_rows:
            self._since = min(self._since, int(events.start.min()))
        if self._partitioner is not None:
            self._counts.append(self._partitioner.counts(events))
        self._groups += [self._summing_up.groups.summed_up(windowed) for windowed in self._windowing.through(events)]
        few = 2 * (self.rows - before) <= events.rows or not self._summing_up.in_order_with_rows
        self._to_pass = 0 if few else self._then
        self._then = _LEAST_PASSED if few else min(2 * self._then, _MOST_PASSED)

    @property
    def rows(self) -> int:
        """How many groups there are, as they came."""
        return sum(map(len, self._groups))

    @property
    def anything(self) -> bool:
        """Whether there are groups, or events of which none is in a group."""
        return bool(self._groups or self._counts)

    def merged(self) -> int:
        """How many groups there are once they are put together."""
        self._groups = [Partial.merge(self._groups)]
        return len(self._groups[0])

    def part(self) -> Part:
        """Hand over all that there is."""
        groups = self._summing_up.groups
        rows = groups.rows(Partial.merge(self._groups) if self._groups else groups.none)
        counts = np.sum(self._counts, axis=0) if self._counts else None
        self._groups, self._counts = [], []
        return Part(rows, groups.event_count_column, self._since, counts)


def _parted(events: EventBatch, instant: Instant) -> tuple[EventBatch | None, EventBatch | None]:
    """The events before an instant, and the others; none where there are none. Copies only where there are both."""
    before = events.start < instant
    if not before.any():
        return None, events
    if before.all():
        return events, None
    return events.take_rows(np.flatnonzero(before)), events.take_rows(np.flatnonzero(~before))
