"""Merges replicas that come in one stream, distinguished by a column, as far as bounds prove what each has sent.

It is the merge by column (`by_column.py`) with three changes. Progress is made tick by tick: rows of one tick are
simultaneous, whoever sent them. A replica that has sent rows is complete as far as its patience or bounds show,
whichever is further. And what no replica can send any more goes out, whoever leads (`proofs.py` has the reasons):

    end of a tick   each replica with rows in it is punctuated by its patience, and by what is proven of it
                    a replica takes over for which the leaders have been silent for two patiences, by its own rows
                    all goes out that starts before the least heartbeat of all replicas, as often as anybody has it

The last one is also done in silence, when the clock has moved a heartbeat. Where it brings the output past the time
from which on a replica has everything, that one leads from then on: it takes over by proof. What the leaders had not
sent by then is missing, as after a takeover by silence.

Invariants: those of the merge by column; no row goes out that starts before the output's last punctuation.
Cost: that of the merge by column for each tick, and that of the heartbeats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slackwater.columns.inline_punctuations import split_punctuations
from slackwater.events.kinds import Kind
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.operators.heartbeats.heartbeats import Arrivals, HeartbeatsState
from slackwater.operators.heartbeats.tables import HeartbeatState
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.proofs import ProofsState, ReplicaProofs
from slackwater.operators.replicas.replica_names import Span
from slackwater.operators.replicas.takeover import leaders_among
from slackwater.operators.why import SHOWN_ORIGINS, Grounds, OriginWhy, Why
from slackwater.progress.instants import BEGINNING
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    from slackwater.operators.replicas.by_column import Spans
    from slackwater.operators.replicas.by_column_state import ByColumnState, StandingByColumn
    from slackwater.operators.replicas.proofs import Proof
    from slackwater.operators.replicas.replica_names import ReplicaName
    from slackwater.operators.why import BrokenBounds
    from slackwater.policies.late import Late
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True)
class ByBoundsState:
    """What is remembered: the replicas and the merge, the arrivals, and the tick that is not over."""

    replicas: ByColumnState
    proofs: ProofsState
    released_before: Instant
    open_tick: tuple[tuple[ReplicaName, Instant, Instant, Instant], ...]
    """The replicas that have sent rows in the last tick, and the spans of these rows; none where it is over."""

    rules: tuple[int, ...]
    """What each replica was last found complete by, in order of their ports."""

    @property
    def high_water(self) -> Instant:
        """The greatest time of a row of any replica."""
        return self.replicas.high_water


class MergeByBoundsOperator(MergeByColumnOperator, FollowsArrivals):
    """Emits once what replicas send; each is complete as far as its rows and its bounds show."""

    __slots__ = ("_expected", "_open_tick", "_proofs", "_proven", "_released_before", "_rules")
    state_types = (*MergeByColumnOperator.state_types, ByBoundsState, ProofsState, HeartbeatsState, HeartbeatState)
    ticks = True

    def __init__(
        self,
        schema: EventSchema,
        by: str,
        patience: Duration,
        late: Late,
        beats: HeartbeatSettings,
        *,
        keyed: bool = False,
        diverts: bool = False,
        step: str = "merge_replicas",
        resume: ByBoundsState | None = None,
    ) -> None:
        super().__init__(
            schema,
            by,
            patience,
            DRIVEN_BY_RUNNER,
            late,
            keyed=keyed,
            diverts=diverts,
            final=True,
            compared=compared_schema(schema, beats.arrived),
            step=step,
            resume=None if resume is None else resume.replicas,
        )
        self._proofs = ReplicaProofs(schema, beats, step, None if resume is None else resume.proofs)
        self._released_before = BEGINNING if resume is None else resume.released_before
        self._open_tick = {} if resume is None else {name: Span(*span) for name, *span in resume.open_tick}
        self._rules = [] if resume is None else list(resume.rules)
        self._proven: Mapping[ReplicaName, Proof] = {}
        self._expected: Spans = {}

    # ---- rows ------------------------------------------------------------------------------------------------------

    def on_tick(self, now: Instant) -> Emission:
        """Learn the processing time, at which the next batch arrives if no column says otherwise."""
        return self._proofs.beats.on_tick(now)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take in rows tick by tick, the late ones of each replica apart, and release what is complete."""
        rows, _, _ = split_punctuations(batch)
        if not rows.rows:
            return super().on_batch(port, batch)
        emissions = []
        for piece, arrived in self._in_ticks(batch, self._proofs.arrivals_of(rows)):
            if int(arrived.ticks[0]) > self._proofs.tick:
                emissions.append(self._end_tick())
            self._proofs.follow(arrived)
            # What the ticks before this one prove holds when its rows come.
            emissions.append(self._release_before(self._proofs.nobody_before))
            self._note_spans(self._names.spans(arrived.rows))
            emissions.append(super().on_batch(port, piece))
        if self._proofs.by_clock:
            emissions.append(self._end_tick())
            self._proofs.end_tick()
            emissions.append(self._release_before(self._proofs.nobody_before))
        return Emission.together(emissions)

    def expect_rows_of(self, came: Spans) -> None:
        """Learn which replicas have rows in the next micro-batch, and of which times, be they here or elsewhere."""
        self._expected = came

    def on_arrivals(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch]) -> Iterator[Emission]:
        """Take in a micro-batch, an instant: what is known of all its rows, and those that are here, in chunks."""
        came, self._expected = self._expected, {}
        self._proofs.begin_statistics(arrived)
        yield self.register_replicas(came)
        here = []
        for chunk in chunks:
            here.append(chunk)
            yield super().on_batch(0, chunk)
        self._note_spans(came)
        # Before its own rows count, as in one process: what is proven holds for rows that come after.
        emission = self._end_tick()
        self._proofs.follow_statistics(arrived, here)
        yield emission
        yield self._release_before(self._proofs.nobody_before)

    def register_replicas(self, came: Spans) -> Emission:
        """Learn which replicas have rows in a tick; until more is known each goes by its own order."""
        emission = super().register_replicas(came)
        self._rules += [self._proofs.own(name).rule for name in list(self._ports)[len(self._rules) :]]
        return emission

    def _in_ticks(self, batch: EventBatch, arrived: Arrivals) -> Iterator[tuple[EventBatch, Arrivals]]:
        """Cut a batch into ticks; punctuations stay with the rows before them."""
        rows = arrived.rows
        edges = [0, *(np.flatnonzero(arrived.ticks[1:] != arrived.ticks[:-1]) + 1).tolist(), rows.rows]
        if len(edges) == 2:  # noqa: PLR2004 - the first and the last
            yield batch, arrived
            return
        places = np.append(np.flatnonzero(batch.kinds() != Kind.PUNCTUATE), len(batch))
        places[0] = 0
        for first, stop in pairwise(edges):
            of_tick = Arrivals(rows.slice(first, stop), arrived.ticks[first:stop], arrived.sources[first:stop])
            yield batch.slice(int(places[first]), int(places[stop])), of_tick

    def _note_spans(self, came: Spans) -> None:
        for name, span in came.items():
            before = self._open_tick.get(name)
            self._open_tick[name] = span if before is None else _continued(before, span)

    def _end_tick(self) -> Emission:
        """Punctuate the replicas that have sent rows in the last tick, by patience and by proof."""
        came = {name: span for name, span in self._open_tick.items() if span.has_times}
        self._open_tick = {}
        if not came:
            return NOTHING
        self._proven = self._proofs.proven({name: span.newest for name, span in came.items()})
        return self.advance_high_water(came)

    def _advance_by_proof(self, name: ReplicaName, port: Port) -> Emission:
        proof, punctuator = self._proven[name], self._punctuators[port]
        emission = self._merged(port, punctuator.punctuate(proof.complete_before))
        state = punctuator.snapshot()
        if proof.complete_before >= max(state.complete_before, state.punctuated_high_water - self._patience):
            self._rules[port] = proof.rule
        return emission

    def _disorder_of(self, name: ReplicaName) -> Duration:
        return self._proofs.own(name).behind

    # ---- what nobody can send any more -----------------------------------------------------------------------------

    @property
    def released_before(self) -> Instant:
        """Up to where all that anybody has went out, because nobody can send more."""
        return self._released_before

    def _release_before(self, bound: Instant) -> Emission:
        """Let all go that starts before a bound, as nobody can send more; who has everything from there on leads."""
        if bound <= self._released_before:
            return NOTHING
        led = self.leaders()
        self._released_before = bound
        emission = self._shown(self._merge.release_before(bound))
        complete_from = [one.complete_from for one in self._merge.replicas]
        overtaken = set(leaders_among(complete_from, self._complete_before_each()))
        for port in self.leaders() - led - overtaken:
            self._gaps[port] = complete_from[port]
        return emission

    def wakes_at(self) -> Instant | None:
        """When the clock will have shown that nobody can send more of something; None if it shows nothing."""
        return self._proofs.beats.wakes_at()

    def on_wake(self, now: Instant) -> Emission:
        """Release what silence until now lets go."""
        tick = now // self._proofs.beats.grid
        ended = self._end_tick() if tick > self._proofs.tick else NOTHING  # else rows of it may still come
        self._proofs.advance(tick)
        return Emission.together([ended, self._release_before(self._proofs.nobody_before)])

    @property
    def by_clock(self) -> bool:
        """Whether rows arrive when the clock says, and not a column: only then silence can be seen."""
        return self._proofs.by_clock

    def look_again_at(self, now: Instant, pause: Duration, horizon: Instant) -> Instant | None:
        """When to look at the clock again though nothing comes, after a pause or later; None if nothing moves."""
        generator = self._proofs.beats.generator
        past_newest = generator.complete_before <= horizon
        tick = generator.moves_next_at(pause, past_newest=past_newest) if self.by_clock else None
        return None if tick is None else max(within_int64(tick * self._proofs.beats.grid), now + pause)

    @property
    def takes_all_rows(self) -> bool:
        """Whether no row is taken out for being ahead of the clock: there is no such guard."""
        return True

    def newest(self) -> Instant:
        """The greatest time of all rows, wherever they are."""
        return self._proofs.beats.generator.newest

    # ---- looking at it ---------------------------------------------------------------------------------------------

    def standings(self) -> list[StandingByColumn]:
        """How each replica stands, in the order in which they appeared; and before which time it can send no more."""
        return [
            one._replace(cannot_send_before=self._proofs.cannot_send_before(name))
            for one, name in zip(super().standings(), self._ports, strict=True)
        ]

    def broken_bounds(self) -> int:
        """How many rows came at or behind the heartbeat of their own replica, late or not."""
        return self._proofs.beats.broken_bounds()

    def broken(self) -> dict[str, BrokenBounds]:
        """For each replica that broke bounds: how often, and which it was at last."""
        return self._proofs.beats.broken()

    def goes_on_at(self) -> Instant | None:
        """When silence moves the output; None while a leader is ahead, whom heartbeats must pass first."""
        return None if self._furthest_leader() is not None else self._proofs.beats.goes_on_at()

    def _furthest_leader(self) -> int | None:
        """The replica that leads the output further than heartbeats do; None if none does."""
        complete = self._complete_before_each()
        furthest = max(self.leaders(), key=lambda port: (complete[port], -port), default=None)
        return None if furthest is None or complete[furthest] <= self._released_before else furthest

    def why(self) -> Why | None:
        """Who leads the output, or before which time nobody can send more; and what each replica goes by."""
        beats, complete = self._proofs.beats, self._complete_before_each()
        why = beats.why()
        assert why is not None
        origins = tuple(
            OriginWhy(
                self._names.spelled(name),
                complete[port],
                self._merge.live_events(port),
                *(beats.ground(self._rules[port]) if complete[port] > BEGINNING else (Grounds.NOTHING, "")),
            )
            for name, port in self._ports.items()
        )
        furthest = self._furthest_leader()
        if furthest is not None:
            leader = origins[furthest]
            why = replace(why, source=None, sender=None, time=BEGINNING, arrived=None)
            why = replace(why, ground=leader.ground, rule=f"{leader.origin}, which leads: {leader.rule}")
        shown = sorted(origins, key=lambda one: (-one.complete_before, one.origin))[:SHOWN_ORIGINS]
        more = len(origins) - len(shown)
        return replace(why, complete_before=self.complete_before, origins=tuple(shown), more_origins=more)

    def snapshot(self) -> Any:
        """Return the replicas, the merge, and what is known of arrivals."""
        spans = tuple((name, *span) for name, span in self._open_tick.items())
        proofs = self._proofs.snapshot()
        return ByBoundsState(super().snapshot(), proofs, self._released_before, spans, tuple(self._rules))

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        self._proofs.check()
        assert self.complete_before >= self._released_before, (self.complete_before, self._released_before)


def compared_schema(schema: EventSchema, arrived: str | None) -> EventSchema:
    """What replicas have in common: not when their rows arrived."""
    if arrived is None:
        return schema
    payload = [field for field in schema.payload if field.name != arrived]
    return schema.with_payload(pa.schema(payload), [name for name in schema.columns if name != arrived])


def _continued(before: Span, after: Span) -> Span:
    """The span of rows of one tick that came in two pieces, one after the other."""
    return before.with_more(after)._replace(first=before.first) if before.has_times else after
