"""Plan nodes for when rows may go on: what was chosen for a query, and where rows are held because of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.operators.hold import HoldOperator
from slackwater.operators.pass_on import PassOnOperator
from slackwater.operators.progress_only import ProgressOnlyOperator
from slackwater.plan.node import SourceNode, StepNode, name_steps, walk
from slackwater.plan.nodes.rows import RowNode, UnaryNode
from slackwater.plan.traits import PunctuationUse, TieOrder, Traits
from slackwater.policies.release import Release, ReleaseLevel

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.plan.properties import Properties
    from slackwater.progress.instants import Duration


@dataclass(frozen=True, eq=False)
class ChooseRelease(RowNode):
    """States what the rows of all that it reads wait for. A plan that is run holds them where that leads to."""

    release: Release
    verb = "release"
    traits = Traits(
        row_by_row=True,
        tie_order=TieOrder.KEPT,
        punctuations=PunctuationUse.FORWARDED,
        flushes_at_end=False,
        keeps_columns=True,
    )
    commutes_with_sort = True
    rows_per_row = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.release, Release):
            hint = "choose Release.by_operator(), Release.by_query() or Release.by_memory()"
            raise PlanError(message("release() takes a Release policy", {"got": repr(self.release)}, hint))
        above = list(walk(self.input))
        chosen = next((node for node in above if isinstance(node, ChooseRelease)), None)
        if chosen is not None:
            facts, hint = {"first": str(chosen.release), "then": str(self.release)}, "choose once, at the end"
            raise PlanError(message("what rows wait for was chosen twice", facts, hint))
        if self.release.level is not ReleaseLevel.OPERATOR and not _waits_for_several(self.input):
            hint = "choose it behind the union or join that waits for several streams, or leave it out"
            facts = {"stream": self.input.line}
            raise PlanError(message(f"release {self.release} has nobody to wait for", facts, hint))
        self._refuse_unknown_steps(above)

    def _refuse_unknown_steps(self, above: list[Node]) -> None:
        there_are = {node.verb for node in above if isinstance(node, StepNode)} | set(name_steps(self.input).values())
        for step, _ in self.release.growth or ():
            if step not in there_are:
                facts = {"named": step, "there are": ", ".join(sorted(there_are))}
                raise PlanError(message("growth= names a step that the stream does not have", facts))

    @property
    def not_on_spark(self) -> str | None:
        """Shards that count rows by themselves would hold and let go at different moments."""
        if not self.release.measured:
            return None
        return 'name how many rows steps make of one, so that all shards decide the same: growth={"join": 3.0}'

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - there is one
        """Those that are wanted."""
        return wanted

    def details(self) -> str:
        """What was chosen."""
        return str(self.release)

    def reason(self) -> str:
        """What that means."""
        return _MEANING[self.release.level]

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return PassOnOperator()


_MEANING: Final = {
    ReleaseLevel.OPERATOR: "a step takes what its own inputs have reached",
    ReleaseLevel.QUERY: "a step that needs order takes what all sources have reached; others take rows as they come",
    ReleaseLevel.MEMORY: "a step that makes more rows than it takes waits until they can be used",
}


@dataclass(frozen=True, eq=False)
class ProgressOnly(UnaryNode):
    """How far a stream has come, without its rows."""

    verb = "progress"
    traits = Traits(punctuations=PunctuationUse.LAST_OF_BATCH, flushes_at_end=False, needs_order=False)
    rows_per_row = 0.0

    @property
    def partition_keys(self) -> None:
        """There are no rows."""
        return

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - none is looked at
        """None."""
        return frozenset()

    @property
    def of(self) -> str:
        """The names of the sources of the stream."""
        return ", ".join(node.name for node in walk(self.input) if isinstance(node, SourceNode))

    def details(self) -> str:
        """Whose."""
        return f"of {self.of}"

    def reason(self) -> str:
        """What for."""
        return "how far it is complete, for steps that wait for it"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered and not self.input.properties.latent
        return ProgressOnlyOperator(self.schema.no_rows, ordered=ordered, step=step, resume=resume)


@dataclass(frozen=True, eq=False)
class Hold(StepNode):
    """Holds the rows of an ordered stream until others have come as far."""

    path: Node
    others: tuple[ProgressOnly, ...]
    release: Release
    verb = "hold"
    traits = Traits(tie_order=TieOrder.KEPT, keeps_columns=True, needs_order=False)
    rows_per_row = 1.0

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The stream, and the progress of those that it waits for."""
        return (self.path, *self.others)

    @property
    def row_inputs(self) -> tuple[Node, ...]:
        """The stream."""
        return (self.path,)

    @property
    def schema(self) -> EventSchema:
        """The stream's."""
        return self.path.schema

    @property
    def properties(self) -> Properties:
        """The stream's."""
        return self.path.properties

    @property
    def fixed_length(self) -> Duration | None:
        """The stream's."""
        return self.path.fixed_length

    def longest_wait(self, output: str | None = None) -> Duration | None:
        """The stream's: nobody waits for late rows here."""
        return self.path.longest_wait(output)

    @property
    def partition_keys(self) -> None:
        """A row waits for its turn, which comes in each shard."""
        return

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """All columns are the stream's."""
        return [(self.path, column)]

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those of the stream that are wanted."""
        return wanted if source is self.path else frozenset()

    def details(self) -> str:
        """Whom it waits for."""
        return f"for {', '.join(dict.fromkeys(other.of for other in self.others))}"

    def reason(self) -> str:
        """Why rows wait here."""
        if self.release.level is ReleaseLevel.QUERY:
            return "one query, one heartbeat: rows go on when all its sources have come as far"
        if self.release.measured:
            return "while what follows makes more rows than it takes, they wait here until those can be used"
        return "what follows makes more rows than it takes: they wait here until those can be used"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator; where growth is measured it waits for nobody yet."""
        waits = not self.release.measured
        return HoldOperator(len(self.inputs), self.schema.no_rows, f"step {step!r}", resume, waits=waits)


def rows_from(node: Node) -> tuple[Node, ...]:
    """The nodes whose rows come to a step and are waited for there.

    A merge of replicas goes on with whoever is furthest: behind it a stream begins, as behind a source.
    """
    return node.row_inputs if node.waits_for_all or len(node.row_inputs) == 1 else ()


def _waits_for_several(node: Node) -> bool:
    """Whether streams are put together in order on the way to a node."""
    return node.waits_for_all or any(map(_waits_for_several, rows_from(node)))
