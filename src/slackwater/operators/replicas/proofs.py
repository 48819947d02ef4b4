"""What arrivals prove of replicas by bounds: how far one that sends is complete, and what none can send any more.

A heartbeat says that a source sends nothing older any more. A replica that is dead does not either, and yet it has not
sent all there is. So its heartbeat counts in two ways, and only these:

    complete   When a row of a replica arrives, it is alive, and all that it had to send up to the heartbeat which it
               had before has come: it is complete up to there. What it guarantees of its own order counts with the row
               itself. A row at or behind the heartbeat breaks a bound, and proves nothing.
    nobody     What lies before the least heartbeat of all replicas nobody can send any more, dead or alive.

In silence no replica becomes complete; that nobody can send more, silence can show. So what is assumed of silence
(`idle`, `lull`) is left out where replicas are found complete, and by the clock a row only shows that its replica was
alive when it was sent, which may be a latency ago. Where bounds have any of these there are two generators.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, for the heartbeats.

Invariant: both generators have the same places for the same replicas.
Cost: that of the generators, and O(replicas with rows) for each tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from slackwater.operators.heartbeats.generator import HeartbeatGenerator, complete_before_of
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator, HeartbeatsState
from slackwater.policies.bound_rules import Pair, Rule
from slackwater.policies.per_source import PerSource
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.operators.heartbeats.heartbeats import Arrivals, HeartbeatSettings
    from slackwater.operators.heartbeats.tables import HeartbeatState
    from slackwater.operators.replicas.replica_names import ReplicaName
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.instants import Duration, Instant

_NO_ROWS: Times = np.empty(0, dtype=np.int64)


class Proof(NamedTuple):
    """Up to where a replica is complete, and the number of the rule that shows it."""

    complete_before: Instant
    rule: int


class Own(NamedTuple):
    """What is known of the order of a replica's own rows, as they arrive."""

    behind: Duration
    """How far a row may be behind those before it; -1 if each is newer than all before it."""

    rule: int


def with_patience(rules: Rules, patience: Duration, words: str) -> Rules:
    """The same rules, and a patience: each replica's rows are no further behind those before them, as they arrive.

    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> rules = Bounds.disorder(2, latency=9).rules(Units(calendar=False, clock_calendar=False))
    >>> own_order(with_patience(rules, 5, "patience 5"), "blue")
    Own(behind=5, rule=1)
    """
    own = Rule(words, PerSource(0), PerSource(Pair(patience + 1)), own=True, as_arrived=True)
    return replace(rules, rules=(*rules.rules, own))


def own_order(rules: Rules, name: SourceName) -> Own:
    """The strictest bound on the own rows of a replica that holds as soon as a row arrives; the patience is among them.

    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> own_order((Bounds.patience(9) & Bounds.disorder(2)).rules(Units(calendar=False)), "blue")
    Own(behind=2, rule=1)
    """
    found = []
    for number, rule in enumerate(rules.rules):
        pair = rule.between(name, name)
        latency = 0 if rule.as_arrived else rules.latency[name]
        if pair is not None and not pair.rows and not pair.wait + latency:
            found.append(Own(pair.delta - 1, number))
    return min(found)


def without_assumptions(rules: Rules) -> Rules:
    """The same rules without what is assumed of silence; by the clock a replica was alive a latency ago.

    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> bounds = Bounds.disorder("1s", latency="2s") & Bounds.delay("5s") & Bounds.idle("1m")
    >>> proven = without_assumptions(bounds.rules(Units(calendar=True)))
    >>> proven.idle, proven.delay["blue"]
    (None, 7000000)
    """
    latency: PerSource[Duration | None] = rules.latency.map(lambda length: length)
    both = any(rules.latency.values) and any(delay is not None for delay in rules.delay.values)
    delay = rules.delay.with_other(latency, _sum) if both else rules.delay
    return replace(rules, idle=None, lull=None, delay=delay)


def _sum(delay: Duration | None, latency: Duration | None) -> Duration | None:
    return None if delay is None else delay + (latency or 0)


@dataclass(frozen=True)
class ProofsState:
    """What is remembered of arrivals; the second generator only where there is one."""

    beats: HeartbeatsState
    proven: HeartbeatState | None


class ReplicaProofs:
    """Follows the arrivals of replicas, tick by tick.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at")
    >>> rules = (Bounds.disorder(2) & Bounds.uniform(5)).rules(Units(calendar=False))
    >>> proofs = ReplicaProofs(schema, HeartbeatSettings(rules, "who", None, 1, None))
    >>> rows = EventBatch.inserts(pa.record_batch({"who": ["blue", "green"]}), start=[20, 10])
    >>> proofs.follow(proofs.arrivals_of(rows))
    >>> blue, green = (proofs.beats.key(name) for name in ("blue", "green"))
    >>> {name: proof.complete_before for name, proof in proofs.proven({blue: 20, green: 10}).items()} == {
    ...     blue: 18,
    ...     green: 8,
    ... }
    True
    >>> proofs.end_tick(), proofs.nobody_before
    (None, 15)
    """

    __slots__ = ("_named", "_own", "_proven", "_rules", "beats")

    def __init__(
        self,
        schema: EventSchema,
        settings: HeartbeatSettings,
        step: str = "merge_replicas",
        resume: ProofsState | None = None,
    ) -> None:
        self.beats = HeartbeatsOperator(schema, settings, step, None if resume is None else resume.beats)
        self._rules = settings.rules
        proven = without_assumptions(settings.rules)
        self._proven = self.beats.generator
        if proven != settings.rules:
            state = None if resume is None else resume.proven
            self._proven = HeartbeatGenerator(proven, settings.grid, state, self.beats.key)
        self._named = {self.beats.key(name): name for name in settings.rules.named}
        self._own: dict[ReplicaName, Own] = {}

    def own(self, name: ReplicaName) -> Own:
        """What is known of the order of a replica's own rows."""
        found = self._own.get(name)
        if found is None:
            found = self._own[name] = own_order(self._rules, self._named.get(name, _NOBODY))
        return found

    @property
    def _generators(self) -> tuple[HeartbeatGenerator, ...]:
        both = self.beats.generator, self._proven
        return both[: 1 + (both[0] is not both[1])]

    @property
    def tick(self) -> int:
        """The last tick in which rows came."""
        return self.beats.generator.tick

    # ---- arrivals ---------------------------------------------------------------------------------------------------

    def arrivals_of(self, rows: EventBatch) -> Arrivals:
        """Who sent some rows, and in which ticks, which do not fall."""
        found = self.beats.arrivals_of(rows)
        return found._replace(ticks=np.maximum(np.maximum.accumulate(found.ticks), self.tick))

    def follow(self, arrived: Arrivals) -> None:
        """Take in rows of one tick; what the ticks before it prove counts from now on."""
        for generator in self._in_step():
            if self.by_clock:
                generator.begin(int(arrived.ticks[0]))
            generator.follow(arrived.ticks, arrived.sources, arrived.rows.start, closes=False)

    def begin_statistics(self, arrived: ArrivalStatistics) -> None:
        """Learn who has rows in a micro-batch, and when it came."""
        self.beats.on_tick(arrived.now)
        self.beats.generator.places_of(arrived.names)
        self._in_step()

    def follow_statistics(self, arrived: ArrivalStatistics, here: Iterable[EventBatch]) -> None:
        """Take in a micro-batch, an instant: what is known of all its rows, and those that are here."""
        groups, generator = arrived.groups.copy(), self.beats.generator
        if not groups.shape[1]:
            return
        groups[0] = generator.places_of(arrived.names)[groups[0]]
        groups[1] = max(arrived.now // self.beats.grid, generator.tick + 1)
        taken = [(self.beats.sources_of(rows), rows.start) for rows in here if rows.rows]
        sources, times = (np.concatenate([_NO_ROWS, *(one[place] for one in taken)]) for place in (0, 1))
        for one in self._in_step():
            one.begin(int(groups[1, 0]))
            one.follow_statistics(groups, np.full(len(times), groups[1, 0]), sources, times, closes=True)

    def _in_step(self) -> Sequence[HeartbeatGenerator]:
        """The generators, which know the same replicas."""
        for other in self._generators[1:]:
            other.places_of(self.beats.generator.names[len(other.names) :])
        return self._generators

    def end_tick(self) -> None:
        """Let the last tick be over: what its rows prove counts."""
        self.advance(self.tick)

    def advance(self, tick: int) -> None:
        """Let the clock go on to the end of a tick, without rows."""
        for generator in self._generators:
            generator.advance(tick)

    # ---- what follows -----------------------------------------------------------------------------------------------

    def proven(self, newest: dict[ReplicaName, Instant]) -> dict[ReplicaName, Proof]:
        """How far replicas are complete that have sent rows in the last tick, by the greatest time that each has sent.

        To be asked before the tick is over, with the newest of its rows; the times are those of the tick alone.
        """
        places = self._proven.places_of(list(newest))
        return {
            name: self._proof(name, place, time)
            for (name, time), place in zip(newest.items(), places.tolist(), strict=True)
        }

    def _proof(self, name: ReplicaName, place: int, newest: Instant) -> Proof:
        before, own = self._proven.binding_of(place), self.own(name)
        by_own = Proof(min(within_int64(newest - own.behind), FOREVER - 1), own.rule)
        if before.heartbeat == BEGINNING or newest <= before.heartbeat:
            return by_own
        by_others = Proof(int(complete_before_of(np.array([before.heartbeat]))[0]), before.rule)
        return max(by_own, by_others, key=lambda proof: proof.complete_before)

    @property
    def nobody_before(self) -> Instant:
        """Before which time no replica can send anything any more; BEGINNING where nothing is known."""
        return self.beats.generator.complete_before

    def cannot_send_before(self, name: ReplicaName) -> Instant:
        """Before which time a replica can send nothing any more."""
        generator = self.beats.generator
        place = int(generator.places_of([name])[0])
        return int(complete_before_of(np.array([generator.binding_of(place).heartbeat]))[0])

    @property
    def by_clock(self) -> bool:
        """Whether rows arrive when the clock says, and not a column."""
        return self.beats.by_clock

    def snapshot(self) -> ProofsState:
        """All that is remembered."""
        proven = None if self._proven is self.beats.generator else self._proven.snapshot()
        return ProofsState(self.beats.snapshot(), proven)

    def check(self) -> None:
        """Assert the invariants."""
        names = self.beats.generator.names
        for generator in self._generators:
            generator.check()
            assert generator.names == names[: len(generator.names)], (generator.names, names)


_NOBODY: Final = object()
"""A name that nobody gave: what holds for all others holds for it."""
