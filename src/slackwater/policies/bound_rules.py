"""Bounds in the units of one stream: rules that say what a row of one source guarantees of later rows of another.

A rule holds from its senders to its receivers. A row of sender i at time t guarantees that later rows of receiver j are
newer than t - (ahead_i + delta_j): at once, after a while by the clock (`wait`), or after so many further rows of j.
An own rule is about a source and its own rows. Values that depend on the source alone are stored as such, so that n
sources take n places, and a matrix only has n x n where somebody wrote one.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 2, 3.1 and 3.3.

The paper's delta is strict ("newer than t - delta"); users write what is still allowed ("at most 5s behind"), which is
one unit less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.policies.per_source import PerSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.policies.estimation import Estimation
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.instants import Duration

NOBODY: PerSource[Duration | None] = PerSource(None)
"""No source at all."""


@dataclass(frozen=True)
class Pair:
    """What one row guarantees: later rows are newer than its time less `delta`, from a while after it on."""

    delta: Duration
    wait: Duration = 0
    rows: int = 0
    """How many further rows of the receiver must have come; with 0 the wait alone counts."""

    @property
    def holds_in_silence(self) -> bool:
        """Whether it comes to hold though no row comes any more."""
        return self.rows == 0


@dataclass(frozen=True)
class Rule:
    """What rows of some sources guarantee of the rows of some sources."""

    words: str
    """What it says, for `why()` and explain()."""

    ahead: PerSource[Duration | None]
    """What a sender adds to the delta; None for who is no sender."""

    pair: PerSource[Pair | None]
    """What it guarantees of a receiver; None for who is none."""

    own: bool = False
    """Whether it is about each source and its own rows."""

    and_own: bool = True
    """Where it is about others: whether it may be applied to a source's own rows, too, since own rules say more."""

    estimated: bool = False
    """Whether its delta is learnt from the rows; what the pair has is where that starts."""

    as_arrived: bool = False
    """Whether it is about rows as they arrive, however long they were under way."""

    def between(self, sender: SourceName, receiver: SourceName) -> Pair | None:
        """What a row of one source guarantees of another; None for nothing."""
        if self.own and sender != receiver:
            return None
        if not self.own and not self.and_own and sender == receiver:
            return None
        ahead, pair = self.ahead[sender], self.pair[receiver]
        if ahead is None or pair is None:
            return None
        return Pair(pair.delta + ahead, pair.wait, pair.rows)


@dataclass(frozen=True)
class Rules:
    """All that is known of the sources of a stream, in its units and those of its clock. Declared rules come first."""

    rules: tuple[Rule, ...] = ()
    latency: PerSource[Duration] = PerSource(0)  # noqa: RUF009 - frozen
    """How long rows may be under way."""

    delay: PerSource[Duration | None] = NOBODY
    """How far rows may be behind the clock when they arrive."""

    idle: Duration | None = None
    """After how long without rows a source is assumed to have none."""

    lull: Duration | None = None
    """After how long without any rows all sources are assumed to have none older than the newest."""

    expected: tuple[SourceName, ...] | None = None
    """All sources there are, if the user named them all."""

    fleets: tuple[tuple[SourceName, SourceName], ...] = ()
    """Which source belongs to which fleet."""

    as_seen: bool = False
    """Whether sources are waited for from their first row on only, though they are named."""

    estimation: Estimation | None = None
    """How estimated rules are learnt, if there are any."""

    @property
    def declared(self) -> tuple[Rule, ...]:
        """The rules that somebody stated."""
        return tuple(rule for rule in self.rules if not rule.estimated)

    @property
    def comes_down_from(self) -> Duration | None:
        """The greatest length by which all sources move whatever is learnt: a patience, a delay by the clock.

        None if there is none that holds for all sources.
        """
        stated = replace(self, rules=self.declared, idle=None, lull=None)
        crossing = [rule.pair for rule in stated.rules if not rule.own]
        for_others = self.delay.default is not None or any(
            pairs.default is not None and pairs.default.holds_in_silence for pairs in crossing
        )
        if not for_others and (self.expected is None or stated.stuck()):
            return None
        lengths = [pair.delta for pairs in crossing for pair in pairs.values if pair is not None]
        return max([*lengths, *(delay for delay in self.delay.values if delay is not None)], default=None)

    @cached_property
    def named(self) -> tuple[SourceName, ...]:
        """The sources that anybody named: waited for from the beginning, unless they are `as_seen`."""
        if self.expected is not None:
            return self.expected
        named = chain(
            *(chain(rule.ahead.names, rule.pair.names) for rule in self.rules), self.latency.names, self.delay.names
        )
        return tuple(dict.fromkeys(named))

    @property
    def needs_clock(self) -> bool:
        """Whether it must be known when rows arrive."""
        waits = any(pair is not None and pair.wait for rule in self.rules for pair in rule.pair.values)
        delays = any(delay is not None for delay in self.delay.values)
        learnt = self.estimation is not None and (self.estimation.clock or self.estimation.by_time)
        assumed = self.idle is not None or self.lull is not None
        return waits or delays or any(self.latency.values) or assumed or learnt

    def waits_for(self, name: SourceName) -> bool:
        """Whether others wait for a source, once it has come: for all that somebody named, or knows something of.

        Of what nothing is known nothing would ever be complete.
        """
        return name in self._names or self.knows_others

    @cached_property
    def _names(self) -> frozenset[SourceName]:
        return frozenset(self.named)

    @property
    def knows_others(self) -> bool:
        """Whether anything holds for sources that nobody named."""
        silence = self.idle is not None or self.lull is not None
        by_default = any(rule.pair.default is not None for rule in self.rules)
        return self.expected is None and (silence or by_default or self.delay.default is not None)

    @property
    def covers_unseen(self) -> bool:
        """Whether something is guaranteed of a source that has not sent a row and that nobody named."""
        if self.expected is not None or self.as_seen:
            return False
        crossing = (rule for rule in self.rules if not rule.own)
        return self.delay.default is not None or any(rule.pair.default is not None for rule in crossing)

    @property
    def newcomers_are_free(self) -> bool:
        """Whether a source that is waited for may begin anywhere: nothing was known of it before its first row."""
        return self.as_seen or (self.knows_others and not self.covers_unseen)

    def pairs(self, sender: SourceName, receiver: SourceName) -> list[Pair]:
        """All that a row of one source guarantees of another: an entry of the paper's matrix."""
        found = (rule.between(sender, receiver) for rule in self.rules)
        return [pair for pair in found if pair is not None]

    @cached_property
    def classes(self) -> tuple[SourceName, ...]:
        """One or two sources of each kind, so that every kind of entry of the matrix is among them.

        Sources are of one kind when all values are the same for both.
        """
        kinds: dict[object, list[SourceName]] = {}
        for name in self.named:
            kind = (
                tuple((rule.ahead[name], rule.pair[name]) for rule in self.rules),
                self.latency[name],
                self.delay[name],
            )
            kinds.setdefault(kind, []).append(name)
        anybody = _Anybody("any other source" if kinds else "any source")
        others = [anybody, _Anybody("another source")] if self.knows_others else []
        return tuple(chain(*(some[:2] for some in kinds.values()), others))

    def entries(self) -> Iterator[tuple[SourceName, SourceName, list[Pair]]]:
        """One entry of each kind: sender, receiver, and what is guaranteed."""
        for sender in self.classes:
            for receiver in self.classes:
                yield sender, receiver, self.pairs(sender, receiver)

    def stuck(self) -> list[SourceName]:
        """Sources of which nothing is ever guaranteed, so that nothing is ever complete.

        Sources that have not come and are not covered are not waited for.
        """
        if self.idle is not None or self.lull is not None:
            return []
        waited_for = [name for name in self.classes if not isinstance(name, _Anybody)]
        return [
            name
            for name in waited_for
            if self.delay[name] is None and not any(self.pairs(sender, name) for sender in self.classes)
        ]

    def timeout_needed(self) -> tuple[SourceName, SourceName] | None:
        """Two sources for which the last rows before all fall silent are held; None if the rules see to it.

        Theorem 3.3, corrected: pairs that wait for rows do not count, for in silence none come.
        """
        if self.idle is not None or self.lull is not None:
            return None
        declared = replace(self, rules=self.declared)  # no estimate is a guarantee
        for sender, receiver, _ in self.entries():
            pairs = declared.pairs(sender, receiver)
            least = min((pair.delta for pair in pairs if pair.holds_in_silence), default=None)
            if least != 0 and self.delay[receiver] is None:
                return sender, receiver
        return None


@dataclass(frozen=True)
class _Anybody:
    """A source that nobody named."""

    words: str

    def __str__(self) -> str:
        return self.words


def in_fleets(rules: Rules, fleets: dict[SourceName, tuple[SourceName, ...]]) -> Rules:
    """The rules for fleets, each of which counts as one source: what holds for all members, to the weakest.

    Section 5.2: for every pair of fleets, at every wait, the weakest of the guarantees between their members. Those
    that count rows do not survive it. Estimates are made of fleets as of sources.
    """
    learnt = tuple(rule for rule in rules.rules if rule.estimated)
    # A patience holds for whoever sends, and latency is no part of it: it holds for fleets as it is.
    patient = tuple(rule for rule in rules.declared if rule.as_arrived)
    if any(rule.ahead.names for rule in learnt):
        hint = "leave pairs= out: each fleet is compared with itself and with the furthest of all"
        raise PlanError(message("estimates of pairs of sources know no fleets", {}, hint))
    rules = replace(rules, rules=tuple(rule for rule in rules.declared if not rule.as_arrived))
    made: list[Rule] = []
    for sender, members in fleets.items():
        for receiver, others in fleets.items():
            entries = [rules.pairs(one, other) for one in members for other in others]
            for pair in weakest(entries):
                here = PerSource[Pair | None](None, ((receiver, pair),))
                own = sender == receiver
                words = f"what holds between all of {sender} and all of {receiver}"
                made.append(Rule(words, PerSource(None, ((sender, 0),)), here, own=own, and_own=False))
    latency = tuple((fleet, max(rules.latency[one] for one in members)) for fleet, members in fleets.items())
    return Rules(
        (*made, *patient, *learnt),
        PerSource(0, latency),
        PerSource(None, tuple((fleet, _most(rules.delay[one] for one in some)) for fleet, some in fleets.items())),
        rules.idle,
        rules.lull,
        tuple(fleets),
        tuple((member, fleet) for fleet, members in fleets.items() for member in members),
        rules.as_seen,
        rules.estimation,
    )


def weakest(entries: Iterable[list[Pair]]) -> list[Pair]:
    """What is guaranteed by every one of some entries: at each wait the greatest of their least deltas.

    >>> [(pair.wait, pair.delta) for pair in weakest([[Pair(2, 1), Pair(1, 3)], [Pair(0, 2)]])]
    [(2, 2), (3, 1)]
    """
    by_time = [sorted((pair.wait, pair.delta) for pair in pairs if pair.holds_in_silence) for pairs in entries]
    if not by_time or not all(by_time):
        return []
    begins = max(pairs[0][0] for pairs in by_time)
    found: list[Pair] = []
    for wait in sorted({wait for pairs in by_time for wait, _ in pairs if wait >= begins}):
        delta = max(min(delta for at, delta in pairs if at <= wait) for pairs in by_time)
        if not found or delta < found[-1].delta:
            found.append(Pair(delta, wait))
    return found


def _most(delays: Iterable[Duration | None]) -> Duration | None:
    known = list(delays)
    return None if None in known else max(delay for delay in known if delay is not None)
