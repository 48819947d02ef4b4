"""Tries computations on made-up rows when a plan is built: learns their types, refuses those that mix rows.

A step such as where() must answer for each row by itself; otherwise its answer would depend on how the stream happened
to be cut into batches. `nw.col("x").mean()` and `nw.col("x").cum_sum()` are such computations. They are found by asking
for two rows together and one by one, through the public face of the expression alone.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa

from slackwater.errors import PlanError, SchemaMismatch, StepFailed, message
from slackwater.operators.expressions import describe
from slackwater.operators.select import Outputs, select_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.events.schema import EventSchema
    from slackwater.operators.expressions import Computation


def probe_computations(outputs: Outputs, schema: EventSchema, step: str) -> pa.Schema:
    """Learn the types of computed columns from no rows; refuse unknown columns and computations that mix rows."""
    for what in outputs.values():
        if isinstance(what, str) and what not in schema.columns:
            raise SchemaMismatch.missing(step, what, schema.columns)
    no_rows = pa.RecordBatch.from_pylist([], schema=schema.shown)
    try:
        made = select_columns(outputs, no_rows, step).schema
    except StepFailed as failure:
        facts = {"columns": ", ".join(schema.columns), "cause": failure.__cause__}
        raise PlanError(message(f"{step} cannot be computed on this stream", facts)) from failure.__cause__
    for name, what in outputs.items():
        if not isinstance(what, str) and _mixes_rows({name: what}, schema.shown, step):
            raise PlanError(
                message(
                    f"{step} was given a computation over many rows",
                    {"computation": describe(what)},
                    "its answer would depend on how the stream is cut into batches; use a window and aggregate()",
                )
            )
    return made


def name_outputs(
    columns: Sequence[str | nw.Expr], computed: Mapping[str, str | Computation], schema: EventSchema
) -> Outputs:
    """Give positional columns their names: a string its own, an expression the one Narwhals gives its output."""
    outputs: dict[str, str | Computation] = {}
    frame = nw.from_native(schema.shown.empty_table(), eager_only=True)
    for column in columns:
        try:
            names = [column] if isinstance(column, str) else frame.select(column).columns
        except Exception as cause:
            facts = {"columns": ", ".join(schema.columns), "cause": cause}
            raise PlanError(message("select cannot be computed on this stream", facts)) from cause
        for name in names:
            outputs[name] = name if len(names) > 1 else column
    return {**outputs, **computed}


def _mixes_rows(outputs: Outputs, shown: pa.Schema, step: str) -> bool:
    columns = [_two_values(field.type) for field in shown]
    both = pa.RecordBatch.from_arrays(columns, schema=shown)
    try:
        together = select_columns(outputs, both, step).to_pylist()
        apart = [select_columns(outputs, both.slice(row, 1), step).to_pylist()[0] for row in range(2)]
    except StepFailed:
        return False  # made-up values prove nothing when the computation does not take them
    return repr(together) != repr(apart)


def _two_values(kind: pa.DataType) -> pa.Array:
    """Two different values of a type, or nulls where none are made easily."""
    candidates: tuple[list[Any], ...] = ([False, True], [1, 2], [1.5, 2.5], [Decimal(1), Decimal(2)], ["a", "b"])
    for values in candidates:
        try:
            return pa.array(values).cast(kind)
        except pa.ArrowException:
            continue
    return pa.nulls(2, kind)
