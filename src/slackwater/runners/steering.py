"""Applies control records to the operators of a query: pauses sources, changes patiences, lets out what is held.

Records are applied between two instants: on Spark at the end of a micro-batch, behind its rows and punctuations, in
process between two steps. So they decide nothing of the rows that come with them. All shards read the same records in
the same micro-batch, and know the same of all sources, so that they all do the same; and so they do when a micro-batch
is done again.

A source that is paused, or retired, is waited for no longer:

    one of several sources of a stream    the stream is as far complete as the others are
    a stream beside others                it is punctuated as far as those are that its rows are put together with
    nobody else is left                   everything that is not newer than the newest row goes out, as in a lull

Its rows that come all the same are late, or in time, as any others.

Invariants: what was punctuated stays punctuated. A record whose number has been read changes nothing.
Cost: nothing where nobody asks; a step of O(sources) after each instant while something is paused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, SlackwaterError, message
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.steered import Steered, WaitsForSources
from slackwater.operators.why import Grounds
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.policies.late import LateAction
from slackwater.progress.instants import BEGINNING, FOREVER, as_duration
from slackwater.runners.attendance import Attendance
from slackwater.runners.control_records import (
    OF_REPLICAS,
    OF_SOURCES,
    Controllable,
    ControlRecord,
    PatienceOf,
    cause_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from slackwater.operators.emission import Emission
    from slackwater.operators.why import Why
    from slackwater.plan.node import Node, SourceNode
    from slackwater.progress.instants import Duration, Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.operator_graph import OperatorGraph

CONTROL: Final = "control"
"""The name under which it is stored, beside the states of steps; no step is called so."""

_REMEMBERED: Final = 20
"""Of so many records it is remembered what became of them."""


@dataclass(frozen=True, slots=True)
class SteeringState:
    """What has been asked, and holds."""

    read_to: int = 0
    """All records up to this number have been read."""

    also_read: tuple[int, ...] = ()
    """The numbers beyond it that have been read."""

    paused: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    patiences: tuple[tuple[str, int], ...] = ()
    """The patience of steps, where it is another than the plan has."""

    outcomes: tuple[tuple[int, str], ...] = ()
    """Of the last records: their numbers, and why they were left alone; empty where they were applied."""

    left_alone: int = 0
    """How many records could not be applied."""

    @classmethod
    def shown(cls, form: Mapping[str, Any]) -> SteeringState:
        """The same, of what JSON has made of it."""
        return cls(**{name: _as_tuples(value) for name, value in form.items()})

    def has_read(self, number: int) -> bool:
        """Whether a record is known already."""
        return number <= self.read_to or number in self.also_read

    def after(self, number: int, cause: str = "") -> SteeringState:
        """The same with one record more; of one that has no number only the cause is kept.

        >>> state = SteeringState().after(2).after(1)
        >>> state.read_to, state.also_read, state.after(4, "no such source").also_read
        (2, (), (4,))
        """
        beyond, read_to = {*self.also_read, *([number] if number else [])}, self.read_to
        while read_to + 1 in beyond:
            read_to += 1
        also_read = tuple(sorted(one for one in beyond if one > read_to))
        outcomes = (*self.outcomes, (number, cause))[-_REMEMBERED:]
        left_alone = self.left_alone + bool(cause)
        return replace(self, read_to=read_to, also_read=also_read, outcomes=outcomes, left_alone=left_alone)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The sources that are not waited for."""
        return (*self.paused, *self.retired)


class Way(ABC):
    """One stream as it comes to the operators of a runner."""

    name: str
    source: SourceNode
    calendar: bool
    """Whether its times are calendar time."""

    why_fixed: str = ""
    """Why nobody but its own rows can say how far it is complete; empty if somebody can."""

    @property
    @abstractmethod
    def first_step(self) -> Step | None:
        """The step that decides how far it is complete, where there is one."""

    @abstractmethod
    def newest(self) -> Instant:
        """The greatest time of its rows, wherever they are."""

    @abstractmethod
    def reached(self) -> Instant:
        """Up to where it is complete."""

    @abstractmethod
    def punctuate(self, bound: Instant) -> None:
        """Let it be complete up to a bound, if it is not: put a punctuation into the graph."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """The steps that its rows may come to."""


class Steering:
    """What is asked of one graph of operators, fresh or as a snapshot has it.

    Whatever is put into the graph is yielded once it is there: who drives the graph lets it go as far as it goes.
    """

    def __init__(
        self, graph: OperatorGraph, nodes: Iterable[Node], ways: Sequence[Way], state: SteeringState | None = None
    ) -> None:
        self.state = state or SteeringState()
        self._graph = graph
        self._nodes = tuple(nodes)
        self._ways = ways
        self._attendance = Attendance(graph)
        for step, patience in self.state.patiences:
            self._punctuator(step).wait_as_before(patience)

    # ---- what can be asked -------------------------------------------------------------------------------------------

    def controllable(self) -> Controllable:
        """What the plan lets users ask."""
        return Controllable(
            sources=self._sources(),
            origins=bool(self._waiting()) and any(way.source.origin is not None for way in self._ways),
            steps={step.name: about for step in self._graph.steps if (about := self._patience_of(step)) is not None},
            fixed=self._why_not_flushed(),
            replicas=self._attendance.about(),
        )

    def _sources(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for way in self._ways:
            because = way.why_fixed or self._why_waited_for(way)
            if way.name in found:
                because = "several streams of the query are called so: sw.stream(..., name=...) gives each its own"
            found[way.name] = because
        return found

    def _why_waited_for(self, way: Way) -> str:
        if not all(self._graph.nodes[step].traits.trusts_idle_sources for step in way.steps()):
            return "it is a replica, and one that is silent holds nobody back who has more; detach() leaves it out"
        if any(isinstance(step.operator, MergeByColumnOperator) for step in way.steps()):
            return "a column names its replicas, and who leads is not to be taken for complete where it is silent"
        return next((f"{one.why_fixed}, and is put together with it" for one in self._beside(way) if one.why_fixed), "")

    def _beside(self, way: Way) -> list[Way]:
        """The other streams that its rows are put together with."""
        behind = set(way.steps())
        return [other for other in self._ways if other is not way and behind.intersection(other.steps())]

    def _patience_of(self, step: Step) -> PatienceOf | None:
        node, operator = self._graph.nodes[step], step.operator
        if not isinstance(node, LatenessStep):
            return None
        calendar, fixed, ticks = node.schema.calendar, "", 1
        if not node.lateness.has_patience:
            fixed = "bounds, or the punctuations of its input, decide what is complete"
        elif len(node.patiences) > 1:
            fixed = "it has a patience for each band, and a row goes to one of them for good"
        elif not isinstance(operator, PunctuateOperator) or node.heartbeats is not None:
            fixed = f"{node.verb} goes by replicas or bounds, of which its patience is one"
        elif node.late.action is LateAction.ADJUSTED:
            ticks = node.schema.time.tick
        return PatienceOf(calendar, ticks, fixed)

    def _why_not_flushed(self) -> str:
        fixed = next((f"{way.name}: {way.why_fixed}" for way in self._ways if way.why_fixed), "")
        if fixed or self._lasting() is not None:
            return fixed
        return "rows have ends, and may last for ever: nobody knows up to where all is out"

    def _lasting(self) -> Duration | None:
        return lasting_in(self._nodes, [way.source for way in self._ways])

    # ---- what is asked -----------------------------------------------------------------------------------------------

    def apply(self, records: Iterable[str]) -> Iterator[None]:
        """Apply records that have come, by their numbers. Texts that are no records, and what cannot be, are noted."""
        readable = []
        for text in records:
            try:
                readable.append(ControlRecord.of_text(text))
            except PlanError as refusal:
                self.state = self.state.after(0, cause_of(refusal))
        for record in sorted(readable, key=lambda one: one.number):
            if self.state.has_read(record.number):
                continue
            try:
                self.require(record)
            except SlackwaterError as refusal:
                self.state = self.state.after(record.number, cause_of(refusal))
            else:
                yield from self.apply_one(record)

    def require(self, record: ControlRecord) -> None:
        """Refuse what cannot be asked."""
        self.controllable().require(record)
        if record.action in OF_REPLICAS:
            self._attendance.require(record.action, record["replica"])
        if record.action in OF_SOURCES:
            self._require_known(record["source"])

    def note(self, record: ControlRecord) -> None:
        """Remember a record that somebody else has applied."""
        self.state = self.state.after(record.number)

    def apply_one(self, record: ControlRecord) -> Iterator[None]:
        """Apply a record that is not refused."""
        self.note(record)
        match record.action:
            case "pause" | "retire":
                yield from self._leave_out(record["source"], paused=record.action == "pause")
            case "resume":
                self._resume(record["source"])
            case "patience":
                yield from self._take_patience(record["step"], record["patience"])
            case "flush":
                yield from self._flush()
            case "attach":
                yield from self._attendance.attach(record["replica"], record["complete_from"])
            case "detach":
                yield from self._attendance.detach(record["replica"])

    def _leave_out(self, source: str, *, paused: bool) -> Iterator[None]:
        self._forget(source)
        if paused:
            self.state = replace(self.state, paused=(*self.state.paused, source))
        else:
            self.state = replace(self.state, retired=(*self.state.retired, source))
        for step, operator in self._knowing(source):
            yield from self._release(step, operator.leave_out(source))
        yield from self.follow()

    def _resume(self, source: str) -> None:
        if source in self.state.left_out:
            self._forget(source)
            for _, operator in self._knowing(source):
                operator.wait_for_again(source)

    def _forget(self, source: str) -> None:
        """Be as if a source had never been left out."""
        paused, retired = (
            tuple(name for name in names if name != source) for names in (self.state.paused, self.state.retired)
        )
        self.state = replace(self.state, paused=paused, retired=retired)

    def _require_known(self, source: str) -> None:
        """Refuse a source that no step knows, and that is no stream either."""
        if not self._knowing(source) and all(way.name != source for way in self._ways):
            facts = {"source": source, "streams": ", ".join(way.name for way in self._ways)}
            hint = "a source that bounds do not name is there from its first row on"
            raise PlanError(message("no source of that name has come", facts, hint))

    def _knowing(self, source: str) -> list[tuple[Step, WaitsForSources]]:
        return [(step, operator) for step, operator in self._waiting() if operator.knows(source)]

    def _waiting(self) -> list[tuple[Step, WaitsForSources]]:
        return [(step, step.operator) for step in self._graph.steps if isinstance(step.operator, WaitsForSources)]

    def _take_patience(self, step: str, patience: str | int) -> Iterator[None]:
        length = as_duration(patience, calendar=self.controllable().steps[step].calendar)
        kept = [(name, other) for name, other in self.state.patiences if name != step]
        self.state = replace(self.state, patiences=(*kept, (step, length)))
        yield from self._release(self._step(step), self._punctuator(step).wait_for(length))
        yield from self.follow()

    def _punctuator(self, name: str) -> PunctuateOperator:
        operator = self._step(name).operator
        assert isinstance(operator, PunctuateOperator)
        return operator

    def _step(self, name: str) -> Step:
        return next(step for step in self._graph.steps if step.name == name)

    def _flush(self) -> Iterator[None]:
        """Let every stream be complete up to where nothing that has come is held any more.

        All of one kind of time alike: none is to wait for another.
        """
        for calendar in (False, True):
            ways = [way for way in self._ways if way.calendar == calendar]
            newest = max((way.newest() for way in ways), default=BEGINNING)
            if newest > BEGINNING:
                bound = min(self._let_go_behind(newest), FOREVER - 1)
                for way in ways:
                    way.punctuate(bound)
                    yield

    def _let_go_behind(self, newest: Instant) -> Instant:
        """Up to where sources must be complete that nothing until an instant is held: from the last steps upwards."""
        needed: dict[Node, Instant] = {}
        for node in reversed(self._nodes):
            for source in node.inputs:
                own = node.lets_go(needed.get(node, newest + 1) - 1)
                needed[source] = max(needed.get(source, newest + 1), own)
        return max(needed.values(), default=newest + 1)

    # ---- between two instants ----------------------------------------------------------------------------------------

    def follow(self) -> Iterator[None]:
        """Let sources that are left out be as far as the others have come by now."""
        if not self.state.left_out:
            return
        for step, operator in self._waiting():
            if any(map(operator.knows, self.state.left_out)):
                yield from self._release(step, operator.go_on_without())
        for way in self._left_out_ways():
            way.punctuate(self._bound_of(way))
            yield

    def _left_out_ways(self) -> list[Way]:
        """The streams that are left out as such: of those that bounds relate, the steps know themselves."""
        return [way for way in self._ways if way.name in self.state.left_out and not self._knowing(way.name)]

    def _bound_of(self, way: Way) -> Instant:
        """How far those are that its rows are put together with; if all are left out, behind their newest row."""
        left_out, beside = self._left_out_ways(), self._beside(way)
        waited_for = [other.reached() for other in beside if other not in left_out]
        if waited_for:
            return min(*waited_for, FOREVER - 1)
        newest = max(one.newest() for one in (way, *beside))
        return BEGINNING if newest == BEGINNING else min(newest + 1, FOREVER - 1)

    def _release(self, step: Step, emission: Emission) -> Iterator[None]:
        self._graph.release(step, emission)
        yield

    # ---- looking at it -----------------------------------------------------------------------------------------------

    def shown(self, step: Step, why: Why) -> Why:
        """What a step says, with what it says only because sources are paused: that is an assumption."""
        operator, paused, lagging = step.operator, self.state.paused, []
        if not paused:
            return why
        if isinstance(operator, WaitsForSources):
            lagging = [name for name in paused if operator.knows(name) and operator.lags(name)]
        lagging += [way.name for way in self._left_out_ways() if way.name in paused and way.first_step is step]
        if not lagging:
            return why
        verb = "is" if len(lagging) == 1 else "are"
        others = "" if not why.rule or why.ground in {Grounds.PUNCTUATED, Grounds.PATIENCE} else f"; else {why.rule}"
        complete = max(why.complete_before, operator.reached() if isinstance(operator, Steered) else BEGINNING)
        return replace(
            why,
            ground=Grounds.ASSUMED,
            rule=f"{', '.join(lagging)} {verb} paused, and sends nothing{others}",
            complete_before=complete,
        )


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def lasting_in(nodes: Iterable[Node], sources: Iterable[SourceNode]) -> Duration | None:
    """How far past the newest time steps may hold something back; None if rows may last for ever.

    A window ends its size after an event at most. Its punctuations lag behind by as much, and steps that wait for
    ends, and not for starts, wait for that too. So do punctuations where the last of several rows is kept.
    """
    every = list(nodes)
    waits_for_ends = any(node.traits.waits_for_ends for node in every)
    if waits_for_ends and any(source.schema.until is not None for source in sources):
        return None
    return sum(node.holds_back for node in every)
