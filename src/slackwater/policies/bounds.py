"""Bounds: what is known of the clocks, the order and the transport of sources, written as durations.

From bounds follows, with every row that arrives, how far each source is complete: a *heartbeat*. A source that pauses
does not hold up the others for longer than its bounds say, and no row is late while bounds hold.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.

All lengths are inclusive: "at most 5s behind" allows 5s. Where the paper is off by one, or wrong, this is right and
says so (docs/decisions/0042-heartbeats-from-bounds.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeAlias

from slackwater.errors import BadDuration, PlanError, message
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bound_parts import (
    Assumed,
    Delay,
    Disorder,
    Entries,
    GlobalCounter,
    InOrder,
    Latency,
    Part,
    Sensors,
    Uniform,
)
from slackwater.policies.bound_rules import NOBODY, Rules, in_fleets
from slackwater.policies.cadence import CadenceUnit, Every
from slackwater.policies.estimate_parts import Learnt, Share, Skew
from slackwater.policies.per_source import PerSource, SourceName
from slackwater.policies.punctuations import Length
from slackwater.progress.instants import Duration, as_duration

Lengths: TypeAlias = Length | Mapping[Any, Length]
"""One length for all sources, or one by name; `...` stands for all that are not named."""


@dataclass(frozen=True, init=False)
class Bounds:
    """What is known of the sources of a stream. Put several together with `&`: all of them hold.

    `Bounds({("EWR", "JFK"): [Bound(...), ...]})` writes entries one by one: what a row of the first source guarantees
    of later rows of the second; both the same source for the order within it. Pairs that are not named have no bound.
    `latency` says how long rows are under way at most; without it bounds are about rows as they arrive.

    >>> bounds = Bounds(
    ...     {("EWR", "EWR"): [Bound()], ("EWR", "JFK"): [Bound("5s", after="10s")], ("JFK", "JFK"): [Bound()]}
    ... )
    >>> print(bounds & Bounds.idle("30s"))
    EWR -> EWR: not older; EWR -> JFK: at most 5s behind, from 10s after it on; JFK -> JFK: not older; idle after 30s
    """

    parts: tuple[Part, ...]
    expected: tuple[SourceName, ...] | None
    fleets: tuple[tuple[SourceName, tuple[SourceName, ...]], ...]
    as_seen: bool

    def __init__(self, entries: Mapping[Any, Sequence[Bound]], *, latency: Lengths | None = None) -> None:
        read = tuple((sender, receiver, tuple(bounds)) for (sender, receiver), bounds in entries.items())
        for _, _, bounds in read:
            wrong = next((bound for bound in bounds if not isinstance(bound, Bound)), None)
            if wrong is not None or not bounds:
                hint = 'write [sw.Bound(behind="5s")], or leave the entry out: then nothing is guaranteed'
                raise PlanError(message("an entry is a list of Bound", {"got": repr(wrong or bounds)}, hint))
        _make(self, (Entries(read), *_latency(latency)))

    @classmethod
    def uniform(cls, behind: Lengths, *, after: Length = 0, latency: Lengths | None = None) -> Bounds:
        """Say that no row is further behind any other row that came before it, of any source.

        - `behind`: how far behind, inclusive, for all sources or by name; `after`: how long it takes until that holds.
        - `latency`: how long rows are under way at most.

        >>> str(Bounds.uniform("5s", after="1m"))
        'any source: at most 5s behind any other, from 1m after it on'
        >>> str(Bounds.uniform({"JFK": "2h", ...: "10m"}))
        'rows at most 2h (JFK), 10m (all others) behind those of any source'
        """
        return _made(Uniform(PerSource.read(behind), after), *_latency(latency))

    @classmethod
    def disorder(cls, behind: Lengths, *, latency: Lengths | None = None) -> Bounds:
        """Say how far rows are behind those that the same source sent before. Nothing is known of other sources.

        - `behind`: how far behind, inclusive, for all sources or by name.
        - `latency`: how long rows are under way at most; they may overtake each other on the way.

        >>> str(Bounds.disorder({"JFK": "2h", ...: "10m"}))
        'rows at most 2h (JFK), 10m (all others) behind those of the same source'
        """
        return _made(Disorder(PerSource.read(behind)), *_latency(latency))

    @classmethod
    def patience(cls, patience: Length) -> Bounds:
        """Say what sort(patience=...) says: no row is further behind the newest that has arrived than this.

        It is about rows as they arrive: what `latency=` says beside it makes nobody wait longer.

        >>> str(Bounds.patience("5s"))
        'any source: at most 5s behind any other'
        """
        return _made(Uniform(PerSource.read(patience), as_arrived=True))

    @classmethod
    def in_order(cls, *, strictly: bool = False, repeats: int | None = None, latency: Lengths | None = None) -> Bounds:
        """Say that each source sends its rows in order of time. Nothing follows for one source from another.

        - `strictly`: no two rows of a source have the same time; `repeats`: no more than so many have.
        - `latency`: how long rows are under way at most; they may overtake each other on the way.

        >>> str(Bounds.in_order(repeats=3))
        'each source: in order, at most 3 rows of a time'
        """
        if strictly and repeats is not None:
            hint = "strictly=True means one row of a time: leave one of them out"
            raise PlanError(
                message("strictly= and repeats= say the same thing differently", {"repeats": repeats}, hint)
            )
        if repeats is not None and (isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1):
            raise PlanError(message("repeats= is a number of rows above zero", {"got": repr(repeats)}))
        return _made(InOrder(1 if strictly else repeats), *_latency(latency))

    @classmethod
    def sensors(cls, deviation: Lengths, *, rate: float | None = None, latency: Lengths | None = None) -> Bounds:
        """Say that every source stamps its rows by a clock of its own, which is never further off than this.

        - `deviation`: how far a clock is ahead of or behind true time at most, for all sources or by name.
        - `rate`: how fast clocks run at least, 1 being true time: then a pause of all sources holds nothing up. It is
          for clocks that are set back at most once in that time.
        - `latency`: how long rows are under way at most.

        >>> str(Bounds.sensors({"EWR": "5m", ...: "1m"}, latency="2h"))
        'clocks at most 5m (EWR), 1m (all others) off; under way for at most 2h'
        """
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0):
            raise PlanError(message("rate= is how fast clocks run at least, above zero", {"got": repr(rate)}))
        return _made(Sensors(PerSource.read(deviation), None if rate is None else Fraction(rate)), *_latency(latency))

    @classmethod
    def global_counter(
        cls, between: tuple[Length, Length] | Mapping[Any, tuple[Length, Length]], *, latency: Lengths | None = None
    ) -> Bounds:
        """Say that times are numbers of a shared counter, drawn one after the other.

        - `between`: how long a source takes from drawing a number to sending its row, at least and at most, for all
          sources or by name. It draws the next one after that.
        - `latency`: how long rows are under way at most.

        >>> str(Bounds.global_counter({"a": ("1s", "5s"), "b": ("2s", "3s")}))
        'numbers of one counter, sent after 1s to 5s (a), 2s to 3s (b)'
        """
        read = PerSource.read(between)
        for value in read.values:
            if value is not None and (not isinstance(value, tuple) or len(value) != 2):  # noqa: PLR2004 - a pair
                hint = 'write a pair of the least and the most: ("1s", "5s")'
                raise PlanError(message("a source needs the least and the most time", {"got": repr(value)}, hint))
        return _made(GlobalCounter(read), *_latency(latency))

    @classmethod
    def delay(cls, delay: Lengths | None = None, /, **by_name: Length) -> Bounds:
        """Say that rows arrive at most so long after their time, by the clock: silence holds nothing up then.

        - `delay`: for all sources, or by name; further names as keywords.

        >>> str(Bounds.delay("10m", JFK="2h"))
        'rows arrive at most 2h (JFK), 10m (all others) after their time'
        """
        read = PerSource.read(delay)
        delays: PerSource[Length | None] = PerSource(read.default, (*read.named, *by_name.items()))
        if all(value is None for value in delays.values):
            raise PlanError(message("delay needs a length", {}, 'write Bounds.delay("10m") or Bounds.delay(JFK="2h")'))
        return _made(Delay(delays))

    @classmethod
    def idle(cls, after: Length) -> Bounds:
        """Assume that a source which has been silent for so long has nothing older than the newest row of all.

        It is an assumption, not a bound: what a source sends after a longer pause may be late.

        >>> str(Bounds.idle("30s"))
        'idle after 30s'
        """
        return _made(Assumed(idle=_positive(after)))

    @classmethod
    def lull(cls, after: Length) -> Bounds:
        """Assume, once all sources have been silent for so long, that nothing older than the newest row is to come.

        The paper's time-out (section 3.3). It is an assumption, not a bound.

        >>> str(Bounds.lull("10m"))
        'a lull after 10m'
        """
        return _made(Assumed(lull=_positive(after)))

    @classmethod
    def estimated(cls, loss: float, *, after: Length | Sequence[Length] = 0) -> Bounds:
        """Learn from the rows how long to wait for nearly all of them, while the query runs.

        It starts from the patience beside it (or a delay by the clock), and comes down as rows show that less is
        enough. When more rows were late than asked for it goes back, until they are no more than that again. Sources
        that show less than others are waited for by less. `why()` and the counters show how many rows were late by it.

        - `loss`: the share of rows that may be late, of those that the patience alone would have kept.
        - `after`: how long after a row others are compared with it, too; several make it sooner in silence.

        >>> str(Bounds.estimated(loss=0.001) & Bounds.patience("12h"))
        'estimated, with at most 0.1 % of the rows late; any source: at most 12h behind any other'
        """
        if isinstance(loss, bool) or not isinstance(loss, int | float) or not 0 < loss < 1:
            hint = "loss=0.001 lets one row of a thousand be late; for none at all declare bounds, or use a patience"
            raise PlanError(message("loss= is a share of the rows, above 0 and below 1", {"got": repr(loss)}, hint))
        return _made(Share(_several(after), float(loss)))

    @classmethod
    def greatest(
        cls, *, after: Length | Sequence[Length] = 0, clock: bool = False, pairs: Sequence[SourceName] = ()
    ) -> Bounds:
        """Learn the greatest skew from the rows, while the query runs: how far any row was behind so far (section 6.1).

        It starts from nothing, as in the paper, so that rows which show more skew than any before are late.

        - `after`: how long after a row others are compared with it; several lengths are several bounds.
        - `clock`: whether rows are compared with the clock, too.
        - `pairs`: compare rows with those of each of these sources, as the paper does. By default each source is
          compared with itself and with the furthest of all, which costs as much as there are sources, not their square.

        >>> str(Bounds.greatest())
        'estimated by the greatest skew so far'
        """
        return _made(Skew(_several(after), _named_once(pairs), clock))

    @classmethod
    def adaptive(
        cls,
        window: int | Length | Every,
        *,
        alpha: float = 0.5,
        adapts: bool = False,
        start: Length = 0,
        after: Length | Sequence[Length] = 0,
        clock: bool = False,
        pairs: Sequence[SourceName] = (),
    ) -> Bounds:
        """Learn the skew from the rows, while the query runs, and forget what was long ago (Figure 4).

        - `window`: how many rows, or how long by the clock of arrivals, without more skew lower an estimate. A number
          is one of rows; `Every.time(5)` is a length where arrivals are numbers.
        - `alpha`: how much of the estimate is left then; the rest is the greatest of the window. 1 never lowers it.
        - `adapts`: windows double where an estimate is exceeded in the window after it was lowered, and are halved
          where three in a row lowered it, up to 64 times and down to a 64th.
        - `start`: the skew to start from; by default nothing, as in the paper, so that the first rows may be late.
        - `after`, `clock`, `pairs`: as for `greatest`.

        >>> str(Bounds.adaptive("1h", start="10m")), str(Bounds.adaptive(1000, alpha=0.25))
        ('estimated by the skew of the last 1h or so', 'estimated by the skew of the last 1000 rows or so')
        """
        if not isinstance(window, Every):
            window = Every.rows(window) if isinstance(window, int) else Every.time(window)
        if window.unit is CadenceUnit.BATCH:
            hint = 'window=1000 is a number of rows, window="10m" a length of time'
            raise PlanError(message("window= is a number of rows, or a length", {"got": str(window)}, hint))
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
            hint = "0 takes what the window showed, 1 never lowers an estimate"
            raise PlanError(message("alpha= is a share of the estimate, from 0 to 1", {"got": repr(alpha)}, hint))
        if adapts and alpha == 1:
            hint = "leave adapts= out, or choose a smaller alpha"
            raise PlanError(message("windows adapt where estimates are lowered, and alpha=1 never does", {}, hint))
        return _made(Skew(_several(after), _named_once(pairs), clock, window, float(alpha), adapts, start))

    def only(self, *sources: SourceName) -> Bounds:
        """Say that these are all sources there are, so that all are waited for, and nobody else is.

        Rows of others are taken, and are late when they come too late; they hold up nobody.

        >>> Bounds.in_order().only("a", "b").expected
        ('a', 'b')
        """
        if self.as_seen:
            hint = "call one of them: only() names sources that are waited for before they have come"
            raise PlanError(message("only() and once_seen() contradict each other", {"only": sources}, hint))
        there_are = set(sources)
        unknown = [name for name in self.named if name not in there_are]
        if unknown or not sources:
            facts = {"named": ", ".join(map(str, unknown)), "sources": ", ".join(map(str, sources)) or "none"}
            raise PlanError(message("bounds name a source that there is not", facts, "name it, or leave its bound out"))
        return _with(self, expected=tuple(sources))

    def once_seen(self) -> Bounds:
        """Wait for a source from its first row on, though bounds name it.

        Otherwise sources that are named are waited for from the beginning. The first rows of one that comes later may
        be late then; its bounds hold from there on.

        >>> str(Bounds.delay(JFK="2h").once_seen())
        'rows arrive at most 2h (JFK) after their time; each source once seen'
        """
        if self.expected is not None:
            hint = "call one of them: only() names sources that are waited for before they have come"
            raise PlanError(message("only() and once_seen() contradict each other", {"only": self.expected}, hint))
        return _with(self, as_seen=True)

    def in_fleets(self, fleets: Mapping[Any, Sequence[SourceName]]) -> Bounds:
        """Treat groups of sources as one source each: cheaper for thousands, a little later.

        The bounds between fleets are the weakest between their members; those that count rows are lost (section 5.2).

        - `fleets`: the members of each fleet; every source belongs to one.

        >>> print(Bounds.sensors({"a": 1, "b": 3}).in_fleets({"ab": ["a", "b"]}))
        clocks at most 1 (a), 3 (b) off; in 1 fleet
        """
        members = Counter(member for some in fleets.values() for member in some)
        twice = next((member for member, times in members.items() if times > 1), None)
        lacking = [name for name in self.named if name not in members]
        if not members or twice is not None or lacking or not all(fleets.values()):
            facts = {"twice": twice, "without a fleet": ", ".join(map(str, lacking)) or "none"}
            raise PlanError(message("every source belongs to one fleet", facts, "list each source once"))
        return _with(self, fleets=tuple((fleet, tuple(some)) for fleet, some in fleets.items()))

    def __and__(self, other: Bounds) -> Bounds:
        if not isinstance(other, Bounds):
            return NotImplemented
        if self.fleets or other.fleets:
            raise PlanError(message("fleets are made of all bounds together", {}, "write (a & b).in_fleets(...)"))
        if self.expected is not None and other.expected is not None and set(self.expected) != set(other.expected):
            facts = {"one": self.expected, "the other": other.expected}
            raise PlanError(
                message("two bounds disagree on which sources there are", facts, "call only() once, at the end")
            )
        if sum(isinstance(part, Learnt) for part in (*self.parts, *other.parts)) > 1:
            two, hint = {"one": str(self), "the other": str(other)}, "leave one out; bounds that you know may stay"
            raise PlanError(message("bounds are estimated in one way, not in two", two, hint))
        made = _made(*self.parts, *other.parts)
        expected = self.expected if self.expected is not None else other.expected
        made = made if expected is None else made.only(*expected)
        return made.once_seen() if self.as_seen or other.as_seen else made

    @property
    def named(self) -> tuple[SourceName, ...]:
        """The sources that anybody named."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def learns(self) -> bool:
        """Whether any of them are learnt from the rows."""
        return any(isinstance(part, Learnt) for part in self.parts)

    def rules(self, units: Units) -> Rules:
        """The same in the units of a stream; refuse lengths of the other kind.

        >>> Bounds.uniform(5).rules(Units(calendar=False)).pairs("a", "b")
        [Pair(delta=6, wait=0, rows=0)]
        """
        all_of_it = Rules()
        # Declared rules come first.
        for part in sorted(self.parts, key=lambda part: isinstance(part, Learnt)):
            all_of_it = _both(all_of_it, part.rules(units))
        all_of_it = replace(all_of_it, latency=_stated(self.parts, units), expected=self.expected, as_seen=self.as_seen)
        return in_fleets(all_of_it, dict(self.fleets)) if self.fleets else all_of_it

    def __str__(self) -> str:
        words = [str(part) for part in self.parts]
        words += [f"only {', '.join(map(str, self.expected))}"] if self.expected is not None else []
        words += ["each source once seen"] if self.as_seen else []
        words += [f"in {len(self.fleets)} fleet{'s' * (len(self.fleets) > 1)}"] if self.fleets else []
        return "; ".join(words)


def _make(bounds: Bounds, parts: tuple[Part, ...]) -> None:
    object.__setattr__(bounds, "parts", parts)
    object.__setattr__(bounds, "expected", None)
    object.__setattr__(bounds, "fleets", ())
    object.__setattr__(bounds, "as_seen", False)


def _made(*parts: Part) -> Bounds:
    bounds = object.__new__(Bounds)
    _make(bounds, parts)
    return bounds


def _with(bounds: Bounds, **changes: Any) -> Bounds:
    other = _made(*bounds.parts)
    for name in ("expected", "fleets", "as_seen"):
        object.__setattr__(other, name, changes.get(name, getattr(bounds, name)))
    return other


def _latency(latency: Lengths | None) -> tuple[Part, ...]:
    return () if latency is None else (Latency(PerSource.read(latency, 0)),)


def _several(lengths: Length | Sequence[Length]) -> tuple[Length, ...]:
    found: tuple[Any, ...] = (lengths,) if isinstance(lengths, str | int | timedelta) else tuple(lengths)
    if not found:
        raise PlanError(message("after= needs a length", {}, "leave it out to compare rows at once"))
    return found


def _named_once(pairs: Sequence[SourceName]) -> tuple[SourceName, ...]:
    if isinstance(pairs, str | bytes):
        raise PlanError(message("pairs= is a list of sources", {"got": repr(pairs)}, f"write pairs=[{pairs!r}]"))
    return tuple(dict.fromkeys(pairs))


def _both(one: Rules, other: Rules) -> Rules:
    """All that two parts know."""
    return Rules(
        one.rules + other.rules,
        delay=other.delay if one.delay == NOBODY else one.delay.with_other(other.delay, _least),
        idle=_least(one.idle, other.idle),
        lull=_least(one.lull, other.lull),
        estimation=one.estimation or other.estimation,
    )


def _least(one: Duration | None, other: Duration | None) -> Duration | None:
    return min((length for length in (one, other) if length is not None), default=None)


def _stated(parts: tuple[Part, ...], units: Units) -> PerSource[Duration]:
    """How long rows are under way: the least that somebody stated."""
    stated = [part.latency.map(units.clock) for part in parts if isinstance(part, Latency)]
    found: PerSource[Duration] = stated[0] if stated else PerSource(0)
    for other in stated[1:]:
        found = found.with_other(other, min)
    return found


def _positive(length: Length) -> Length:
    if not as_duration(length, calendar=not isinstance(length, int)):
        raise BadDuration(message("an assumption about silence needs a length above zero", {"got": repr(length)}))
    return length
