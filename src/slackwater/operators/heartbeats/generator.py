"""The heartbeat generator: how far every source of a stream is complete, from bounds and from what has arrived.

Time of arrival is counted in ticks: instants of a clock, or of a column, divided by a grid. Rows of one tick arrive
together. A heartbeat at a tick is about rows of later ticks: all of them are newer than it. The stream is complete
before the least heartbeat of the sources that are waited for, and one unit more.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

    place 0         any source that has not come yet
    places 1 ... n  sources: those that bounds name, from the beginning; others from their first row on

Invariants: heartbeats never fall; while bounds hold, no row arrives at or behind the heartbeat of its source.
Cost: O(rules) for each row, O(rules * sources) for each tick with rows; O(sources) memory for each rule.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.kernels.progress import heartbeat_tables as kernel
from slackwater.kernels.progress.follow_arrivals import follow_arrivals
from slackwater.kernels.progress.follow_instant import follow_instant
from slackwater.kernels.progress.follow_statistics import follow_statistics
from slackwater.kernels.progress.replay_arrivals import Replayed, replay_arrivals
from slackwater.kernels.progress.ticks import evaluate_declared
from slackwater.operators.heartbeats.left_out_sources import LeavesSourcesOut
from slackwater.operators.heartbeats.tables import HeartbeatState, Tables
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.heartbeats.recording import Recording
    from slackwater.operators.heartbeats.source_words import Words
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.instants import Duration, Instant

    Column = NDArray[np.int64]

_NOBODY: Final = object()
"""A name that nobody gave: what holds for all others holds for it."""

_END_OF_CLOCKS: Final = 2**61
"""A tick that no clock comes to."""

NO_ROOM: Final = np.empty(0, dtype=np.int64)
"""Where nobody asks how far the source of each row was."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Why the stream is complete no further."""

    source: Hashable | None
    """The source that is furthest behind; None for any that has not come yet."""

    heartbeat: Instant
    """How far it is complete: later rows are newer."""

    rule: int
    """The rule that its heartbeat was set by, or one of BY_CLOCK, BY_IDLE, BY_LULL, BY_NOTHING."""

    sender: Hashable | None
    """Whose row it was."""

    time: Instant
    """The time of that row."""

    arrived: int | None
    """The tick in which it came, if the sender has not come further since."""


class HeartbeatGenerator(LeavesSourcesOut):
    """Follows the arrivals of a stream.

    >>> from slackwater.policies.bound import Bound, Units
    >>> from slackwater.policies.bounds import Bounds
    >>> bounds = Bounds({("a", "a"): [Bound()], ("a", "b"): [Bound(5, after=2)], ("b", "b"): [Bound()]})
    >>> generator = HeartbeatGenerator(bounds.rules(Units(calendar=False, clock_calendar=False)))
    >>> sources = generator.places_of(["a"])
    >>> _ = generator.follow(np.array([10]), sources, np.array([20]), closes=True)
    >>> generator.complete_before == BEGINNING, generator.advance(12), generator.complete_before
    (True, 15, 15)
    """

    __slots__ = ("_fleet_of", "_named", "_places", "_rules", "_tables", "names")

    def __init__(
        self,
        rules: Rules,
        grid: Duration = 1,
        resume: HeartbeatState | None = None,
        key: Callable[[SourceName], Hashable] = lambda name: name,
    ) -> None:
        self._rules = rules
        # A fleet is no value of the column: it is called by its own name.
        self._named = {str(name) if rules.fleets else key(name): name for name in rules.named}
        self._fleet_of = {key(member): str(fleet) for member, fleet in rules.fleets}
        self._tables = Tables(rules, grid)
        self._tables.set_up(kernel.UNSEEN, rules, _NOBODY, self.waits_by_rules(kernel.UNSEEN))
        self.names: list[Hashable | None] = [None]
        self._places: dict[Hashable, int] = {}
        self.places_of(list(self._named) if resume is None else resume.names)
        if resume is not None:
            self._tables.restore(resume)

    def places_of(self, names: Sequence[Hashable]) -> Column:
        """The places of sources; those that are new get one."""
        found = np.empty(len(names), dtype=np.int64)
        for number, given in enumerate(names):
            name = self._fleet_of.get(given, given)
            place = self._places.get(name)
            found[number] = self._add(name) if place is None else place
        return found

    def _add(self, name: Hashable) -> int:
        place = self._places[name] = len(self.names)
        self.names.append(name)
        tables = self._tables
        if place >= tables.room:
            tables.grow()
        known = self._named.get(name, _NOBODY)
        tables.set_up(place, self._rules, known, self._waited_for(known))
        tables.everything[kernel.SOURCES] = place + 1
        # What was guaranteed of anybody who had not come yet was guaranteed of this one.
        for column in (kernel.HEARTBEAT, kernel.SET_BY, kernel.SENDER):
            tables.sources[column, place] = tables.sources[column, kernel.UNSEEN]
        return place

    def _waited_for(self, known: Hashable) -> int:
        """From when on a source is waited for; who is not named, from its first row on: until then it is not there."""
        if not self._rules.waits_for(known):
            return kernel.NEVER
        return kernel.FROM_FIRST_ROW if known is _NOBODY or self._rules.as_seen else kernel.ALWAYS

    def waits_by_rules(self, place: int) -> int:
        """From when on rules wait for the source in a place: never, always, or from its first row on."""
        if place == kernel.UNSEEN:
            return kernel.ALWAYS if self._rules.covers_unseen else kernel.NEVER
        return self._waited_for(self._named.get(self.names[place], _NOBODY))

    # ---- what arrives, and when -----------------------------------------------------------------------------------

    def follow(
        self, ticks: Column, sources: Column, times: Column, *, closes: bool, own: Column = NO_ROOM
    ) -> tuple[Column, Column]:
        """Take in rows in order of arrival; return before which rows the stream is complete up to where.

        Ticks that fall are taken for the greatest so far. With `closes` the last tick is over after the last row. A row
        whose time is BEGINNING has none, and moves nothing. `own`, if given, has room for each row, and is filled with
        the heartbeat of its source before it came; of one that nobody waits for, with the least of all if that is more.
        """
        places, found = np.empty(len(times) + 1, dtype=np.int64), np.empty(len(times) + 1, dtype=np.int64)
        count = self._follow(ticks, sources, times, closes, places, found, own)
        # None of these is BEGINNING: they are where it rose.
        return places[:count], np.minimum(found[:count], FOREVER - 2) + 1

    def follow_instant(self, tick: int, words: Words, times: Column) -> tuple[Column, Column]:
        """Take in rows that all arrive in one tick, which is over then; return as `follow` does."""
        (places, found), codes = np.empty((2, 2), dtype=np.int64), np.empty(len(times), dtype=np.int64)
        count = follow_instant(self._tables.given, tick, *words, times, codes, places, found)
        return places[:count], np.minimum(found[:count], FOREVER - 2) + 1

    def _follow(self, *columns: Any) -> int:
        return follow_arrivals(self._tables.given, *columns)

    def _follow_groups(self, *columns: Any) -> int:
        return follow_statistics(self._tables.given, *columns)

    def _evaluate(self, tick: int) -> None:
        evaluate_declared(self._tables.given, tick)

    def _replay(self, *recorded: Any) -> None:
        replay_arrivals(self._tables.all, *recorded)

    def follow_statistics(
        self, groups: Column, ticks: Column, sources: Column, times: Column, *, closes: bool, own: Column = NO_ROOM
    ) -> tuple[Column, Column]:
        """Take in rows of which only some are here; return before which of these the stream is complete up to where.

        `groups` stand for all rows, in order of their ticks: places of sources, ticks, how many rows, the newest time.
        Where bounds are learnt, all rows of a group have this time, and groups of a tick are in order of it.
        Those that are here are given by their ticks, sources and times. With `closes` the last tick is over. `own` is
        filled as by `follow`, for the rows that are here.
        """
        most = groups.shape[1] + 1
        places, found = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        count = self._follow_groups(
            groups[1], groups[0], groups[2], groups[3], ticks, sources, times, closes, places, found, own
        )
        return places[:count], np.minimum(found[:count], FOREVER - 2) + 1

    def begin(self, tick: int) -> None:
        """Let a tick begin in which rows come; the clock moves nothing for the time before it that nobody looked at.

        Rows may have waited for who takes them in, who was busy or stood still. That was no silence of their source.
        """
        self._tables.everything[kernel.EVALUATED] = tick - 1

    def advance(self, tick: int) -> Instant:
        """Let the clock go on to the end of a tick without rows; return up to where the stream is complete."""
        if self._begin_silence(tick):
            self._evaluate(tick)
        return self.complete_before

    def _begin_silence(self, tick: int) -> bool:
        """Go on to a tick without rows, the first of all if need be; False if it is over already."""
        everything = self._tables.everything
        if tick < self.tick:
            return False
        everything[kernel.TICK] = tick
        if everything[kernel.BEGUN] == BEGINNING:
            everything[kernel.BEGUN] = tick
        return True

    def release_ticks(self, recorded: Recording) -> tuple[Column, Column]:
        """Take in a whole recording; for each row, at the end of which tick its time was complete.

        Of all sources that are waited for, and of its own. A row is late if that was before the tick of its arrival.
        FOREVER for rows that are still held when nothing moves any more.
        """
        sources = self.places_of(recorded.names)[recorded.codes]
        by_source, begins = recorded.by_source(sources, len(self.names))
        rows = len(sources)
        of_all, of_own = np.full(rows, FOREVER, np.int64), np.full(rows, FOREVER, np.int64)
        nexts, scratch = np.append(begins[:-1], 0), np.empty((2, rows + 1), np.int64)
        times = np.require(recorded.times, requirements="W")  # as all that stands in one value
        replayed = Replayed(recorded.ticks, sources, times, recorded.by_time, by_source, begins, nexts, of_all, of_own)
        self._replay(replayed, self._longest_wait(), scratch)
        return of_all, of_own

    def _longest_wait(self) -> int:
        """For how many ticks after rows something may come to hold that they guaranteed."""
        known = len(self.names)
        waits = int(self._tables.says[:, kernel.WAIT, :known].max(initial=0))
        latency = int(self._tables.sources[kernel.LATENCY, :known].max())
        # What is put together in a history comes to hold a little later, and latency is waited for twice at most.
        return 2 * (waits + latency) + 2 if waits + latency else 0

    @property
    def begun(self) -> bool:
        """Whether any row has come, or silence been seen."""
        return bool(self._tables.everything[kernel.BEGUN] != BEGINNING)

    @property
    def tick(self) -> int:
        """The last tick."""
        return int(self._tables.everything[kernel.TICK])

    @property
    def newest(self) -> Instant:
        """The greatest time of all rows."""
        return int(self._tables.everything[kernel.NEWEST])

    @property
    def complete_before(self) -> Instant:
        """Up to where the stream is complete; BEGINNING if nothing is."""
        return int(complete_before_of(self._tables.everything[[kernel.OVERALL]])[0])

    @property
    def furthest_heartbeat(self) -> Instant:
        """The greatest heartbeat: a row that is newer is behind none, whoever sent it. BEGINNING if there is none."""
        return int(self._tables.sources[kernel.HEARTBEAT, : len(self.names)].max())

    def newest_of(self, place: int) -> Instant:
        """The greatest time of the rows of the source in a place."""
        return int(self._tables.sources[kernel.HIGH_WATER, place])

    def complete_by_source(self) -> Column:
        """Up to where each source is complete, by its place; one that nobody waits for, as far as all together."""
        own, waited_for = self._tables.sources[[kernel.HEARTBEAT, kernel.WAITED_FOR], : len(self.names)]
        everyone = np.maximum(own, self._tables.everything[kernel.OVERALL])
        return complete_before_of(np.where(waited_for == kernel.NEVER, everyone, own))

    def heartbeats(self) -> dict[Hashable, Instant]:
        """How far each source is complete: its later rows are newer. BEGINNING where nothing is known."""
        found = self._tables.sources[kernel.HEARTBEAT, 1 : len(self.names)].tolist()
        return dict(zip(self.names[1:], found, strict=True))

    def violations(self) -> dict[Hashable, tuple[int, int, Instant]]:
        """For each source that broke a bound: in how many rows, which rule at last, and the time of that row."""
        columns = self._tables.sources[[kernel.VIOLATIONS, kernel.BROKEN_RULE, kernel.BROKEN_BY], : len(self.names)].T
        found = zip(self.names, columns.tolist(), strict=True)
        return {name: (rows, rule, time) for name, (rows, rule, time) in found if rows}

    # ---- why --------------------------------------------------------------------------------------------------------

    def binding(self) -> Binding | None:
        """The source that the others wait for, and what its heartbeat was set by; None before anything is known."""
        place = int(self._tables.everything[kernel.BINDING])
        return None if place == kernel.NONE else self.binding_of(place)

    def binding_of(self, place: int) -> Binding:
        """How far a source is complete, by its place, and what that was set by."""
        heartbeat, rule, sender = (
            int(self._tables.sources[column, place]) for column in (kernel.HEARTBEAT, kernel.SET_BY, kernel.SENDER)
        )
        if sender == kernel.NONE:
            return Binding(self.names[place], heartbeat, rule, None, BEGINNING, None)
        ahead = 0 if self._tables.kinds[rule, kernel.OWN] else int(self._tables.says[rule, kernel.AHEAD, sender])
        time = heartbeat + int(self._tables.says[rule, kernel.DELTA, place]) + ahead
        newest, tick = (
            int(self._tables.sources[column, sender]) for column in (kernel.HIGH_WATER, kernel.HIGH_WATER_TICK)
        )
        return Binding(self.names[place], heartbeat, rule, self.names[sender], time, tick if newest == time else None)

    def moves_next_at(self, pause: int = 1, *, past_newest: bool = False) -> int | None:
        """The next tick at which the least heartbeat may rise though no row comes; None if it will not.

        The clock, where it counts, moves it all the time, and is looked at after so many ticks. Past the newest time it
        goes on for ever: no row waits then, but a window may, which is for those to ask who know that one does.
        """
        everything = self._tables.everything
        place, overall = int(everything[kernel.BINDING]), int(everything[kernel.OVERALL])
        if place == kernel.NONE:
            return None
        if overall >= self.newest:
            by_clock = past_newest and self._tables.sources[kernel.DELAY, place] != kernel.NONE
            return self.tick + pause if by_clock else None
        return self.any_moves_next_at(np.array([place]), pause)

    def rises_next_at(self, place: int | None = None) -> int | None:
        """The first tick at which the stream is complete further though no row comes; None if that is never.

        Or the source in a place. Also None where it is complete past all rows, as nothing waits then. It is tried out
        on copies: heartbeats never fall, so that between two ticks it can be searched for by halves.
        """
        before = self.complete_of(place)
        first = self.moves_next_at() if place is None else self.any_moves_next_at(np.array([place]))
        if first is None or before > self.newest:
            return None
        ahead, low, high = self._copied(), first - 1, first
        while ahead.advanced(high).complete_of(place) == before:
            if high > _END_OF_CLOCKS:
                return None
            low, high = high, high + 2 * (high - low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._copied().advanced(middle).complete_of(place) > before else (middle, high)
        return high

    def advanced(self, tick: int) -> HeartbeatGenerator:
        """The same, at the end of a tick without rows."""
        self.advance(tick)
        return self

    def complete_of(self, place: int | None) -> Instant:
        """Up to where the source in a place is complete; without one, the stream."""
        return self.complete_before if place is None else int(self.complete_by_source()[place])

    def _copied(self) -> HeartbeatGenerator:
        """One that goes on by itself."""
        return deepcopy(self, {id(self._rules): self._rules})

    def may_be_waited_for(self, lasting: Duration = 0) -> Column:
        """The places of sources of which something may wait: complete no further than so long past their newest row."""
        newest = self._tables.sources[kernel.HIGH_WATER, : len(self.names)]
        waits = (newest != BEGINNING) & (self.complete_by_source() <= later(newest, lasting))
        return np.flatnonzero(waits)

    def any_moves_next_at(self, places: Column, pause: int = 1) -> int | None:
        """The next tick at which one of some sources may be complete further though no row comes; None for never.

        One that nobody waits for moves with all others, and so with the one that is waited for.
        """
        everything, now, sources = self._tables.everything, self.tick, self._tables.sources
        if everything[kernel.BEGUN] == BEGINNING or not len(places):
            return None
        if (sources[kernel.WAITED_FOR, places] == kernel.NEVER).any() and everything[kernel.BINDING] != kernel.NONE:
            places = np.union1d(places, everything[[kernel.BINDING]])
        instants = [np.array([now + pause])] if (sources[kernel.DELAY, places] != kernel.NONE).any() else []
        if everything[kernel.IDLE] != kernel.NONE:
            since = np.maximum(sources[kernel.LAST_TICK, places], everything[kernel.BEGUN])
            instants.append(since + everything[kernel.IDLE])
        if everything[kernel.LULL] != kernel.NONE:
            instants.append(everything[[kernel.LAST_ARRIVAL]] + everything[kernel.LULL])
        for number, kind in enumerate(self._tables.kinds):
            instants += self._come_to_hold(number, kind, places)
        to_come = [some.min(initial=FOREVER, where=some > now) for some in instants]
        first = int(min(to_come, default=FOREVER))
        return None if first == FOREVER else first

    def _come_to_hold(self, number: int, kind: Column, places: Column) -> list[Column]:
        """The ticks at which what has arrived comes to hold by a rule for some sources."""
        tables, says = self._tables, self._tables.says[number]
        places = places[says[kernel.DELTA, places] != kernel.NONE]
        waits, counts = says[kernel.WAIT, places], says[kernel.FURTHER_ROWS, places] != 0
        found = []
        if kind[kernel.DELAYED] != kernel.NONE:
            own = np.ones_like(counts) if kind[kernel.OWN] else counts
            kept, of = kind[kernel.DELAYED], places[own]
            wait = np.where(counts[own], tables.sources[kernel.LATENCY, of], waits[own])
            there = np.arange(tables.delayed.shape[2]) < tables.counted[kept, of, 1][:, None]
            found.append((tables.delayed[kept, of, :, 0] + wait[:, None])[there])
        if not kind[kernel.OWN]:
            history = tables.histories[number, : int(kind[kernel.LENGTH]), 0]
            found += [history + wait for wait in np.unique(waits[~counts]).tolist()]
        return found

    def snapshot(self) -> HeartbeatState:
        """All that is remembered."""
        return self._tables.snapshot(tuple(self.names[1:]))

    def check(self) -> None:
        """Assert the invariants."""
        for kind in self._tables.kinds:
            assert kind[kernel.FIRST] >= kind[kernel.SECOND], kind
        assert (self._tables.sources[kernel.HEARTBEAT, : len(self.names)] < FOREVER).all(), self.names
        assert len(self._places) + 1 == len(self.names), self._places


def complete_before_of(heartbeats: Column) -> Column:
    """Up to where a source or stream is complete by its heartbeat: later rows are newer than that.

    >>> complete_before_of(np.array([4, BEGINNING, FOREVER])).tolist() == [5, BEGINNING, FOREVER - 1]
    True
    """
    return np.where(heartbeats == BEGINNING, BEGINNING, np.minimum(heartbeats, FOREVER - 2) + 1)
