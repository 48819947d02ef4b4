"""What a shard asks of the step at which rows come to it, where bounds say how far each source is complete.

Such a step has a part of the rows, and follows the arrivals of all by their statistics. Whatever it decides for more
than its own rows follows from these alone, so that all shards decide the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.operators.why import BrokenBounds
    from slackwater.progress.instants import Duration, Instant


class FollowsArrivals(ABC):
    """An operator that is fed with micro-batches: rows of its own, and statistics of all."""

    __slots__ = ()

    @abstractmethod
    def on_arrivals(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch]) -> Iterator[Emission]:
        """Take in a micro-batch: what is known of all its rows, and those that are here, in chunks."""

    @abstractmethod
    def on_wake(self, now: Instant) -> Emission:
        """Let the clock go on to an instant though no row came."""

    @property
    @abstractmethod
    def by_clock(self) -> bool:
        """Whether rows arrive when the clock says, and not a column: only then silence can be seen."""

    @abstractmethod
    def look_again_at(self, now: Instant, pause: Duration, horizon: Instant) -> Instant | None:
        """When to look at the clock again though nothing comes, after a pause or later; None if nothing moves.

        Once the stream is complete past the horizon nothing can wait for it any more, in any shard.
        """

    @property
    @abstractmethod
    def takes_all_rows(self) -> bool:
        """Whether no row is taken out for being ahead of the clock."""

    @abstractmethod
    def newest(self) -> Instant:
        """The greatest time of all rows, wherever they are, that are not ahead of the clock."""

    @abstractmethod
    def broken(self) -> dict[str, BrokenBounds]:
        """For each source that broke bounds with rows that are here: how often, and which it was at last."""
