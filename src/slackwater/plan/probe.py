"""Tries computations on made-up rows when a plan is built: learns their types, refuses those that mix rows.

A step such as where() must answer for each row by itself; otherwise its answer would depend on how the stream happened
to be cut into batches. `nw.col("x").mean()` and `nw.col("x").cum_sum()` are such computations. They are found by asking
for a few rows together and one by one, through the public face of the computation alone (docs/decisions/0006).

A function over batches must answer for each row by itself, too. One over windows may mix the rows of a window; of it
the columns of its answers are learnt, and, where it is declared, whether the order of the rows makes no difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from slackwater.columns.expression_text import describe
from slackwater.errors import PlanError, SchemaMismatch, StepFailed, message
from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_rows
from slackwater.events.shown_values import show_value
from slackwater.operators.aggregate.map_windows import answered_rows
from slackwater.operators.map_batches import RowAnswers
from slackwater.operators.select import Outputs, select_columns
from slackwater.progress.instants import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.columns.expressions import Computation
    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.map_windows import WindowFunction
    from slackwater.operators.map_batches import BatchFunction

_NUMBERS = (-1_000_000, 3, 3, None, 1_000_000, 2)
"""Made-up values: equal neighbours, a null and far extremes show what looks at other rows."""

_SMALL_NUMBERS = (2, 3, 3, None, 5, 1)
"""The same for types that hold no more."""

_NOTHING_BUT_COLUMNS = re.compile(r"(col|all|nth)\([^()]*\)")
"""How Narwhals prints an expression that only names columns."""

_TRUTHS = (True, False, False, None, True, True)
"""The same for booleans."""

_NAME_THE_COLUMNS = (
    "it was tried on made-up rows; where they do not do, name the columns of its answers: schema=pa.schema(...)"
)
"""What to do where trying does not help."""


def probe_computations(outputs: Outputs, schema: EventSchema, step: str) -> pa.Schema:
    """Learn the types of computed columns; refuse unknown columns and computations that mix rows."""
    for what in outputs.values():
        if isinstance(what, str) and what not in schema.columns:
            raise SchemaMismatch.missing(step, what, schema.columns)
    made = _types(outputs, schema, step)
    for name, what in outputs.items():
        if not isinstance(what, str) and _mixes_rows({name: what}, schema.shown, step):
            raise _over_many_rows(step, what)
    return made


def probe_batch_function(function: BatchFunction, schema: EventSchema, times: tuple[str, ...], step: str) -> pa.Schema:
    """Learn the columns that a function over batches answers; refuse one that mixes rows or changes their number."""
    answers = RowAnswers(function, times)
    try:
        answer = answers.ask(_made_up(schema.shown, nulls=False))
    except Exception as cause:
        hint = "answer one row for each, its times untouched; where() leaves rows out, map_windows() puts many into one"
        raise _cannot_compute(step, schema, cause, f"{hint}; {_NAME_THE_COLUMNS}") from cause
    planned = _planned_columns(answer, function, step)
    if _mixes_rows({"answer": answers}, schema.shown, step):
        raise _over_many_rows(step, function)
    return planned


def probe_window_function(
    function: WindowFunction, schema: EventSchema, step: str, *, any_order: bool = False
) -> pa.Schema:
    """Learn the columns that a function over the rows of a window answers.

    One that is declared to return the same in whatever order its rows come is asked again, with the same rows
    backwards.
    """
    rows = _made_up_window(schema)
    try:
        answer = answered_rows(function(rows))
        backwards = answered_rows(function(rows.take(np.arange(rows.num_rows)[::-1]))) if any_order else answer
    except Exception as cause:
        raise _cannot_compute(step, schema, cause, _NAME_THE_COLUMNS) from cause
    if repr(backwards.to_pylist()) != repr(answer.to_pylist()):
        facts = {"function": describe(function)}
        hint = "sort what it answers by all columns, or leave any_order=True out"
        raise PlanError(message(f"{step} returned something else for the same rows in another order", facts, hint))
    return _planned_columns(answer, function, step)


def _planned_columns(answer: pa.RecordBatch, function: BatchFunction | WindowFunction, step: str) -> pa.Schema:
    untyped = [field.name for field in answer.schema if _has_no_type(field.type)]
    if untyped or not (answer.num_columns or answer.num_rows):
        facts = {"function": describe(function), "columns": ", ".join(untyped) or "none answered"}
        raise PlanError(
            message(f"{step} cannot infer the types of what the function returns", facts, _NAME_THE_COLUMNS)
        )
    # What Arrow or pandas noted about made-up rows is not true of others.
    return pa.schema([_with_wide_numbers(field) for field in answer.schema])


def name_outputs(
    columns: Sequence[str | nw.Expr], computed: Mapping[str, str | Computation], schema: EventSchema
) -> Outputs:
    """Give positional columns their names: a string its own, an expression those that Narwhals gives its outputs."""
    outputs: dict[str, str | Computation] = {}
    for column in columns:
        named = {column: column} if isinstance(column, str) else _outputs_of(column, schema)
        _refuse_repeated(outputs, named)
        outputs |= named
    _refuse_repeated(outputs, computed)
    return {**outputs, **computed}


@dataclass(frozen=True)
class OutputOf:
    """One of the columns that an expression over several columns gives."""

    expression: nw.Expr
    name: str

    @property
    def __name__(self) -> str:
        """What explain() calls it."""
        return f"{describe(self.expression)}[{self.name}]"

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        """Compute the column."""
        frame = nw.from_native(pa.Table.from_batches([rows]), eager_only=True).select(self.expression)
        return frame.get_column(self.name).to_native().combine_chunks()


def _outputs_of(expression: nw.Expr, schema: EventSchema) -> dict[str, str | Computation]:
    names = _select_nothing(expression, schema).column_names
    if _NOTHING_BUT_COLUMNS.fullmatch(str(expression)):
        return {name: name for name in names}
    if len(names) == 1:
        return {names[0]: expression}
    return {name: OutputOf(expression, name) for name in names}


def _select_nothing(expression: nw.Expr, schema: EventSchema) -> pa.Table:
    try:
        return nw.from_native(schema.shown.empty_table(), eager_only=True).select(expression).to_native()
    except Exception as cause:
        raise _cannot_compute("select", schema, cause) from cause


def _refuse_repeated(outputs: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    for name in more:
        if name in outputs:
            raise SchemaMismatch.clash("select", name, "name each column once; .alias() gives another name")


def _types(outputs: Outputs, schema: EventSchema, step: str) -> pa.Schema:
    try:
        made = select_columns(outputs, no_rows(schema.shown), step).schema
    except StepFailed as failure:
        raise _cannot_compute(step, schema, failure.__cause__) from failure.__cause__
    if pa.null() not in made.types:
        return made
    # A function that builds an Arrow array from Python values cannot know their type without any.
    try:
        return select_columns(outputs, _made_up(schema.shown, nulls=False), step).schema
    except StepFailed:
        return made


def _cannot_compute(step: str, schema: EventSchema, cause: BaseException | None, hint: str = "") -> PlanError:
    facts = {"columns": ", ".join(schema.columns), "cause": cause}
    return PlanError(message(f"{step} cannot be computed on this stream", facts, hint))


def _over_many_rows(step: str, what: Computation | BatchFunction) -> PlanError:
    facts = {"computation": describe(what)}
    hint = "its answer would depend on how the stream is cut into batches; use a window and aggregate()"
    return PlanError(message(f"{step} was given a computation over many rows", facts, hint))


def _has_no_type(kind: pa.DataType) -> bool:
    """Whether Arrow has seen nothing but nulls, or no element of a list."""
    return pa.types.is_null(kind) or any(_has_no_type(kind.field(place).type) for place in range(kind.num_fields))


def _with_wide_numbers(field: pa.Field) -> pa.Field:
    """Let a dictionary take in the words of many windows; Arrow numbers those of few rows by as few bits."""
    kind = field.type
    narrow = pa.types.is_dictionary(kind) and kind.index_type.bit_width < pa.int32().bit_width
    return field.with_type(pa.dictionary(pa.int32(), kind.value_type, kind.ordered)) if narrow else field


def _mixes_rows(outputs: Outputs, shown: pa.Schema, step: str) -> bool:
    """Whether some rows together are answered differently than one by one; with nulls and, if refused, without."""
    for nulls in (True, False):
        rows = _made_up(shown, nulls=nulls)
        try:
            together = _spelled(select_columns(outputs, rows, step))
            apart = [_spelled(select_columns(outputs, rows.slice(i, 1), step))[0] for i in range(rows.num_rows)]
        except StepFailed:
            continue  # made-up values prove nothing when the computation does not take them
        return together != apart
    return False


def _spelled(rows: pa.RecordBatch) -> list[list[str]]:
    """The rows as texts, which can be compared whatever they hold."""
    return [[show_value(column[row]) for column in rows.columns] for row in range(rows.num_rows)]


def _made_up(shown: pa.Schema, *, nulls: bool) -> pa.RecordBatch:
    """A few rows of a schema; each column starts at another place, so that no two columns repeat in step."""
    columns = [_values(field.type, place, nulls=nulls) for place, field in enumerate(shown)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in shown]))


def _made_up_window(schema: EventSchema) -> pa.RecordBatch:
    """A few rows that share an interval: a day, so that it has a length in every type of time."""
    rows = len(_values(pa.int64(), 0, nulls=False))
    start, length = np.zeros(rows, dtype=np.int64), MICROSECONDS["d"] if schema.calendar else 1
    end = None if schema.until is None else start + length
    return schema.show(EventBatch(_made_up(schema.payload, nulls=False), start, end))


def _values(kind: pa.DataType, place: int, *, nulls: bool) -> pa.Array:
    patterns: tuple[Sequence[Any], ...] = (_TRUTHS,) if pa.types.is_boolean(kind) else (_NUMBERS, _SMALL_NUMBERS)
    for pattern in patterns:
        turned = [*pattern[place % len(pattern) :], *pattern[: place % len(pattern)]]
        values = pa.array(turned if nulls else [value for value in turned if value is not None])
        for via in (values.type, pa.int32(), pa.string()):
            try:
                return values.cast(via).cast(kind)
            except pa.ArrowException:
                continue
    return pa.nulls(len(values), kind)
