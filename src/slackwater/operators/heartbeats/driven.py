"""Heartbeats for a part of a stream, by statistics of all of it: what each shard of a stream does.

A micro-batch is taken in at once. By the clock it is one instant. Where a column says when rows arrived they are put in
the order of their arrival first, and those without an arrival before all others: then it is the same as if the whole
micro-batch had come as one batch in this order, whichever part of it is here.

Invariant: which punctuations are made, and between which ticks, depends on the statistics alone.
Cost: that of the statistics, and for rows with a column of arrivals a sort, if they are not in order.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slackwater.events.batch import EventBatch
from slackwater.kernels.progress.ticks import ticks_of
from slackwater.operators.emission import Emission
from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator, arrival_times
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import Times
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.progress.instants import Duration, Instant


class Taken(NamedTuple):
    """Rows without those that are ahead of the clock."""

    rows: EventBatch
    ticks: Times
    """Room for them, and no more, where rows arrive by the clock: those of a micro-batch all have one."""

    ahead: tuple[tuple[str, EventBatch], ...]
    """Those that are, for the late output."""


class Share(NamedTuple):
    """What a shard has of a micro-batch: the statistics of all rows, and its own rows."""

    groups: NDArray[np.int64]
    """In order of ticks: the place of the source, the tick, how many rows, and the newest time; for all rows."""

    taken: list[Taken]
    """The rows that are here, chunk by chunk."""

    ticks: Times
    """The tick of each of them, which rise."""

    sources: Times
    """The place of the source of each."""

    times: Times


class DrivenHeartbeatsOperator(HeartbeatsOperator, FollowsArrivals):
    """Follows the arrivals of a stream of which it gets some rows, and of the others the statistics."""

    __slots__ = ()

    def on_arrivals(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch]) -> Iterator[Emission]:
        """Take in a micro-batch: what is known of all its rows, and those that are here, in chunks."""
        share = self.share_of(arrived, chunks, looks_at_all=not self.by_clock)
        if not share.groups.shape[1]:
            yield from (Emission((), side) for _, _, side in share.taken)
            return
        if self.by_clock:
            self._generator.begin(int(share.groups[1, 0]))
        places, bounds = self._generator.follow_statistics(
            share.groups, share.ticks, share.sources, share.times, closes=self.by_clock
        )
        if self.by_clock:
            places[:] = sum(rows.rows for rows, _, _ in share.taken)  # an instant is over behind all of its rows
        yield from self._emissions(share.taken, places, bounds)

    def share_of(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch], *, looks_at_all: bool = True) -> Share:
        """Put a micro-batch in the order in which it arrived, and find the places of its sources.

        Of rows that arrive at one instant none can break a bound that is newer than all sources are complete: if not
        all are to be looked at, the share has the ticks, sources and times of the others only.
        """
        settings, generator = self._settings, self._generator
        groups = arrived.without_rows_ahead(within_int64(generator.tick * settings.grid), settings.ahead)
        self.on_tick(arrived.now)
        taken = [self._taken(rows) for rows in (chunks if self.by_clock else _in_order(chunks, settings.arrived))]
        used = np.flatnonzero(np.bincount(groups[0], minlength=len(arrived.names)))
        place_of = np.empty(len(arrived.names), dtype=np.int64)
        place_of[used] = generator.places_of([arrived.names[code] for code in used.tolist()])
        groups = np.concatenate([place_of[groups[0]][None], groups[1:]])
        looked_at = [rows for rows, _, _ in taken] if looks_at_all else [self._behind(rows) for rows, _, _ in taken]
        own = np.concatenate([_NONE, *(self._sources(rows) for rows in looked_at if rows.rows)])
        times = np.concatenate([_NONE, *(rows.start for rows in looked_at)])
        if self.by_clock:
            # A micro-batch is an instant, however soon it follows another.
            groups[1] = max(self._now // settings.grid, generator.tick + 1)
            ticks = np.full(len(times), groups[1, 0]) if groups.shape[1] else np.zeros(len(times), np.int64)
        else:
            ticks = np.concatenate([_NONE, *(some for _, some, _ in taken)])
        return Share(groups, taken, ticks, own, times)

    def _behind(self, rows: EventBatch) -> EventBatch:
        """The rows that are not newer than the source is complete that is complete the furthest."""
        behind = rows.start <= self._generator.furthest_heartbeat
        return rows.take_rows(np.flatnonzero(behind)) if behind.any() else rows.slice(0, 0)

    def _taken(self, rows: EventBatch) -> Taken:
        """Rows without those that are ahead of the clock, their ticks, and those that are ahead."""
        arrivals = _NONE if self.by_clock and self._settings.ahead is None else self._arrivals(rows)
        rows, arrivals, _, side = self._without_rows_ahead(rows, arrivals, _NONE)
        ticks = np.empty(rows.rows, dtype=np.int64)
        if not self.by_clock:
            ticks_of(arrivals, self._settings.grid, ticks)
        return Taken(rows, ticks, side)

    def _emissions(self, taken: Sequence[Taken], places: Times, bounds: Times) -> Iterator[Emission]:
        """Chunk by chunk, with the punctuations before and between its rows; in the end those behind all rows."""
        edges = pairwise(accumulate((rows.rows for rows, _, _ in taken), initial=0))
        for (rows, _, side), (first, stop) in zip(taken, edges, strict=True):
            here = (places >= first) & (places < stop)
            yield self._emission(rows, places[here] - first, bounds[here], side)
        last = places == sum(rows.rows for rows, _, _ in taken)
        none = EventBatch.inserts(self._schema.no_rows, _NONE)
        yield self._emission(none, np.zeros(int(last.sum()), np.int64), bounds[last], ())

    def look_again_at(self, now: Instant, pause: Duration, horizon: Instant) -> Instant | None:
        """When to look at the clock again though nothing comes, after a pause or later; None if nothing moves.

        Windows may end past the newest row: which of them are open only the shards know that have them, but none is
        past the horizon.
        """
        past_newest = self._generator.complete_before <= horizon
        tick = self._generator.moves_next_at(pause, past_newest=past_newest) if self.by_clock else None
        return None if tick is None else max(within_int64(tick * self._settings.grid), now + pause)

    @property
    def takes_all_rows(self) -> bool:
        """Whether no row is taken out for being ahead of the clock."""
        return self._settings.ahead is None

    def unbroken_from(self) -> Instant:
        """The time from which on no row breaks a bound that comes with the next instant, whoever sends it."""
        return within_int64(self._generator.furthest_heartbeat + 1)

    def newest(self) -> Instant:
        """The greatest time of all rows, wherever they are, that are not ahead of the clock."""
        return self._generator.newest


def _in_order(chunks: Iterable[EventBatch], arrived: str | None) -> list[EventBatch]:
    """All rows as one batch in the order of their arrival, those that arrived together as they came."""
    assert arrived is not None
    found = list(chunks)
    if not found:
        return []
    rows = found[0] if len(found) == 1 else EventBatch.concat(found)
    arrivals = arrival_times(rows.payload.column(arrived))
    if (arrivals[1:] >= arrivals[:-1]).all():
        return [rows]
    return [rows.take_rows(np.argsort(arrivals, kind="stable"))]


_NONE: Times = np.empty(0, dtype=np.int64)
