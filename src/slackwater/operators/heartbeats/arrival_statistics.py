"""What heartbeats need to know of rows that are elsewhere: for each source and tick how many, and the newest.

Where a stream is shared by several processes each of them must follow the arrivals of all rows, those included that a
filter drops. Whoever reads rows counts them; what all of them count is put together, in the same order everywhere.

Bounds that are learnt need every time: then a group is the rows of one source, tick and time. Within a tick these are
in order of time, as most rows come anyway: what is learnt last weighs most, and must not be who is last by name.

Rows that may be too far ahead of the clock stand by themselves, with the instant of their arrival: whether they are is
known only where it is known how far the clock has come, and only those that are not count.

Rows that all arrive at one instant are counted in a table of sources, which grows with them.

Cost: O(rows) to count, O(sources * ticks) to send and to put together; where times are kept, O(times) and a sort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.progress.count_arrivals import count_arrivals, count_words
from slackwater.kernels.progress.ticks import ticks_of
from slackwater.operators.heartbeats.heartbeats import ONE_SOURCE, arrival_times
from slackwater.operators.heartbeats.source_words import SourceWords
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    from slackwater.operators.replicas.replica_names import ReplicaName
    from slackwater.progress.instants import Duration

_ROOMY: Final = 1 << 16
"""So many pairs of a source and a tick may always be counted in a table, however few rows there are."""


@dataclass(frozen=True)
class ArrivalStatistics:
    """Groups in order of their ticks, and the rows that may be too far ahead of the clock.

    >>> groups = np.array([[0, 1], [5, 5], [2, 1], [30, 40]])
    >>> one = ArrivalStatistics((b"a", b"b"), 7, groups)
    >>> both = ArrivalStatistics.together([one, ArrivalStatistics((b"b",), 7, groups[:, :1])])
    >>> both.names, both.groups.tolist()
    ((b'a', b'b'), [[0, 1], [5, 5], [2, 3], [30, 40]])
    >>> parts = [ArrivalStatistics((b"a",), 7, groups[:, :1], by_time=True) for _ in range(2)]
    >>> ArrivalStatistics.together(parts).groups.tolist()
    [[0], [5], [4], [30]]
    """

    names: tuple[bytes, ...]
    """The sources, in the order of their names."""

    now: Instant
    """When all this arrived, by the clock; BEGINNING where a column says it of each row."""

    groups: NDArray[np.int64]
    """The number of the source, the tick, how many rows with a time, and the newest: a column for each group."""

    perhaps_ahead: NDArray[np.int64] = field(default_factory=lambda: NO_GROUPS)
    """The number of the source, the tick, the instant of arrival, and the time: a column for each row."""

    by_time: bool = False
    """Whether all rows of a group have the same time."""

    @classmethod
    def together(cls, parts: Sequence[ArrivalStatistics]) -> ArrivalStatistics:
        """All that was counted in several places; the same in whatever order they are given."""
        names = tuple(sorted({name for part in parts for name in part.names}))
        number_of = {name: number for number, name in enumerate(names)}
        groups, ahead = [NO_GROUPS], [NO_GROUPS]
        for part in parts:
            numbers = np.array([number_of[name] for name in part.names], dtype=np.int64)
            for found, some in ((groups, part.groups), (ahead, part.perhaps_ahead)):
                found.append(np.concatenate([numbers[some[0]][None], some[1:]]))
        now = max((part.now for part in parts), default=BEGINNING)
        rows, by_time = np.concatenate(ahead, axis=1), any(part.by_time for part in parts)
        counted = grouped(*np.concatenate(groups, axis=1), by_time=by_time)
        return cls(names, now, counted, rows[:, np.lexsort(rows[::-1])], by_time)

    def without_rows_ahead(self, clock: Instant, allowed: Duration | None) -> NDArray[np.int64]:
        """The groups, with the rows that are not too far ahead of the clock, or of when they arrived themselves."""
        codes, ticks, arrived, times = self.perhaps_ahead
        fine = times <= later(np.maximum(arrived, clock), allowed or 0)
        if not fine.any():
            return self.groups
        more = np.array([codes[fine], ticks[fine], np.ones(int(fine.sum()), np.int64), times[fine]])
        return grouped(*np.concatenate([self.groups, more], axis=1), by_time=self.by_time)


class CountArrivals:
    """Counts the rows of one reader, in their order.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string(), "landed": pa.int64()}), time="at")
    >>> rules = Bounds.in_order().rules(Units(calendar=False, clock_calendar=False))
    >>> settings = HeartbeatSettings(rules, "who", "landed", grid=10, ahead=5)
    >>> arrivals = CountArrivals(schema, settings)
    >>> rows = pa.record_batch({"who": ["a", "a", "a"], "landed": [11, 12, 25]})
    >>> arrivals.add(EventBatch.inserts(rows, start=[9, 10, 50]))
    >>> found = arrivals.statistics()
    >>> found.groups.tolist(), found.perhaps_ahead.tolist()
    ([[0], [1], [2], [10]], [[0], [2], [25], [50]])
    """

    __slots__ = ("_at_once", "_names", "_parts", "_settings")

    def __init__(self, schema: EventSchema, settings: HeartbeatSettings, step: str = "heartbeats") -> None:
        self._settings = settings
        self._names = None if settings.origin is None else ReplicaNames(schema, settings.origin, step)
        by_source = settings.arrived is None and settings.ahead is None and not settings.learns
        self._at_once = _CountAtOnce(self._names) if by_source and self._names is not None else None
        self._parts: list[ArrivalStatistics] = []

    def add(self, rows: EventBatch, now: Instant = BEGINNING) -> None:
        """Take note of rows, which arrived now unless a column says otherwise."""
        if not rows.rows:
            return
        if self._at_once is not None:
            self._at_once.add(rows.payload.column(self._settings.origin), rows.start)
            return
        arrivals, settings = self._arrivals(rows, now), self._settings
        codes, names = self._numbered(rows)
        ticks = np.zeros(rows.rows, dtype=np.int64)
        if settings.arrived is not None:
            ticks_of(arrivals, settings.grid, ticks)
        ahead = NO_GROUPS
        times = rows.start
        if settings.ahead is not None:
            is_ahead = times > later(arrivals, settings.ahead)
            if is_ahead.any():
                ahead = np.array([codes[is_ahead], ticks[is_ahead], arrivals[is_ahead], times[is_ahead]])
                codes, ticks, times = codes[~is_ahead], ticks[~is_ahead], times[~is_ahead]
        counted = grouped(codes, ticks, _NO_COUNTS, times, by_time=settings.learns)
        self._parts.append(ArrivalStatistics(tuple(names), now, counted, ahead, settings.learns))

    def statistics(self) -> ArrivalStatistics:
        """All that was counted."""
        return ArrivalStatistics.together(self._parts if self._at_once is None else [self._at_once.statistics()])

    def _arrivals(self, rows: EventBatch, now: Instant) -> Times:
        column = self._settings.arrived
        return np.full(rows.rows, now) if column is None else arrival_times(rows.payload.column(column))

    def _numbered(self, rows: EventBatch) -> tuple[NDArray[np.int64], list[bytes]]:
        if self._names is None:
            return np.zeros(rows.rows, dtype=np.int64), [ONE_SOURCE]
        return self._names.numbered(rows.payload)


class _CountAtOnce:
    """Counts the rows of each source, which all arrive at one instant: whoever sends what is counted says when."""

    __slots__ = ("_newest", "_places", "_totals", "_words")

    def __init__(self, names: ReplicaNames) -> None:
        self._words = SourceWords(names, self._places_of)
        self._places: dict[ReplicaName, int] = {}
        self._totals, self._newest = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def _places_of(self, names: Sequence[ReplicaName]) -> NDArray[np.int64]:
        """The places of some sources: those that are new get the next ones."""
        return np.array([self._places.setdefault(name, len(self._places)) for name in names], dtype=np.int64)

    def add(self, origins: pa.Array, times: Times) -> None:
        """Take note of rows."""
        words = self._words.of(origins)
        more = len(self._places) - len(self._totals)
        if more > 0:
            more += len(self._totals)  # room for twice as many, so that each is copied once
            self._totals = np.concatenate([self._totals, np.zeros(more, np.int64)])
            self._newest = np.concatenate([self._newest, np.full(more, BEGINNING)])
        count_words(words.numbers, words.place_of, times, self._totals, self._newest)

    def statistics(self) -> ArrivalStatistics:
        """All that was counted: each source that has a place has sent some row."""
        count = len(self._places)
        numbers, ticks = np.arange(count), np.zeros(count, np.int64)
        return ArrivalStatistics(
            tuple(self._places), BEGINNING, np.array([numbers, ticks, self._totals[:count], self._newest[:count]])
        )


def grouped(codes: Times, ticks: Times, counts: Times, times: Times, *, by_time: bool) -> NDArray[np.int64]:
    """One column for each source and tick, in order of ticks: how many rows there were, and the newest time.

    Or one for each tick, time and source, in this order. Without counts each time stands for one row, if it is one.
    """
    if not len(codes):
        return NO_GROUPS
    if by_time:
        return _by_time(codes, ticks, counts if len(counts) else (times != BEGINNING).astype(np.int64), times)
    first, width = int(ticks.min()), int(codes.max()) + 1
    places = (int(ticks.max()) - first + 1) * width
    if places <= max(_ROOMY, len(codes)):
        there, totals, greatest = np.zeros((3, places), np.int64)
        greatest[:] = BEGINNING
        count_arrivals(codes, ticks, counts, times, first, width, there, totals, greatest)
        cells = np.flatnonzero(there)
        return np.array([cells % width, first + cells // width, totals[cells], greatest[cells]])
    counts = counts if len(counts) else (times != BEGINNING).astype(np.int64)
    order = np.lexsort((codes, ticks))
    codes, ticks, counts, times = codes[order], ticks[order], counts[order], times[order]
    begins = np.flatnonzero(np.r_[True, (codes[1:] != codes[:-1]) | (ticks[1:] != ticks[:-1])])
    totals, greatest = np.add.reduceat(counts, begins), np.maximum.reduceat(times, begins)
    return np.array([codes[begins], ticks[begins], totals, greatest])


def _by_time(codes: Times, ticks: Times, counts: Times, times: Times) -> NDArray[np.int64]:
    """Sum up by tick, time and source, in this order: how many rows there were."""
    width, first, least = int(codes.max()) + 1, int(ticks.min()), int(times.min())
    span = int(times.max()) - least + 1
    if (int(ticks.max()) - first + 1) * span * width > FOREVER:
        order = np.lexsort((codes, times, ticks))
        codes, ticks, counts, times = codes[order], ticks[order], counts[order], times[order]
        same = (times[1:] == times[:-1]) & (codes[1:] == codes[:-1]) & (ticks[1:] == ticks[:-1])
        begins = np.flatnonzero(np.r_[True, ~same])
        return np.array([codes[begins], ticks[begins], np.add.reduceat(counts, begins), times[begins]])
    # One number for all three, which NumPy sorts several times as fast.
    keys = ((ticks - first) * span + (times - least)) * width + codes
    if (counts == 1).all():
        keys.sort()
    else:
        order = np.argsort(keys)
        keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    since, codes = np.divmod(keys[begins], width)
    ticks, times = np.divmod(since, span)
    return np.array([codes, ticks + first, np.add.reduceat(counts, begins), times + least])


_NO_COUNTS: Times = np.empty(0, dtype=np.int64)
NO_GROUPS: Final[NDArray[np.int64]] = np.empty((4, 0), dtype=np.int64)
