"""The plan node that makes heartbeats of one stream by bounds between several: each is a source, called by its name.

There is one for each stream. Its first input has the rows; of the others only arrivals are looked at. On Spark those
come as statistics, so that there it has one input, and knows which others belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.operators.heartbeats.related import RelatedOperator, RelatedStream
from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.heartbeats import Heartbeats, HeartbeatsInShards, bounds_and_patience
from slackwater.plan.nodes.source_lateness import SourceLateness
from slackwater.plan.properties import Stamps
from slackwater.policies.late import Late
from slackwater.progress.instants import as_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length


@dataclass(frozen=True, eq=False)
class Together:
    """The streams that bounds relate, as they were given; the same in the plan of each of them."""

    streams: tuple[RelatedStream, ...]

    @property
    def names(self) -> str:
        """All of them, as people read it."""
        return ", ".join(stream.name for stream in self.streams)

    def first(self, name: str) -> tuple[RelatedStream, ...]:
        """One of the streams, and then the others."""
        return tuple(sorted(self.streams, key=lambda stream: stream.name != name))


@dataclass(frozen=True, eq=False)
class Related(Heartbeats):
    """Punctuates a stream as far as bounds on several guarantee that it is complete."""

    others: tuple[Node, ...] = ()
    together: Together = Together(())
    verb = "related"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Its own source, and those of the other streams."""
        return (self.input, *self.others)

    @property
    def row_inputs(self) -> tuple[Node, ...]:
        """Its own source: of the others it looks at arrivals."""
        return (self.input,)

    @property
    def goes_by_batches(self) -> bool:
        """Whatever of all streams waits to be read is one instant, however it was pushed."""
        return False

    def _require_sources(self) -> None:
        """Refuse bounds that name streams which there are not; that is known when all have been put together."""

    def _warn_of_silence(self) -> None:
        if self.source.name == self.together.streams[0].name:  # once for all of them
            super()._warn_of_silence()

    def _of(self, sources: str) -> str:
        return sources

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """All columns are those of its own source."""
        return [(self.input, column)]

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Of its own source those that are wanted; of all, when rows arrived."""
        assert isinstance(source, SourceNode)
        arrived = frozenset(() if source.arrived is None else (source.arrived,))
        return super().columns_read(wanted, source) if source is self.input else arrived

    def details(self) -> str:
        """Which stream it is, among which."""
        return f"{self.source.name} of {self.together.names}, {super().details()}"

    def reason(self) -> str:
        """By whose rows it goes, and what a pause of all does."""
        return _reason(self)

    def in_shards(self) -> RelatedInShards:
        """The same heartbeats, in shards."""
        values = {one.name: getattr(self, one.name) for one in fields(HeartbeatsInShards)}
        return RelatedInShards(**values, together=self.together)

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        streams = self.together.first(self.source.name)
        return RelatedOperator(self.schema, self.settings, streams, step, resume, self._ahead_payload)


@dataclass(frozen=True, eq=False)
class RelatedInShards(HeartbeatsInShards):
    """The same where rows come to shards: made of statistics of all the streams, which the query must read."""

    together: Together = Together(())
    verb = "related"

    def details(self) -> str:
        """Which stream it is, among which."""
        return f"{self.source.name} of {self.together.names}, {super().details()}"

    def _of(self, sources: str) -> str:
        return sources

    def reason(self) -> str:
        """What they follow from on Spark."""
        return f"{_reason(self)}; by statistics of all rows as they are read, the same in every shard"

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator that a shard feeds with statistics."""
        streams = self.together.first(self.source.name)
        return RelatedOperator(self.schema, self.settings, streams, step, resume, self._ahead_payload)


def _reason(node: Heartbeats) -> str:
    silence = node.silence_holds
    whose = "complete as far as rows of any of these streams prove it"
    return whose if silence is None else f"{whose}; in a pause of all, the last rows are held"


def relate(
    nodes: Sequence[Node],
    bounds: Bounds,
    patience: Length | None,
    every: Every | None,
    ahead: Length | None,
    late: Late | None,
) -> list[Node]:
    """Put heartbeats behind the source of each stream, which follow from the arrivals of all."""
    sources = [_source_of(node) for node in nodes]
    _require_alike(sources)
    names = [source.name for source in sources]
    given = bounds_and_patience(bounds, patience)
    _require_bounds(given, names)
    together = Together(tuple(RelatedStream(source.name, source.arrived) for source in sources))
    wait = None if patience is None else as_duration(patience, calendar=sources[0].schema.calendar)
    found = []
    for node, source in zip(nodes, sources, strict=True):
        others = tuple(one for one in sources if one is not source)
        policy = Late.divert() if late is None else late
        related = Related(source, given.only(*names), wait, every, ahead, policy, others, together)
        if related.ahead is not None and related.settings.ahead_of_rows:
            facts, hint = {"source": source.name}, "leave ahead= out, or name arrivals that are times of the same kind"
            raise PlanError(
                message("ahead= compares times with the clock, and these times are of another kind", facts, hint)
            )
        found.append(_behind(node, source, SourceLateness.behind(related, late)))
    return found


def _source_of(node: Node) -> SourceNode:
    """The source of a stream that comes straight from one, through steps that treat each row by itself."""
    at = node
    while at.traits.row_by_row:
        (at,) = at.inputs
    if not isinstance(at, SourceNode):
        facts, hint = {"stream": node.line}, "relate streams first, right behind stream(...), then sort each of them"
        raise PlanError(message("related() takes streams that come straight from a source", facts, hint))
    if at.properties.stamps is not Stamps.EXTERNAL:
        raise PlanError(message("bounds are about times that rows bring", {"source": at.name}))
    if at.origin is not None:
        facts = {"source": at.name, "origin": at.origin}
        hint = "leave origin= out; or put all rows into one stream, whose origin= names every source"
        raise PlanError(message("related() counts each stream as one source, and this one is of several", facts, hint))
    return at


def _behind(node: Node, source: SourceNode, made: Node) -> Node:
    """The same steps, behind what was made of their source."""
    if node is source:
        return made
    (read,) = node.inputs
    return node.with_inputs(_behind(read, source, made))


def _require_alike(sources: Sequence[SourceNode]) -> None:
    """Refuse streams whose names, times or arrivals cannot be compared."""
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        facts, hint = {"name": twice, "streams": ", ".join(names)}, 'name them: stream(..., name="clicks")'
        raise PlanError(message("bounds name streams, and two of these have one name", facts, hint))
    if len({source.schema.calendar for source in sources}) > 1:
        facts = {source.name: str(source.schema.time.type) for source in sources}
        hint = "cast the time columns to one kind"
        raise PlanError(message("times of these streams cannot be compared: some are numbers", facts, hint))
    arrivals = {source.name: source.arrived for source in sources}
    if any(arrivals.values()):
        if not all(arrivals.values()):
            facts = {name: arrived or "none" for name, arrived in arrivals.items()}
            rule = "of some of these streams a column says when rows arrived, and of others none does"
            raise PlanError(message(rule, facts, "name arrived= of all of them, or of none"))
        kinds = {
            name: source.schema.payload.field(arrivals[name]).type for name, source in zip(names, sources, strict=True)
        }
        if len({str(kind).startswith("timestamp") for kind in kinds.values()}) > 1:
            facts = {name: str(kind) for name, kind in kinds.items()}
            hint = "cast the columns of arrivals to one kind"
            raise PlanError(message("arrivals of these streams cannot be compared: some are numbers", facts, hint))
        return
    ends = next((source.name for source in sources if not source.feed.live), None)
    if ends is not None:
        facts, hint = {"source": ends}, 'name it, of every stream: stream(..., arrived="landed")'
        rule = "nobody says which rows of these streams came before which: one ends, and no column says when rows came"
        raise PlanError(message(rule, facts, hint))


def _require_bounds(bounds: Bounds, names: Sequence[str]) -> None:
    """Refuse bounds that speak of other streams, and what means nothing between streams."""
    unknown = [name for name in (*bounds.named, *(bounds.expected or ())) if name not in names]
    if unknown:
        facts = {"named": ", ".join(map(str, dict.fromkeys(unknown))), "streams": ", ".join(names)}
        hint = 'bounds name streams as stream(..., name="clicks") does'
        raise PlanError(message("bounds name a stream that there is not", facts, hint))
    if bounds.as_seen or bounds.expected is not None:
        hint = "leave only() and once_seen() out: all streams are there from the beginning, and no others"
        raise PlanError(message("related() names all sources there are", {"bounds": bounds}, hint))
    if bounds.fleets:
        raise PlanError(message("streams make no fleets", {"bounds": bounds}, "leave in_fleets() out"))
    if bounds.learns:
        hint = "declare bounds; sw.fit_bounds() finds them in a recorded sample"
        raise PlanError(
            message("bounds are learnt from the rows of one stream, not between several", {"bounds": bounds}, hint)
        )
