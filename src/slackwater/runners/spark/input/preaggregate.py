"""Sums up the rows of a task before they are packed, so that groups cross to the shards and not rows.

Cost: rows are grouped chunk by chunk, and groups are put together when there are as many of them as rows in a chunk. So
a task holds two chunks at most, however many groups it has; where these are as many as the rows, each is written once.
Rows that may be late are put together, too, unless they are about a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slackwater.events.batch import EventBatch
from slackwater.operators.aggregate.partials import Partial
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.plan.node import StepNode
    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.input.row_steps import RowSteps


@dataclass(frozen=True)
class MapSideGroups:
    """Makes rows of the groups of events, once these have windows."""

    windowing: Sequence[StepNode]
    """What gives rows windows."""

    groups: GroupRows
    unless_late: bool = False
    """Whether only those are summed up that cannot be late: the others are to be seen one by one."""


class Part(NamedTuple):
    """A part of the rows of a task: events as they are, or groups of them."""

    events: EventBatch
    counted_by: str | None = None
    """The column that says how many events each group stands for; None where these are events."""

    since: Instant = FOREVER
    """No event was before, of those that groups stand for and that would have been checked one by one."""

    def events_in(self, piece: EventBatch) -> int:
        """How many events a piece of it has, or stands for."""
        return piece.rows if self.counted_by is None else int(piece.payload.column(self.counted_by).to_numpy().sum())


def parts(
    chunks: Iterable[EventBatch], summing_up: MapSideGroups, windowing: RowSteps, chunk_rows: int, in_time_from: Instant
) -> Iterator[Part]:
    """Yield the events that may be late, and groups of the others, each in order: from `in_time_from` on none is late.

    The rows of a part of groups are in order of interval.
    """
    seen, held, groups = FOREVER, list[Partial](), summing_up.groups
    waiting: list[EventBatch] = []
    for chunk in chunks:
        may_be_late, others = _parted(chunk, in_time_from) if summing_up.unless_late else (None, chunk)
        if may_be_late is not None:
            waiting.append(may_be_late)
            if 2 * sum(one.rows for one in waiting) >= chunk_rows:
                yield Part(EventBatch.concat(waiting))
                waiting = []
        if others is None:
            continue
        if summing_up.unless_late:
            seen = min(seen, int(others.start.min()))
        held += [groups.summed_up(windowed) for windowed in windowing.through(others)]
        if sum(map(len, held)) >= chunk_rows:
            held = [Partial.merge(held)]
            if 2 * len(held[0]) >= chunk_rows:
                yield Part(groups.rows(held.pop()), groups.event_count_column, seen)
    if held:
        yield Part(groups.rows(Partial.merge(held)), groups.event_count_column, seen)
    if waiting:
        yield Part(EventBatch.concat(waiting))


def _parted(events: EventBatch, instant: Instant) -> tuple[EventBatch | None, EventBatch | None]:
    """The events before an instant, and the others; none where there are none. Copies only where there are both."""
    before = events.start < instant
    if not before.any():
        return None, events
    if before.all():
        return events, None
    return events.take_rows(np.flatnonzero(before)), events.take_rows(np.flatnonzero(~before))
