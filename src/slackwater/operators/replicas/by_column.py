"""Merges replicas that come in one stream, distinguished by a column; new ones may appear at any time.

Which rows of a replica are late is decided by its own rows alone: all before its own high water minus the patience is
complete, and a row behind a punctuation of its own replica is late. What is in time goes into one merge of LMerge's
cases R3 or R4, which takes replicas in any order and goes by whoever is furthest.

    rows ─ split by name ┬─ punctuate blue  ─┐
                         ├─ punctuate green ─┼─ merge ─ events, each once
                         └─ ...             ─┘

Replicas that are there before the first punctuation have everything, unless their own times show that they do not: one
that had everything would begin within a patience of the others. A replica that appears later may have sent rows before
that nobody here has seen; as its rows are no further apart than the patience, none of those is later than its first row
and a patience. From there on it has everything. Until the output is complete up to there its events count, and its
punctuations do not; unless those whose punctuations do have fallen silent: then it takes over (see `takeover.py`).
Where bounds say more of the order of a replica's own rows, that takes the place of the patience in both.

At the end everything that is held goes out, as often as the replica has it that has it most: what one replica has
sent is true, and nobody guarantees that there is no more.

Ends of events are part of what is compared, not times to wait for: an insert is final, so that it is known as soon as
its start is complete. Nor could a replica that appears later have what began before it appeared, and lasts.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections IV and V-B.

Invariant: a replica with a port has sent a row with a time; ports are given once and never taken back.
Cost: O(rows + replicas) for each batch, and what the merge costs. Nothing is forgotten about replicas: a name and six
numbers each, and a column in the nodes of the merge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from slackwater.columns.inline_punctuations import insert_punctuations, split_punctuations
from slackwater.errors import BadTime
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import no_rows
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_element
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER, PunctuateOperator, PunctuateState
from slackwater.operators.replicas.by_column_state import ByColumnState, StandingByColumn
from slackwater.operators.replicas.event_points import EventPoints
from slackwater.operators.replicas.most_copies import all_held, held_by_others
from slackwater.operators.replicas.multiset import MergeMultiset, MultisetState
from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames, Span
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.takeover import NOBODY, ReplicaRows, first_due, is_due, leaders_among
from slackwater.operators.stream_progress import insert_only
from slackwater.policies.agreement import Agreement
from slackwater.policies.cadence import Cadence, CadenceUnit
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.operators.replicas.overlap import Overlap
    from slackwater.operators.replicas.replica_names import Part
    from slackwater.operators.replicas.revised_replicas import RevisedState
    from slackwater.policies.late import Late
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant

_NO_PLACES: NDArray[np.int64] = np.empty(0, dtype=np.int64)

Spans: TypeAlias = "Mapping[ReplicaName, Span]"
"""The times of the rows that came from each replica."""


class MergeByColumnOperator(Operator[ByColumnState]):
    """Emits once what the replicas send whose names are in a column; the column itself is not emitted.

    >>> import pyarrow as pa
    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.policies.late import Late
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at")
    >>> merge = MergeByColumnOperator(schema, "who", 1, Cadence(CadenceUnit.BATCH, 1), Late.drop())
    >>> rows = EventBatch.inserts(pa.record_batch({"who": ["blue", "green", "blue", "blue"]}), start=[3, 3, 4, 6])
    >>> [batch.data().start.tolist() for batch in merge.on_batch(0, rows).batches]
    [[3]]
    """

    __slots__ = (
        "_advanced_elsewhere",
        "_advances_by_batch",
        "_alone_from",
        "_cadence",
        "_complete_before",
        "_earliest",
        "_gaps",
        "_late",
        "_merge",
        "_names",
        "_patience",
        "_points",
        "_ports",
        "_punctuators",
        "_schema",
        "_step",
        "_untimed",
    )
    state_types = (
        *(ByColumnState, PunctuateState),
        *(*MergeMultiset.state_types, *MergeRevisedWithKey.state_types),
    )

    def __init__(
        self,
        schema: EventSchema,
        by: str,
        patience: Duration,
        cadence: Cadence,
        late: Late,
        *,
        keyed: bool = False,
        diverts: bool = False,
        final: bool = False,
        compared: EventSchema | None = None,
        step: str = "merge_replicas",
        resume: ByColumnState | None = None,
    ) -> None:
        self._schema = schema
        self._patience = patience
        # The rows of all replicas come before the punctuations of any, as where the rows of a batch come in pieces.
        self._advances_by_batch = cadence.unit is CadenceUnit.BATCH
        self._cadence = DRIVEN_BY_RUNNER if self._advances_by_batch else cadence
        # Where the rows of a batch are simultaneous, it is known at its end who has sent rows, and not before.
        self._advanced_elsewhere = self._cadence is DRIVEN_BY_RUNNER
        self._late = late
        self._step = step
        self._names = ReplicaNames(schema, by, step)
        self._points = EventPoints(compared or schema, by, step, diverts=diverts)
        self._ports: dict[ReplicaName, Port] = {}
        self._punctuators: list[PunctuateOperator] = []
        self._alone_from: list[Instant] = []
        self._gaps: list[Instant] = []
        self._complete_before, self._earliest, self._untimed = BEGINNING, FOREVER, 0
        if resume is not None:
            self._ports = {name: port for port, name in enumerate(resume.names)}
            self._punctuators = [self._punctuator(state) for state in resume.punctuators]
            self._complete_before, self._earliest = resume.complete_before, resume.earliest
            self._untimed = resume.untimed
            self._alone_from, self._gaps = list(resume.alone_from), list(resume.gaps)
        state = None if resume is None else resume.merge
        self._merge = self._build_merge(state, keyed=keyed, diverts=diverts, final=final)
        self._merge.sample_overlap()

    def _build_merge(
        self, resume: RevisedState | MultisetState | None, *, keyed: bool, diverts: bool, final: bool
    ) -> MergeMultiset | MergeRevisedWithKey:
        none, where, agreement = no_rows(self._points.payload), f"step {self._step!r}", Agreement.frozen()
        if keyed:
            return MergeRevisedWithKey(0, none, where, resume, agreement, diverts=diverts, final=final)
        assert isinstance(resume, MultisetState | None)
        return MergeMultiset(0, none, where, resume, agreement, diverts=diverts, final=final)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Find the late rows of each replica, and merge what is in time; the furthest replica comes first."""
        assert insert_only(batch), "replicas distinguished by a column have no adjusts"
        if not len(batch):
            return NOTHING
        rows, places, punctuations = split_punctuations(batch)
        apart = self._names.split(rows)
        came = {part.name: Span.of(part.rows.start) for part in apart}
        emissions = [self.register_replicas(came)]
        leading, waiting = self._sides(apart)
        place = first_due(waiting.values(), leading, self._patience)
        if NOBODY < place < rows.rows - 1:
            at = int(np.flatnonzero(batch.kinds() != Kind.PUNCTUATE)[place]) + 1
            pieces = batch.slice(0, at), batch.slice(at, len(batch))
            return Emission.together([*emissions, *(self.on_batch(port, piece) for piece in pieces)])
        parts = {
            part.name: insert_punctuations(part.rows, np.searchsorted(part.numbers, places), punctuations)
            for part in apart
        }
        if len(punctuations):
            # What the stream guarantees, all of its replicas do.
            silent = insert_punctuations(self._nothing(), np.zeros(len(punctuations), dtype=np.int64), punctuations)
            parts = {**dict.fromkeys(self._ports, silent), **parts}
            self._complete_before = max(self._complete_before, int(punctuations[-1]))
        emissions += [self._take(name, parts[name]) for name in self._furthest_first(parts, came)]
        if self._advances_by_batch:
            emissions.append(self.advance_high_water(came))
        elif not self._advanced_elsewhere:
            self._note_active(leading, waiting)
            emissions.append(self._let_take_over())
        return Emission.together(emissions)

    def register_replicas(self, came: Spans) -> Emission:
        """Learn which replicas have rows in a batch, and of which times, before the first of its rows comes."""
        timed = {name: span for name, span in came.items() if span.has_times}
        if not timed:
            return NOTHING
        punctuated = self._has_punctuated()
        if not punctuated:
            self._earliest = min(self._earliest, *(span.least for span in timed.values()))
        emissions = []
        for name in sorted(timed.keys() - self._ports.keys()):
            port = self._ports[name] = len(self._punctuators)
            # No row that it sent before is further past its first: that one would be late itself. So one that has
            # everything begins no further past the first row of all.
            behind = self._disorder_of(name)
            from_the_beginning = not punctuated and timed[name].least - max(behind, 0) <= self._earliest
            appeared = min(timed[name].first + behind + 1, FOREVER - 1)
            self._merge.attach(port, BEGINNING if from_the_beginning else appeared)
            self._punctuators.append(self._punctuator())
            self._alone_from.append(BEGINNING)
            self._gaps.append(BEGINNING)
            if self._complete_before > BEGINNING:
                emissions.append(self._merged(port, self._punctuators[port].punctuate(self._complete_before)))
        return Emission.together(emissions)

    def advance_high_water(self, came: Spans) -> Emission:
        """Punctuate each replica as far as its rows up to the newest allow, be they here or elsewhere."""
        emissions = [self.register_replicas(came)]
        # Not the high water: where rows are partitioned to shards, each has seen other rows of this batch.
        before = [punctuator.snapshot().punctuated_high_water for punctuator in self._punctuators]
        leaders = self.leaders()
        timed = self._furthest_first([name for name, span in came.items() if span.has_times], came)
        for name in timed:
            port = self._ports[name]
            emissions.append(self._merged(port, self._punctuators[port].advance_high_water(came[name].newest)))
            emissions.append(self._advance_by_proof(name, port))
        alone = leaders.isdisjoint(self._ports[name] for name in timed)
        for name in timed if alone else ():
            port = self._ports[name]
            if self._alone_from[port] == BEGINNING:
                self._alone_from[port] = max(before[port], came[name].first)
        if not alone:
            self._alone_from = [BEGINNING] * len(self._punctuators)
        return Emission.together([*emissions, self._let_take_over()])

    def _disorder_of(self, name: ReplicaName) -> Duration:  # noqa: ARG002 - all are as patient
        """How far rows of a replica may be behind those that it sent before."""
        return self._patience

    def _advance_by_proof(self, name: ReplicaName, port: Port) -> Emission:  # noqa: ARG002 - for who knows more
        """Punctuate a replica that has sent rows as far as more than its patience shows that it is complete."""
        return NOTHING

    # ---- who leads -------------------------------------------------------------------------------------------------

    def leaders(self) -> frozenset[Port]:
        """The replicas whose punctuations count: the same in every shard, whichever events it has."""
        complete_from = [one.complete_from for one in self._merge.replicas]
        return frozenset(leaders_among(complete_from, self._complete_before_each(), self.released_before))

    @property
    def released_before(self) -> Instant:
        """Up to where all went out that anybody has, because nobody can send more; BEGINNING where nobody knows."""
        return BEGINNING

    def standings(self) -> list[StandingByColumn]:
        """How each replica stands, in the order in which they appeared."""
        leaders, complete, replicas = self.leaders(), self._complete_before_each(), self._merge.replicas
        alone_from = [
            BEGINNING if port in leaders or alone == BEGINNING else min(alone + 2 * self._patience, FOREVER)
            for port, alone in enumerate(self._alone_from)
        ]
        return [
            StandingByColumn(
                self._names.spelled(name),
                port in leaders,
                replicas[port].complete_from,
                complete[port],
                alone_from[port],
                self._gaps[port],
            )
            for name, port in self._ports.items()
        ]

    @property
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""
        return self._merge.complete_before

    def _complete_before_each(self) -> list[Instant]:
        """How far each replica is complete."""
        states = [punctuator.snapshot() for punctuator in self._punctuators]
        return [max(one.complete_before, one.punctuated_high_water - self._patience) for one in states]

    def _sides(self, apart: Sequence[Part]) -> tuple[NDArray[np.int64], dict[Port, ReplicaRows]]:
        """Where in a batch rows of leaders are, and the rows of the others; none where nobody waits to lead.

        Nor where the rows of a batch are simultaneous: then `advance_high_water` notes who has sent rows.
        """
        leaders = self.leaders()
        if self._advanced_elsewhere or len(leaders) == len(self._punctuators):
            return _NO_PLACES, {}
        leading, waiting = [_NO_PLACES], {}
        for part in apart:
            timed = part.rows.start != UNTIMED
            port = self._ports.get(part.name)
            if port in leaders:
                leading.append(part.numbers[timed])
            elif port is not None:
                known = self._punctuators[port].snapshot().high_water, self._alone_from[port]
                waiting[port] = ReplicaRows(part.numbers[timed], part.rows.start[timed], *known)
        return np.sort(np.concatenate(leading)), waiting

    def _note_active(self, leading: NDArray[np.int64], waiting: Mapping[Port, ReplicaRows]) -> None:
        """Remember how far each replica was when it first came alone, without the leaders."""
        after = {port: rows.alone_from_after(leading) for port, rows in waiting.items()}
        if len(leading):
            self._alone_from = [BEGINNING] * len(self._punctuators)
        for port, alone_from in after.items():
            self._alone_from[port] = alone_from

    def _let_take_over(self) -> Emission:
        """Let a replica lead for which the leaders have been silent too long: that which has everything earliest."""
        leaders = self.leaders()
        due = [
            port
            for port, high_water in enumerate(self._high_waters())
            if port not in leaders and is_due(self._alone_from[port], high_water, self._patience)
        ]
        if not due:
            return NOTHING
        replicas = self._merge.replicas
        port = min(due, key=lambda port: (replicas[port].complete_from, port))
        self._gaps[port] = replicas[port].complete_from
        others = held_by_others(self._merge.snapshot(), self._points.payload, port, self._gaps[port])
        self._alone_from = [BEGINNING] * len(self._punctuators)
        return self._shown(self._merge.take_over(port, others))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release all that is held: every event that some replica has, and nobody has contradicted."""
        held = [all_held(self._merge.snapshot(), self._points.payload)] if self._punctuators else []
        self._merge.forget_held()
        for replica in range(len(self._punctuators)):
            self._merge.on_end(replica)
        held += [punctuation_like(no_rows(self._points.payload), FOREVER)] * bool(held)
        return Emission.of(*map(self._points.events, held))

    def _take(self, name: ReplicaName, part: EventBatch) -> Emission:
        port = self._ports.get(name)
        if port is not None:
            return self._merged(port, self._punctuators[port].on_batch(0, part))
        # None of its rows has a time. It does not take part yet: nobody knows how far it has come.
        punctuator = self._punctuator()
        emission = punctuator.on_batch(0, part)
        self._untimed += punctuator.late()
        for batch in emission.batches:
            if batch.rows:  # all of them before all times: as far as none has come
                doing = "taking in a replica whose newest event is at the very beginning of int64"
                raise BadTime.overflow(f"step {self._step!r}", show_element(batch, 0), doing)
        return Emission(side=emission.side)

    def _merged(self, port: Port, in_time: Emission) -> Emission:
        """Merge what a replica sends; late rows go their own way."""
        merged = [self._shown(self._merge.on_batch(port, self._points.of(batch))) for batch in in_time.batches]
        return Emission.together([*merged, Emission(side=in_time.side)])

    def _shown(self, merged: Emission) -> Emission:
        """What the merge releases, as events; rows that it left out with the names of their replicas."""
        names = self._names.column_of(list(self._ports)) if merged.side else None
        side = tuple((output, self._points.left_out(rows, names)) for output, rows in merged.side)
        return Emission(tuple(map(self._points.events, merged.batches)), side)

    def _furthest_first(self, names: Iterable[ReplicaName], came: Spans) -> list[ReplicaName]:
        """Replicas in the order in which they are believed: the same wherever the same rows have come."""

        def how_far(name: ReplicaName) -> Instant:
            port = self._ports.get(name)
            before = BEGINNING if port is None else self._punctuators[port].snapshot().high_water
            return max(before, came[name].newest) if name in came else before

        return sorted(names, key=lambda name: (-how_far(name), name))

    def _high_waters(self) -> list[Instant]:
        return [punctuator.snapshot().high_water for punctuator in self._punctuators]

    def _has_punctuated(self) -> bool:
        """Whether any replica is complete up to some time."""
        return any(complete > BEGINNING for complete in self._complete_before_each())

    def _punctuator(self, state: PunctuateState | None = None) -> PunctuateOperator:
        return PunctuateOperator(self._schema, (self._patience,), self._cadence, self._late, self._step, state)

    def _nothing(self) -> EventBatch:
        return EventBatch.inserts(self._schema.no_rows, [])

    def late(self) -> int:
        """How many rows were diverted or dropped."""
        return self._untimed + sum(punctuator.late() for punctuator in self._punctuators)

    def duplicates(self) -> int:
        """How many rows were of events that the merge had already."""
        return self._merge.duplicates()

    def left_out(self) -> LeftOut:
        """What became of the rows in time that did not go out."""
        return self._merge.left_out()

    def overlap(self) -> Overlap:
        """How many rows of replicas others have, too, and how many only some have, as far as that is known."""
        return self._merge.overlap()

    def left_out_by_replica(self) -> list[LeftOut]:
        """The same for each replica, in the order in which they appeared; those that wait are not counted."""
        return self._merge.left_out_by_replica()

    def buffered(self) -> int:
        """How many events are not complete."""
        return self._merge.buffered()

    def peak_buffered(self) -> int:
        """The most events that were not complete."""
        return self._merge.peak_buffered()

    def snapshot(self) -> ByColumnState:
        """Return the replicas and the merge. Cost: a copy of all events that are not complete."""
        punctuators = tuple(punctuator.snapshot() for punctuator in self._punctuators)
        progress = self._complete_before, self._earliest, self._untimed
        alone_from, gaps = tuple(self._alone_from), tuple(self._gaps)
        return ByColumnState(tuple(self._ports), punctuators, *progress, alone_from, gaps, self._merge.snapshot())

    def check(self) -> None:
        """Assert the invariants of every punctuator and of the merge, and that each replica has one port."""
        assert list(self._ports.values()) == list(range(len(self._punctuators))), self._ports
        for punctuator in self._punctuators:
            punctuator.check()
        self._merge.check()
