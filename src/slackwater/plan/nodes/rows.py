"""Plan nodes that treat each row by itself: where, select, map_batches, window, and declarations about a stream."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from slackwater.columns.expression_text import describe
from slackwater.errors import BadDuration, PlanError, SchemaMismatch, message
from slackwater.events.schema import with_names_before
from slackwater.operators.assume_ordered import AssumeOrderedOperator
from slackwater.operators.map_batches import MapBatchesOperator, answered_schema, without_ends
from slackwater.operators.select import Outputs, SelectOperator
from slackwater.operators.stamp import StampOperator
from slackwater.operators.where import WhereOperator
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.plan.node import Node, StepNode
from slackwater.plan.probe import probe_batch_function, probe_computations
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.plan.traits import PunctuationUse, TieOrder, Traits
from slackwater.policies.windows import MOST_WINDOWS, Hopping, Sliding, Window
from slackwater.progress.instants import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.columns.expressions import Computation
    from slackwater.events.schema import EventSchema
    from slackwater.operators.map_batches import BatchFunction
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class UnaryNode(StepNode):
    """A step with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    @property
    def schema(self) -> EventSchema:
        """The input's, unless a subclass says otherwise."""
        return self.input.schema

    @property
    def properties(self) -> Properties:
        """The input's, unless a subclass says otherwise."""
        return self.input.properties


_ROW_BY_ROW: Final = Traits(
    row_by_row=True,
    tie_order=TieOrder.KEPT,
    punctuations=PunctuationUse.FORWARDED,
    flushes_at_end=False,
    map_side=True,
    compares_rows=False,
)
_ROW_FOR_ROW: Final = replace(_ROW_BY_ROW, keeps_rows=True, may_change=True)


@dataclass(frozen=True, eq=False)
class RowNode(UnaryNode):
    """A step that treats each row by itself, and leaves it its place in the stream."""

    def column_after(self, column: str) -> str | None:
        """The first column of the output that has the values of a column of the input; None once they are gone."""
        found = (name for name in self.schema.payload.names if (self.input, column) in self.column_inputs(name))
        return next(found, None)

    @property
    def origin(self) -> str | None:
        """The column that names the source of each row, where rows go by their own source; None once it is gone."""
        before = self.input.properties.origin
        return None if before is None else self.column_after(before)

    @property
    def in_processing_order(self) -> bool:
        """As the input's, unless starts are moved."""
        return self.input.in_processing_order

    @property
    def fixed_length(self) -> Duration | None:
        """The input's, unless ends are moved."""
        return self.input.fixed_length

    @property
    def partition_keys(self) -> None:
        """A row needs no other."""
        return


@dataclass(frozen=True, eq=False)
class Where(RowNode):
    """Keeps the rows that satisfy a predicate."""

    predicate: Computation
    verb = "where"
    traits = replace(_ROW_BY_ROW, keeps_columns=True, may_change=True)
    commutes_with_sort = True

    def __post_init__(self) -> None:
        answer = probe_computations({"keep": self.predicate}, self.schema, "where").field("keep").type
        if not (pa.types.is_boolean(answer) or pa.types.is_null(answer)):
            raise SchemaMismatch.wrong_type("where", self.details(), answer, "a boolean for each row")

    def details(self) -> str:
        """The predicate."""
        return describe(self.predicate)

    def reason(self) -> str:
        """It needs no order."""
        return "row by row: needs no order, keeps the one there is"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return WhereOperator(self.input.schema, self.predicate, step)


@dataclass(frozen=True, eq=False)
class Select(RowNode):
    """Chooses and computes payload columns."""

    outputs: Mapping[str, str | Computation]
    verb = "select"
    traits = _ROW_FOR_ROW
    rows_per_row = 1.0

    def __post_init__(self) -> None:
        _ = self.schema  # made now, so that an unknown column is refused now

    @cached_property
    def schema(self) -> EventSchema:
        """The chosen columns; the time columns stay where they were named, else in front."""
        source = self.input.schema
        times = [column.name for column in source.time_columns()]
        for name, what in self.outputs.items():
            if name in times and not (isinstance(what, str) and what == name):
                hint = "use another name for the computed column"
                raise SchemaMismatch(message("select cannot replace a time column", {"name": name}, hint))
        made = probe_computations(self._payload_outputs(), source, "select")
        in_front = [name for name in times if name not in self.outputs]
        return source.with_payload(made, (*in_front, *self.outputs))

    @property
    def properties(self) -> Properties:
        """A key may lose the column that made it one."""
        kept = {what for what in self.outputs.values() if isinstance(what, str)}
        kept |= {what.name for what in self.outputs.values() if isinstance(what, _WideDictionary)}
        whole = kept.issuperset(self.input.schema.payload.names)
        return self.input.properties.replace(keyed=self.input.properties.keyed and whole, origin=self.origin)

    @property
    def commutes_with_sort(self) -> bool:
        """A sort brings rows of several batches together, and words of narrow dictionaries need not fit then."""
        return not any(is_narrow(field.type) for field in self.schema.payload)

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """Times pass, and columns that are only chosen or renamed."""
        times = {time.name for time in self.input.schema.time_columns()}
        what = self.outputs.get(column, column if column in times else None)
        return [(self.input, what)] if isinstance(what, str) else []

    def column_after(self, column: str) -> str | None:
        """Dictionaries that are only widened have the same values."""
        widened = (name for name, what in self.outputs.items() if isinstance(what, _WideDictionary) and name == column)
        return next(widened, None) or super().column_after(column)

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those that are chosen, wanted or not; a computation may look at any."""
        chosen = [what for what in self.outputs.values() if isinstance(what, str)]
        if not self.only_chooses:
            return super().columns_read(wanted, source)
        return frozenset(chosen) & set(source.schema.payload.names)

    @property
    def only_chooses(self) -> bool:
        """Whether nothing is computed."""
        return all(isinstance(what, str) for what in self.outputs.values())

    def _payload_outputs(self) -> Outputs:
        times = {column.name for column in self.input.schema.time_columns()}
        return {name: what for name, what in self.outputs.items() if name not in times}

    def details(self) -> str:
        """The columns."""
        return ", ".join(_shown_output(name, what) for name, what in self.outputs.items())

    def reason(self) -> str:
        """It needs no order."""
        return "row by row: needs no order, keeps the one there is"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return SelectOperator(self.input.schema, self._payload_outputs(), step, self.schema.payload)


@dataclass(frozen=True, eq=False)
class MapBatches(RowNode):
    """Replaces the payload columns by those that a user's function answers, row for row."""

    function: BatchFunction
    answers: pa.Schema | None = None
    """The columns of the answers, if the user named them; otherwise the function is tried."""

    verb = "map_batches"
    traits = _ROW_FOR_ROW
    rows_per_row = 1.0

    def __post_init__(self) -> None:
        if not callable(self.function):
            facts, hint = {"got": repr(self.function)}, "write a function from a pa.RecordBatch to a pa.RecordBatch"
            raise PlanError(message("map_batches takes a function over rows", facts, hint))
        if not isinstance(self.answers, pa.Schema | None):
            facts, hint = {"got": repr(self.answers)}, "write schema=pa.schema({...})"
            raise SchemaMismatch(message("schema= names the columns of the answers", facts, hint))
        _ = self.schema

    @property
    def _seen(self) -> EventSchema:
        """What the function sees: the ends of events that may be revised are not among it."""
        source = self.input.schema
        return source if self.input.properties.insert_only else without_ends(source)

    @property
    def _times(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.input.schema.time_columns())

    @cached_property
    def schema(self) -> EventSchema:
        """The time columns, and what the function answers."""
        answers = self.answers
        if answers is None:
            answers = probe_batch_function(self.function, self._seen, self._times, self.verb)
        return answered_schema(self.input.schema, answers, self.verb)

    @property
    def properties(self) -> Properties:
        """Rows that differed may be answered alike, and be of any source."""
        return self.input.properties.replace(keyed=False, origin=None)

    def details(self) -> str:
        """The function's name."""
        return describe(self.function)

    def reason(self) -> str:
        """It needs no order."""
        return "row by row, many rows at once: needs no order, keeps the one there is"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return MapBatchesOperator(self._seen, self.function, self.schema.payload, self._times, step)


@dataclass(frozen=True, eq=False)
class AssignWindow(RowNode):
    """Gives every event the interval of its window."""

    window: Window
    traits = _ROW_BY_ROW

    def __post_init__(self) -> None:
        if not self.input.properties.insert_only:
            hint = "apply the revisions first"
            raise PlanError(message(f"{self.verb} cannot assign windows to events that are revised later", {}, hint))
        if isinstance(self.window, Hopping) and self.window.most > MOST_WINDOWS:
            facts = {"windows": self.details(), "of one event": f"{self.window.most:,}", "at most": f"{MOST_WINDOWS:,}"}
            least = self._shown(-(-self.window.size // MOST_WINDOWS))
            hint = f"hop by {least} or more, or let each event last: sliding(size)"
            raise BadDuration(message("one event would fall into too many windows", facts, hint))
        _ = self.schema

    @cached_property
    def schema(self) -> EventSchema:
        """Window start and end become the time columns; the original ones become payload."""
        return windowed_schema(self.input.schema, self.verb)

    @property
    def properties(self) -> Properties:
        """Hopping gives one event several windows, so it loses the order but punctuates."""
        facts = self.input.properties.replace(origin=self.origin)
        if isinstance(self.window, Sliding):
            return facts.replace(extent=Extent.INTERVALS)
        if isinstance(self.window, Hopping):
            return facts.replace(extent=Extent.WINDOWS, order=Order.NONE, punctuated=facts.progressive)
        return facts.replace(extent=Extent.WINDOWS, order=Order.TIES if facts.ordered else Order.NONE)

    @property
    def rows_per_row(self) -> float:
        """In how many windows an event falls, on average."""
        return self.window.size / self.window.hop if isinstance(self.window, Hopping) else 1.0

    @property
    def commutes_with_sort(self) -> bool:
        """An event that falls into several windows leaves the order, and so do its windows."""
        return not isinstance(self.window, Hopping)

    @property
    def in_processing_order(self) -> bool:
        """Sliding windows begin where events do; others move their starts."""
        return isinstance(self.window, Sliding) and self.input.in_processing_order

    @property
    def fixed_length(self) -> Duration | None:
        """The windows' own, if every event has one."""
        return None if self.input.properties.untimed else self.window.size

    @property
    def holds_back(self) -> Duration:
        """A window ends its size after an event at most, and what it says is complete lags behind by as much."""
        return 2 * self.window.size

    def lets_go(self, newest: Instant) -> Instant:
        """Up to where every window is complete that an event until then may be in."""
        return self.window.closed_behind(newest)

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """All columns pass but the new times."""
        return [] if column in {time.name for time in self.schema.time_columns()} else [(self.input, column)]

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those that are wanted, by the names that they have before the new times."""
        shown = source.schema.shown
        kept = with_names_before(shown, [column.name for column in self.schema.time_columns()], self.verb)
        behind = dict(zip(shown.names, kept.names, strict=True))
        return frozenset(name for name in source.schema.payload.names if behind[name] in wanted)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same windows on another input; its own columns follow from those of the input."""
        (source,) = inputs
        same_columns = source.schema.shown == self.input.schema.shown
        return super().with_inputs(source) if same_columns else replace(self, input=source)

    @property
    def verb(self) -> str:
        """tumbling, hopping or sliding."""
        return type(self.window).__name__.lower()

    def details(self) -> str:
        """The lengths."""
        lengths = {field.name: getattr(self.window, field.name) for field in fields(self.window)}
        shown = {name: self._shown(length) for name, length in lengths.items()}
        return " ".join(f"{name}={length}" for name, length in shown.items() if name != "offset" or lengths[name])

    def _shown(self, length: Duration) -> str:
        return format_duration(length) if self.input.schema.calendar else str(length)

    def reason(self) -> str:
        """What it does to the order."""
        if isinstance(self.window, Hopping) and self.input.properties.ordered:
            return "an event falls into several windows; punctuations say which are complete"
        return "rewrites start and end, row by row: needs no order"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return WindowOperator(self.window, self.input.schema, ordered=ordered, step=step, resume=resume)


@dataclass(frozen=True, eq=False)
class AssumeOrdered(UnaryNode):
    """Declares that a stream comes in order of time; checked as it flows."""

    strictly: bool = field(default=False, kw_only=True)
    """Whether no two events have the same time."""

    verb = "assume_ordered"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False, keeps_columns=True)

    def __post_init__(self) -> None:
        refuse_untimed("assume_ordered", self.input)

    @property
    def properties(self) -> Properties:
        """Ordered, because it is checked; where each time has one event, start and payload are a key."""
        if self.strictly:
            return self.input.properties.replace(order=Order.STRICT, keyed=True)
        return self.input.properties.replace(order=Order.TIES)

    @property
    def partition_keys(self) -> None:
        """Rows in order of time are so in each shard."""
        return

    def details(self) -> str:
        """Whether ties are ruled out."""
        return "strictly" if self.strictly else ""

    def reason(self) -> str:
        """The declaration is enforced."""
        if self.strictly:
            return "declared strictly ordered; the first event that is not newer than all before is an error"
        return "declared ordered; the first event out of order is an error"

    def build(self, step: str, resume: Instant | None = None) -> Operator[Any]:
        """Make the operator."""
        return AssumeOrderedOperator(self.schema, step, resume, strictly=self.strictly)


@dataclass(frozen=True, eq=False)
class Stamp(UnaryNode):
    """Gives latent events the time at which they are processed."""

    verb = "stamp"
    traits = Traits(flushes_at_end=False)
    in_processing_order = True

    @property
    def properties(self) -> Properties:
        """Ordered by nature: processing time does not go back."""
        return self.input.properties.replace(stamps=Stamps.PROCESSED, order=Order.TIES)

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """Why there is a stamp here."""
        return "the next step needs times and these events have none yet"

    def build(self, step: str, resume: Instant | None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return StampOperator(self.schema.no_rows, resume)


def refuse_untimed(step: str, node: Node) -> None:
    """Refuse a stream whose rows may have no time, at a step that would give them a place in its order."""
    if node.properties.untimed:
        hint = 'sort(patience="5s") it, or take in_bands("1s", "1m"): there rows without a time go where late ones go'
        raise PlanError(message(f"{step} needs a time in every row", {"stream": node.line}, hint))


def _shown_output(name: str, what: str | Computation) -> str:
    if isinstance(what, str):
        return name if what == name else f"{name}={what}"
    return f"{name}={describe(what)}"


@dataclass(frozen=True)
class _WideDictionary:
    """Numbers the words of a dictionary column by int32, so that the words of several streams fit together."""

    name: str
    __name__ = "int32 dictionary"

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        column = rows.column(self.name)
        return column.cast(pa.dictionary(pa.int32(), column.type.value_type, column.type.ordered))


def with_wide_dictionaries(node: Node) -> Node:
    """Widen the dictionary columns whose numbers are too small to take in another stream's words."""
    outputs: dict[str, str | Computation] = {}
    for one in node.schema.shown:
        outputs[one.name] = _WideDictionary(one.name) if is_narrow(one.type) else one.name
    unchanged = all(isinstance(what, str) for what in outputs.values())
    return node if unchanged else Select(node, outputs)


def is_narrow(kind: pa.DataType) -> bool:
    """Whether a type is a dictionary whose numbers are too small to take in another batch's words."""
    return bool(pa.types.is_dictionary(kind) and kind.index_type.bit_width < pa.int32().bit_width)


def stamped(node: Node) -> Node:
    """Put a stamp after a stream whose events have no times yet."""
    return Stamp(node) if node.properties.latent else node
