"""The columns that heartbeats are computed on: what rules say of each source, and what has come so far.

There is one place for each source, and room for more: tables grow by doubling. What is stored of them is as wide as
there are sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.progress import heartbeat_tables as kernel
from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables
from slackwater.policies.bound_rules import Pair
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.heartbeats.learnt import LearntState
    from slackwater.policies.bound_rules import Rules
    from slackwater.progress.instants import Duration

    Column = NDArray[np.int64]

HISTORY: Final = 128
"""Places in a history: what waits for w is at most w / 64 late, and exact where w is 64 ticks or less."""

_FIRST_ROOM: Final = 16


@dataclass(frozen=True, slots=True)
class HeartbeatState:
    """All that a generator remembers: columns, and the names of the sources in order of their places."""

    names: tuple[Hashable, ...]
    everything: Column
    kinds: Column
    sources: Column
    histories: Column
    delayed: Column
    counted: Column
    queues: Column
    learnt: LearntState | None = None
    """What estimates were made of, where there are any."""

    def without_violations(self) -> HeartbeatState:
        """The same, of somebody who has seen no row that broke a bound."""
        sources = _by_column(self.sources).copy()
        sources[[kernel.VIOLATIONS, kernel.BROKEN_BY]] = 0
        sources[kernel.BROKEN_RULE] = kernel.BY_NOTHING
        return replace(self, sources=sources.ravel())

    @classmethod
    def with_all_violations(cls, several: Sequence[HeartbeatState]) -> HeartbeatState:
        """What several know alike, with the rows of all that broke bounds; of each source the newest is shown."""
        assert len({one.names for one in several}) == 1, "shards know the same sources"
        sources = _by_column(several[0].sources).copy()
        for other in (_by_column(one.sources) for one in several[1:]):
            newer = other[kernel.VIOLATIONS] > 0
            newer &= (sources[kernel.VIOLATIONS] == 0) | (other[kernel.BROKEN_BY] > sources[kernel.BROKEN_BY])
            for what in (kernel.BROKEN_RULE, kernel.BROKEN_BY):
                sources[what, newer] = other[what, newer]
            sources[kernel.VIOLATIONS] += other[kernel.VIOLATIONS]
        return replace(several[0], sources=sources.ravel())


def _by_column(sources: Column) -> Column:
    """What is stored of sources, a line for each column."""
    return sources.reshape(kernel.SOURCE_COLUMNS, -1)


class Tables:
    """The columns of a generator; what stands in which place is named in kernels/progress/heartbeat_tables.py."""

    __slots__ = (
        "_longest_count",
        "all",
        "counted",
        "delayed",
        "everything",
        "given",
        "histories",
        "kinds",
        "queues",
        "room",
        "says",
        "sources",
    )

    def __init__(self, rules: Rules, grid: Duration) -> None:
        self.everything = np.full(kernel.ALL_COLUMNS, BEGINNING, dtype=np.int64)
        self.everything[[kernel.GRID, kernel.SOURCES, kernel.BINDING]] = grid, 1, kernel.NONE
        for place, length in ((kernel.IDLE, rules.idle), (kernel.LULL, rules.lull)):
            self.everything[place] = kernel.NONE if length is None else ticks(length, grid)
        self.kinds = _kinds_of(rules, grid)
        any_history = self.kinds[:, kernel.HAS_HISTORY].any()
        self.histories = np.zeros((len(self.kinds), HISTORY if any_history else 1, 4), np.int64)
        pairs = (pair for rule in rules.rules for pair in rule.pair.values)
        self._longest_count = max((pair.rows for pair in pairs if pair is not None), default=0)
        self.room = _FIRST_ROOM
        self.says, self.sources, self.delayed, self.counted, self.queues = self._by_source(self.room)
        self.all = self._together()
        self.given = tuple(self.all)

    def _by_source(self, room: int) -> tuple[Column, Column, Column, Column, Column]:
        """Tables for so many sources."""
        delaying = int(self.kinds[:, kernel.DELAYED].max(initial=kernel.NONE))
        counting = int(self.kinds[:, kernel.COUNTS].max(initial=kernel.NONE)) + 1
        # A rule that counts rows has two places: for what comes to hold, and for what was sent.
        places = 0 if delaying < 0 else delaying + 2
        counted = np.zeros((max(places, counting), room, 3), np.int64)
        counted[:, :, 0] = BEGINNING
        return (
            np.zeros((len(self.kinds), kernel.RULE_COLUMNS, room), np.int64),
            np.zeros((kernel.SOURCE_COLUMNS, room), np.int64),
            np.zeros((places, room, HISTORY if places else 0, 2), np.int64),
            counted,
            np.zeros((counting, room, self._longest_count + 1, 2), np.int64),
        )

    def grow(self) -> None:
        """Make room for twice as many sources."""
        says, *after = self._by_source(2 * self.room)
        says[:, :, : self.room] = self.says
        for old, new in zip((self.sources, self.delayed, self.counted, self.queues), after, strict=True):
            new[:, : self.room] = old
        self.says, (self.sources, self.delayed, self.counted, self.queues) = says, after
        self.room *= 2
        self.all = self._together()
        self.given = tuple(self.all)

    def _together(self) -> HeartbeatTables:
        """All tables, to be handed to compiled loops as one."""
        return HeartbeatTables(
            everything=self.everything,
            rules=self.says,
            kinds=self.kinds,
            sources=self.sources,
            histories=self.histories,
            delayed=self.delayed,
            counted=self.counted,
            queues=self.queues,
        )

    def set_up(self, place: int, rules: Rules, name: Hashable, waited_for: int) -> None:
        """Fill in what rules say of a source of which nothing has come."""
        grid = int(self.everything[kernel.GRID])
        latency, delay = rules.latency[name], rules.delay[name]
        source = self.sources[:, place]
        source[:] = 0
        # One by one: NumPy takes longer to read a list of places than to write to all of them.
        for column in (kernel.HIGH_WATER, kernel.HIGH_WATER_TICK, kernel.LAST_TICK, kernel.HEARTBEAT):
            source[column] = BEGINNING
        for column in (kernel.BROKEN_RULE, kernel.SET_BY, kernel.SENDER):
            source[column] = kernel.BY_NOTHING
        source[kernel.LATENCY] = ticks(latency, grid)
        source[kernel.DELAY] = kernel.NONE if delay is None else delay
        source[kernel.WAITED_FOR] = waited_for
        for number, rule in enumerate(rules.rules):
            says, ahead, pair = self.says[number, :, place], rule.ahead[name], rule.pair[name]
            says[kernel.AHEAD] = kernel.NONE if ahead is None else ahead
            says[kernel.DELTA] = kernel.NONE
            if pair is not None and not (rule.own and ahead is None):
                # What is learnt is learnt of rows as they arrive: latency is part of it.
                wait = ticks(pair.wait + (0 if rule.estimated or rule.as_arrived else latency), grid)
                says[kernel.DELTA], says[kernel.WAIT], says[kernel.FURTHER_ROWS] = pair.delta, wait, pair.rows

    def snapshot(self, names: tuple[Hashable, ...], learnt: LearntState | None = None) -> HeartbeatState:
        """All that is remembered; what rules say is not, for the plan has it."""
        by_source = (self.sources, self.delayed, self.counted, self.queues)
        sources, delayed, counted, queues = (_narrowed(one, len(names) + 1).ravel().copy() for one in by_source)
        everything, kinds, histories = (one.ravel().copy() for one in (self.everything, self.kinds, self.histories))
        return HeartbeatState(names, everything, kinds, sources, histories, delayed, counted, queues, learnt)

    def restore(self, state: HeartbeatState) -> None:
        """Go on from a snapshot; there is room for its sources."""
        known = len(state.names) + 1
        for table, column in (
            (self.everything, state.everything),
            (self.kinds, state.kinds),
            (self.histories, state.histories),
            (_narrowed(self.sources, known), state.sources),
            (_narrowed(self.delayed, known), state.delayed),
            (_narrowed(self.counted, known), state.counted),
            (_narrowed(self.queues, known), state.queues),
        ):
            table[...] = column.reshape(table.shape)


def ticks(length: Duration, grid: Duration) -> int:
    """So many ticks that whatever is further away is further away than the length, wherever in its tick it lies.

    >>> ticks(10, 10), ticks(11, 10)
    (1, 2)
    """
    return -(-length // grid)


def _narrowed(table: Column, sources: int) -> Column:
    """The part of a table for so many sources, which are the second of its axes."""
    return table[:, :sources]


def _kinds_of(rules: Rules, grid: Duration) -> Column:
    """What kind each rule is, before anything has come."""
    kinds = np.zeros((len(rules.rules), kernel.KIND_COLUMNS), dtype=np.int64)
    delayed = counts = 0
    for kind, rule in zip(kinds, rules.rules, strict=True):
        pairs = [pair for pair in rule.pair.values if isinstance(pair, Pair)]
        # By the longest latency of all: which source has which is not known here.
        latency = 0 if rule.estimated or rule.as_arrived else max(rules.latency.values)
        longest = max((ticks(pair.wait + latency, grid) for pair in pairs), default=0)
        counting = any(pair.rows for pair in pairs)
        kind[kernel.OWN], kind[kernel.AND_OWN] = rule.own, rule.and_own
        kind[kernel.HAS_HISTORY] = not rule.own and (longest > 0 or counting)
        kind[kernel.DELAYED] = delayed if longest and (rule.own or counting) else kernel.NONE
        delayed += 2 * bool(kind[kernel.DELAYED] != kernel.NONE)
        kind[kernel.COUNTS] = counts if counting else kernel.NONE
        counts += counting
        kind[[kernel.FIRST, kernel.SECOND]] = BEGINNING
        kind[[kernel.FIRST_SENDER, kernel.SECOND_SENDER]] = kernel.NONE
        kind[kernel.SPACING] = -(-longest // (HISTORY // 2))
    return kinds
