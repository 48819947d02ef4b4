"""Progress by origin for a part of a stream, by statistics of all of it: what each shard of a stream does.

Rows come to shards by their source. Every shard follows the arrivals of all rows, so that all know the same of every
source, and notes of its own rows how far their source was complete when they came: before the micro-batch, by the
clock; tick by tick, where a column says when rows arrived. What the clock moves while nothing comes is looked at for
all sources, too: whichever shard has their rows, it looks at the same instants.

Invariant: how far each source is complete, and when to look again, depends on the statistics and the clock alone.
Cost: that of the statistics, once for each band, and of what is held.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from slackwater.operators.by_origin.aggregate import AggregateByOriginOperator
from slackwater.operators.by_origin.by_origin import ByOriginOperator
from slackwater.operators.by_origin.sort import SortByOriginOperator
from slackwater.operators.emission import Emission
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator
from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.events.batch import EventBatch, Times
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.operators.heartbeats.driven import Share
    from slackwater.operators.heartbeats.generator import HeartbeatGenerator
    from slackwater.operators.why import BrokenBounds
    from slackwater.progress.instants import Duration, Instant


class DrivenByOriginOperator(ByOriginOperator, FollowsArrivals):
    """Follows the arrivals of all rows, and holds some of them until their own source lets them go."""

    __slots__ = ()
    follower = DrivenHeartbeatsOperator

    def on_arrivals(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch]) -> Iterator[Emission]:
        """Take in a micro-batch; late rows go out chunk by chunk, and at its end what is complete."""
        assert isinstance(self._beats, DrivenHeartbeatsOperator)
        share = self._beats.share_of(arrived, chunks)
        bounds = [self._own_of(generator, share) for generator in self._generators]
        edges = pairwise(accumulate((rows.rows for rows, _, _ in share.taken), initial=0))
        for (rows, _, _), (first, stop) in zip(share.taken, edges, strict=True):
            side = self._take_in(rows, share.sources[first:stop], [own[first:stop] for own in bounds])
            if side:
                yield Emission((), tuple(side))
        yield self._with_side()

    def _own_of(self, generator: HeartbeatGenerator, share: Share) -> Times:
        """Let a generator follow all rows; return up to where the source of each that is here was complete."""
        own = np.empty(len(share.times), dtype=np.int64)
        if share.groups.shape[1]:
            self._begin(generator, int(share.groups[1, 0]))
            generator.follow_statistics(
                share.groups, share.ticks, share.sources, share.times, closes=self.by_clock, own=own
            )
        return self._complete_before_of(own)

    @property
    def by_clock(self) -> bool:
        """Whether rows arrive when the clock says, and not a column: only then silence can be seen."""
        return self._settings.beats.arrived is None

    def look_again_at(
        self,
        now: Instant,
        pause: Duration,
        horizon: Instant,  # noqa: ARG002 - each source has one of its own
    ) -> Instant | None:
        """When to look at the clock again though nothing comes, after a pause or later; None if nothing moves.

        Of which sources something waits only the shards know that have their rows; so all look for all of them.
        """
        if not self.by_clock:
            return None
        lasting = self._lasting()
        ticks = [one.any_moves_next_at(one.may_be_waited_for(lasting), pause) for one in self._generators]
        first = min((tick for tick in ticks if tick is not None), default=None)
        return None if first is None else max(within_int64(first * self._settings.beats.grid), now + pause)

    takes_all_rows = True
    """There is no guard against clocks that run ahead."""

    def newest(self) -> Instant:
        """The greatest time of all rows, wherever they are."""
        return self._beats.generator.newest

    def broken(self) -> dict[str, BrokenBounds]:
        """For each source that broke bounds with rows that are here: how often, and which it was at last."""
        return self._beats.broken()


class DrivenSortByOriginOperator(DrivenByOriginOperator, SortByOriginOperator):
    """Sorts the rows of those sources that a shard has."""

    __slots__ = ()


class DrivenAggregateByOriginOperator(DrivenByOriginOperator, AggregateByOriginOperator):
    """Sums up the groups of those sources that a shard has."""

    __slots__ = ()
