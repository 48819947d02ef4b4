"""Sums up the rows of a task before they are packed, so that groups cross to the shards and not rows.

Cost: rows are grouped chunk by chunk, and groups are put together when there are as many of them as rows in a chunk. So
a task holds two chunks at most, however many groups it has; where these are as many as the rows, each is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.partials import Partial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.events.batch import EventBatch
    from slackwater.operators.aggregate.group_rows import GroupRows


@dataclass(frozen=True)
class MapSideGroups:
    """Makes rows of the groups of events, which have windows."""

    groups: GroupRows

    def chunks(self, events: Iterable[EventBatch], chunk_rows: int) -> Iterator[EventBatch]:
        """Yield rows that stand for all events; the rows of a chunk are in order of interval."""
        held: list[Partial] = []
        for some in events:
            held.append(self.groups.summed_up(some))
            if sum(map(len, held)) >= chunk_rows:
                held = [Partial.merge(held)]
                if 2 * len(held[0]) >= chunk_rows:
                    yield self.groups.rows(held.pop())
        if held:
            yield self.groups.rows(Partial.merge(held))

    def events_in(self, rows: EventBatch) -> int:
        """How many events rows stand for."""
        return int(rows.payload.column(self.groups.event_count_column).to_numpy().sum())
