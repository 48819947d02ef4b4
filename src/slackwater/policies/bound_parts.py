"""The parts that bounds are made of: each is one thing that somebody knows, and says it in rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.errors import BadDuration, PlanError, message
from slackwater.policies.bound import Bound, Units, is_zero, shown
from slackwater.policies.bound_rules import Pair, Rule, Rules
from slackwater.policies.per_source import PerSource, SourceName

if TYPE_CHECKING:
    from fractions import Fraction

    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration

_EVERYBODY: PerSource[Duration | None] = PerSource(0)
_MOST_SHOWN = 5
_MOST_KINDS = 32
"""Kinds of senders that are distinguished where a wait depends on both sides; more are put together, to the weakest."""


@dataclass(frozen=True)
class Part(ABC):
    """One thing that somebody knows."""

    @abstractmethod
    def rules(self, units: Units) -> Rules:
        """What follows from it, in the units of a stream."""

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return ()


@dataclass(frozen=True)
class Entries(Part):
    """Entries of the matrix, written one by one."""

    entries: tuple[tuple[SourceName, SourceName, tuple[Bound, ...]], ...]

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        made = []
        for sender, receiver, bounds in self.entries:
            for bound in bounds:
                to = PerSource[Pair | None](None, ((receiver, bound.pair(units)),))
                words = f"{sender} -> {receiver}: {bound}"
                made.append(Rule(words, PerSource(None, ((sender, 0),)), to, own=sender == receiver, and_own=False))
        return Rules(tuple(made))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return tuple(dict.fromkeys(name for sender, receiver, _ in self.entries for name in (sender, receiver)))

    def __str__(self) -> str:
        return "; ".join(f"{i} -> {j}: {' and '.join(map(str, bounds))}" for i, j, bounds in self.entries)


@dataclass(frozen=True)
class Uniform(Part):
    """How far rows are behind those of any source."""

    behind: PerSource[Length | None]
    after: Length = 0
    as_arrived: bool = False
    """Whether it is about rows as they arrive, as a patience is, however long they were under way."""

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        pairs: PerSource[Pair | None] = self.behind.map(
            lambda behind: None if behind is None else Bound(behind, self.after).pair(units)
        )
        return Rules((Rule(str(self), _EVERYBODY, pairs, as_arrived=self.as_arrived),))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.behind.names

    def __str__(self) -> str:
        if self.behind.named or self.behind.default is None:
            when = "" if is_zero(self.after) else f", from {shown(self.after)} after them on"
            return f"rows at most {_listed(self.behind)} behind those of any source{when}"
        far, *later = str(Bound(self.behind.default, self.after)).split(", ")
        other = "than any other" if is_zero(self.behind.default) else "any other"
        return ", ".join([f"any source: {far} {other}", *later])


@dataclass(frozen=True)
class Disorder(Part):
    """How far rows are behind those of the same source."""

    behind: PerSource[Length | None]

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        pairs: PerSource[Pair | None] = self.behind.map(
            lambda behind: None if behind is None else Bound(behind).pair(units)
        )
        return Rules((Rule(str(self), _EVERYBODY, pairs, own=True),))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.behind.names

    def __str__(self) -> str:
        return f"rows at most {_listed(self.behind)} behind those of the same source"


@dataclass(frozen=True)
class InOrder(Part):
    """Each source sends in order."""

    repeats: int | None

    def rules(self, units: Units) -> Rules:  # noqa: ARG002 - order has no length
        """What follows from it."""
        ties = [Pair(1)] if self.repeats != 1 else []
        # After the first row of a time there may be so many less one; whatever comes then is newer.
        counted = [] if self.repeats is None else [Pair(0, rows=self.repeats - 1)]
        return Rules(tuple(Rule(str(self), _EVERYBODY, PerSource(pair), own=True) for pair in (*ties, *counted)))

    def __str__(self) -> str:
        many = {None: "in order", 1: "strictly in order"}
        return f"each source: {many.get(self.repeats, f'in order, at most {self.repeats} rows of a time')}"


@dataclass(frozen=True)
class Sensors(Part):
    """Clocks that are not further off than this (section 4.2)."""

    deviation: PerSource[Length | None]
    rate: Fraction | None

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        off = self.deviation.map(lambda length: None if length is None else units.time(length))
        # A reading may repeat, for clocks that are set back by their deviation and for those that tick slowly: the
        # paper's strict d would be one too little (erratum 5).
        behind = off.map(lambda d: None if d is None else Pair(d + 1))
        made = [Rule(str(self), _EVERYBODY, behind, own=True), Rule(str(self), off, behind)]
        if self.rate is not None:
            rate = self.rate
            own = off.map(partial(_running_on, 0, rate))
            made.append(Rule(f"{self}, running on", _EVERYBODY, own, own=True))
            for most, senders in _kinds(off):
                waits = off.map(partial(_running_on, most, rate))
                made.append(Rule(f"{self}, running on", senders, waits))
        return Rules(tuple(made))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.deviation.names

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", running at {float(self.rate):g} or faster"
        return f"clocks at most {_listed(self.deviation)} off{rate}"


@dataclass(frozen=True)
class GlobalCounter(Part):
    """Times that are drawn from one counter (section 4.1)."""

    between: PerSource[tuple[Length, Length] | None]

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        times = self.between.map(lambda two: None if two is None else (units.clock(two[0]), units.clock(two[1])))
        for two in times.values:
            if two is not None and two[0] > two[1]:
                raise BadDuration(message("the least time is more than the most", {"between": self}, "swap them"))
        everybody: PerSource[Duration | None] = times.map(lambda two: None if two is None else 0)
        newer: PerSource[Pair | None] = times.map(lambda two: None if two is None else Pair(0))
        one_more: PerSource[Pair | None] = times.map(lambda two: None if two is None else Pair(0, rows=1))
        made = [Rule(f"{self}, drawn one by one", everybody, newer, own=True)]
        made.append(Rule(f"{self}, and it has sent another since", everybody, one_more))
        # Those of whom the least is known have kinds by it: the less, the longer the others are waited for.
        for least, senders in _kinds(times.map(lambda two: None if two is None else -two[0])):
            waits = times.map(partial(_drawn_since, least))
            made.append(Rule(str(self), senders, waits))
        return Rules(tuple(made))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.between.names

    def __str__(self) -> str:
        spelled = self.between.map(lambda two: None if two is None else f"{shown(two[0])} to {shown(two[1])}")
        return f"numbers of one counter, sent after {_listed(spelled)}"


@dataclass(frozen=True)
class Delay(Part):
    """How long after its time a row arrives."""

    delays: PerSource[Length | None]

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        if not units.calendar and units.clock_calendar:
            hint = "use a timestamp column for time=, or numbers for arrived=, too"
            raise PlanError(message("a delay compares times with the clock, and these are sequence numbers", {}, hint))
        return Rules(delay=self.delays.map(lambda length: None if length is None else units.clock(length)))

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.delays.names

    def __str__(self) -> str:
        return f"rows arrive at most {_listed(self.delays)} after their time"


@dataclass(frozen=True)
class Latency(Part):
    """How long rows are under way."""

    latency: PerSource[Length]

    def rules(self, units: Units) -> Rules:  # noqa: ARG002 - put in at the end: it concerns all other parts
        """What follows from it."""
        return Rules()

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources it names."""
        return self.latency.names

    def __str__(self) -> str:
        return f"under way for at most {_listed(self.latency)}"


@dataclass(frozen=True)
class Assumed(Part):
    """What is assumed of silence."""

    idle: Length | None = None
    lull: Length | None = None

    def rules(self, units: Units) -> Rules:
        """What follows from it."""
        idle = None if self.idle is None else units.clock(self.idle)
        return Rules(idle=idle, lull=None if self.lull is None else units.clock(self.lull))

    def __str__(self) -> str:
        return f"idle after {shown(self.idle)}" if self.idle is not None else f"a lull after {shown(self.lull)}"


def _kinds(values: PerSource[Duration | None]) -> list[tuple[Duration, PerSource[Duration | None]]]:
    """Senders by a value on which the wait depends, each kind with the greatest of it.

    So many kinds as there are values; if these are too many, neighbours are put together.
    """
    distinct = sorted({value for value in values.values if value is not None})
    size = -(-len(distinct) // _MOST_KINDS)
    groups = [distinct[first : first + size] for first in range(0, len(distinct), size)]

    def senders(group: list[Duration]) -> tuple[Duration, PerSource[Duration | None]]:
        return group[-1], values.map(lambda value: 0 if value in group else None)

    return [senders(group) for group in groups]


def _running_on(ahead: Duration, rate: Fraction, off: Duration | None) -> Pair | None:
    """After how long a clock that is so far off has passed what one that is so far ahead shows now."""
    return None if off is None else Pair(0, _up((ahead + off + 1) / rate))


def _drawn_since(least: Duration, between: tuple[Duration, Duration] | None) -> Pair | None:
    """After how long a source has sent what it drew before a number that was sent after `-least` or more."""
    return None if between is None else Pair(0, max(between[1] + least, 0))


def _up(length: Fraction) -> Duration:
    return -(-length.numerator // length.denominator)


def _listed(values: PerSource[Any]) -> str:
    """The values of sources, of many only the first few."""
    named = [f"{shown(value)} ({name})" for name, value in values.named]
    some = named if len(named) <= _MOST_SHOWN else [*named[:3], f"and of {len(named) - 3} more"]
    if values.default is None or not named:
        return ", ".join(some) or shown(values.default)
    return ", ".join([*some, f"{shown(values.default)} (all others)"])
