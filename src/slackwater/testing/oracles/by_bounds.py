"""Replicas of one column merged by bounds, in the most obvious way: tick by tick, with plain lists and dictionaries.

Rules are those of docs/decisions/0049, and of 0019 and 0025 for who leads and who takes over. How far sources are by
their heartbeats is given; it is found by the paper's own algorithm (`heartbeats/figure_2.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Source, Tick, Time

Event: TypeAlias = tuple[int, str]
"""A time, and what happened then."""


class Row(NamedTuple):
    """A row of a replica as it arrives."""

    tick: Tick
    source: Source
    time: Time
    what: str = ""


class Known(NamedTuple):
    """What is known of replicas: heartbeats at the end of each tick, and how far rows are behind those before them."""

    proven: Sequence[Sequence[Time]]
    """By rules alone: `proven[tick][source]`."""

    assumed: Sequence[Sequence[Time]]
    """The same with what is assumed of silence."""

    behind: Sequence[Time]
    """By own rows alone, for each source; the patience or less."""

    patience: Time


@dataclass
class Replica:
    """What is remembered of one."""

    complete_from: Time
    complete: Time = BEGINNING
    newest: Time = BEGINNING
    alone_from: Time = BEGINNING
    took_over: bool = False


@dataclass
class MergedByBounds:
    """What has become of the rows so far.

    >>> known = Known([[9, 0], [9, 9]], [[9, 0], [9, 9]], behind=[5, 5], patience=5)
    >>> merged = MergedByBounds(known)
    >>> merged.take(0, [Row(0, 0, 3), Row(0, 1, 2)])
    >>> merged.out, merged.settled
    (Counter(), 1)
    >>> merged.take(1, [])
    >>> sorted(merged.out), merged.settled
    ([(2, ''), (3, '')], 10)
    """

    known: Known
    replicas: dict[Source, Replica] = field(default_factory=dict)
    held: dict[Event, Counter[Source]] = field(default_factory=dict)
    out: Counter[Event] = field(default_factory=Counter)
    late: list[Row] = field(default_factory=list)
    passed_over: int = 0
    contradicted: int = 0
    duplicates: int = 0
    settled: Time = BEGINNING
    earliest: Time | None = None
    released: Time = BEGINNING

    def take(self, tick: Tick, rows: Sequence[Row]) -> None:
        """Let a tick pass, with its rows."""
        self._register(rows)
        for row in rows:
            self._take_row(row)
        came = {source: [row.time for row in rows if row.source == source] for source in {row.source for row in rows}}
        if came:
            self._end_tick(tick, came)
        self._release(min(self.known.assumed[tick]) + 1)

    def _register(self, rows: Sequence[Row]) -> None:
        begun = any(one.complete > BEGINNING for one in self.replicas.values())
        if rows and not begun:
            self.earliest = min([row.time for row in rows] + ([] if self.earliest is None else [self.earliest]))
        for source in sorted({row.source for row in rows} - self.replicas.keys()):
            times = [row.time for row in rows if row.source == source]
            has_all = not begun and self.earliest is not None and min(times) - self.known.patience <= self.earliest
            self.replicas[source] = Replica(BEGINNING if has_all else times[0] + self.known.behind[source] + 1)

    def _take_row(self, row: Row) -> None:
        if row.time < self.replicas[row.source].complete:
            self.late.append(row)
        elif row.time < self.settled:
            self.passed_over += 1
        else:
            copies = self.held.setdefault((row.time, row.what), Counter())
            before = max(copies.values(), default=0)
            copies[row.source] += 1
            self.duplicates += copies[row.source] <= before

    def _end_tick(self, tick: Tick, came: dict[Source, list[Time]]) -> None:
        leaders, before = self.leaders(), {source: one.newest for source, one in self.replicas.items()}
        high = {source: max(before[source], *times) for source, times in came.items()}
        for source in sorted(came, key=lambda source: (-high[source], source)):
            one = self.replicas[source]
            one.newest = high[source]
            by_own = max(max(came[source]) - self.known.behind[source], one.newest - self.known.patience)
            one.complete = max(one.complete, by_own)
            heartbeat = self.known.proven[tick - 1][source] if tick else BEGINNING - 1
            if max(came[source]) > heartbeat:
                one.complete = max(one.complete, heartbeat + 1)
            self._punctuate(source)
        if leaders & came.keys():
            for one in self.replicas.values():
                one.alone_from = BEGINNING
        else:
            for source, times in came.items():
                one = self.replicas[source]
                if one.alone_from == BEGINNING:
                    one.alone_from = max(before[source], times[0])
        self._let_take_over()

    def leaders(self) -> set[Source]:
        """The replicas whose punctuations count."""
        found: set[Source] = set()
        reached = self.released
        for source in sorted(self.replicas, key=lambda source: self.replicas[source].complete_from):
            one = self.replicas[source]
            if one.complete_from > BEGINNING and one.complete_from >= reached:
                break
            found.add(source)
            reached = max(reached, one.complete)
        return found

    def _let_take_over(self) -> None:
        due = [
            (one.complete_from, number, one)
            for number, (source, one) in enumerate(self.replicas.items())
            if source not in self.leaders()
            and one.alone_from > BEGINNING
            and one.newest - one.alone_from > 2 * self.known.patience
        ]
        if due:
            _, _, one = min(due, key=lambda found: found[:2])
            source = next(source for source, other in self.replicas.items() if other is one)
            for copies in (copies for (time, _), copies in self.held.items() if time < one.complete_from):
                copies[source] = max(copies.values())
            one.complete_from, one.took_over = BEGINNING, True
            for other in self.replicas.values():
                other.alone_from = BEGINNING
            self._punctuate(source)

    def _punctuate(self, source: Source) -> None:
        """Let the output agree with a replica, if it has joined; and with those that join by that."""
        self._settle(source)
        waiting = [other for other in self.replicas if other != source]
        while more := [other for other in waiting if self._settle(other)]:
            waiting = [other for other in waiting if other not in more]

    def _settle(self, source: Source) -> bool:
        one = self.replicas[source]
        if one.complete_from > self.settled or one.complete <= self.settled:
            return False
        for event in [event for event in self.held if event[0] < one.complete]:
            copies = self.held.pop(event)
            self.out[event] += copies[source]
            self.contradicted += max(copies.values()) - copies[source]
        self.settled = one.complete
        self.out += Counter()
        return True

    def _release(self, bound: Time) -> None:
        """Let all go that nobody can add to any more."""
        if bound <= max(self.released, BEGINNING):
            return
        self.released = bound
        for event in [event for event in self.held if event[0] < bound]:
            self.out[event] += max(self.held.pop(event).values())
        self.settled = max(self.settled, bound)
        for source in self.replicas:
            self._punctuate(source)
