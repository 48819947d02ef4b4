"""Runs the first steps of a plan as operations of Spark, before any row crosses to Python.

Steps that treat each row by itself need no order, so they may run before rows are packed: Spark then reads fewer rows
and columns, and fewer cross. A step is taken over only when its rows are exactly those that the operator would give;
from the first one on of which this is not known, the operators do the rest.

A row whose time is missing or out of range stops a query in process. So it must not get lost here: where() keeps it,
and a window gives it no time, until the operators find it, which refuse it. Where rows without a time are late, such
a row is one like any other to where(), and windows are left to the operators: a missing time would not stop them.

Cost: one analysis by Spark for each step, about a tenth of a second, when a query starts; nothing per row in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final, TypeAlias

import narwhals as nw
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampType

from slackwater.plan.nodes.rows import AssignWindow, Select, Where
from slackwater.plan.properties import Stamps
from slackwater.policies.windows import Hopping, Sliding, Tumbling
from slackwater.progress.instants import BEGINNING, FOREVER, MICROSECONDS, UNTIMED
from slackwater.runners.spark.pushdown.expressions import Columns, column_of
from slackwater.runners.spark.pushdown.values import OPAQUE, NotNative, forever, holds_forever, literal, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import SourceNode, StepNode
    from slackwater.policies.windows import Window
    from slackwater.progress.instants import Duration
    from slackwater.runners.spark.pushdown.values import Value

_NativeStep: TypeAlias = "Callable[[DataFrame], DataFrame]"
"""What a step is to Spark."""

_DAY: Final = MICROSECONDS["d"]
_EPOCH: Final = date(1970, 1, 1)
_HONEST_DAYS: Final = ((date(1000, 1, 1) - _EPOCH).days, (date(9000, 1, 1) - _EPOCH).days)
"""Times between these are in range, in days since 1970; every data base knows both."""


def run_natively(frame: DataFrame, source: SourceNode, steps: Sequence[StepNode]) -> tuple[DataFrame, EventSchema, int]:
    """Run as many of the first steps behind a source as Spark can do exactly.

    Return the frame of their rows, the schema of these rows, and how many steps were taken over; the others are left to
    the operators. For a stream `flights` of a DataFrame, on Spark:

        steps = [flights.where(nw.col("distance") > 500).node]
        frame, schema, done = run_natively(frame, flights.node, steps)
    """
    # Steps are tried on no rows first: what Spark would refuse, or give another type, shows before the query starts.
    trial = frame.sparkSession.createDataFrame([], frame.schema)
    schema, done = source.schema, 0
    if not _has_plain_events(source) or not _shows(trial, schema):
        return frame, schema, done
    for step in steps:
        try:
            native = _native_step(step, schema, Columns(schema, trial.schema))
            tried = native(trial)
            if not _shows(tried, step.schema):
                break
        except Exception:  # noqa: BLE001 - what Spark, Arrow or another Narwhals refuses, the operators still do
            break
        frame, trial, schema, done = native(frame), tried, step.schema, done + 1
    return frame, schema, done


def with_numbers_for_times(frame: DataFrame) -> DataFrame:
    """Timestamps as the microseconds that they are: so they cross to Python faster, where they become times again."""
    times = [field.name for field in frame.schema if isinstance(field.dataType, TimestampType)]
    return frame.withColumns({name: sf.unix_micros(column_of(name)) for name in times}) if times else frame


def _has_plain_events(source: SourceNode) -> bool:
    """Whether the rows of a source are its events: none is a revision of another, or gets its time from a clock."""
    return source.properties.insert_only and source.properties.stamps is Stamps.EXTERNAL


def _shows(frame: DataFrame, schema: EventSchema) -> bool:
    """Whether a frame of no rows has the columns of a schema, nullability aside. The limit saves a job."""
    arrow = frame.limit(0).toArrow().schema
    return bool(arrow.names == schema.shown.names and arrow.types == schema.shown.types)


def _native_step(step: StepNode, schema: EventSchema, columns: Columns) -> _NativeStep:
    times = _Times(schema, columns)
    if isinstance(step, Where) and isinstance(step.predicate, nw.Expr):
        predicate = columns.written(step.predicate)
        require(pa.types.is_boolean(predicate.kind))
        return _where(predicate.column, times)
    if isinstance(step, Select):
        return _select(step, schema, columns)
    if isinstance(step, AssignWindow):
        return _assign_window(step, schema, columns, times)
    raise NotNative(step.line)


# ---- where and select -----------------------------------------------------------------------------------------------


def _where(predicate: Column, times: _Times) -> _NativeStep:
    """Keep the rows that satisfy the predicate; null does not. Rows that will be refused are kept, too.

    So files are read even in partitions that the predicate rules out: a row without a time may lie in any of them.
    """
    exact = predicate | times.refused
    if times.suspect is None:
        return lambda frame: frame.where(exact)
    # What sources can look for themselves comes first. The other must look different, or Spark would factor the
    # predicate out and find that half of the rest is nothing that a source could look for.
    rough, exact = predicate | times.suspect, sf.coalesce(exact, sf.lit(False))
    return lambda frame: frame.where(rough).where(exact)


def _select(step: Select, schema: EventSchema, columns: Columns) -> _NativeStep:
    times = {column.name for column in schema.time_columns()}
    chosen = [
        (columns.raw(name) if name in times else _output(step.outputs[name], columns)).column.alias(name)
        for name in step.schema.columns
    ]
    return lambda frame: frame.select(*chosen)


def _output(what: object, columns: Columns) -> Value:
    if isinstance(what, str):
        return columns.shown(what)
    if isinstance(what, nw.Expr):
        return columns.written(what)
    raise NotNative(repr(what))


# ---- times ----------------------------------------------------------------------------------------------------------


class _Times:
    """Which rows of a frame have times that operators refuse to read."""

    def __init__(self, schema: EventSchema, columns: Columns) -> None:
        time = columns.raw(schema.time.name)
        self.refused = _out_of_range(time) | (_is_untimed(time) if schema.time.untimed else time.column.isNull())
        self.suspect = None if schema.until is not None else _suspect(time, nulls=not schema.time.untimed)
        """Holds for all that are refused, and for few others, and sources can look for it; None if there is no such."""

        if schema.until is not None:
            until = columns.raw(schema.until.name)
            numbers = pa.types.is_integer(until.kind) and pa.types.is_integer(time.kind)
            if not (until.kind == time.kind or numbers):
                raise NotNative(f"{time.kind} until {until.kind}")
            self.refused |= until.column < time.column
            if pa.types.is_date(until.kind):
                self.refused |= _out_of_range(until)


def _out_of_range(time: Value) -> Column:
    """Whether a time is none that events may have; null for null."""
    if time.kind == OPAQUE:
        raise NotNative("time")
    if pa.types.is_date(time.kind):
        return sf.abs(sf.unix_date(time.column).cast("bigint")) > sf.lit(FOREVER // _DAY)
    if pa.types.is_timestamp(time.kind) and time.kind.tz is not None:
        # As numbers: a source that was asked for such a date itself might not know how to write it.
        return sf.unix_micros(time.column) == sf.lit(FOREVER)
    return time.column == forever(time.kind) if holds_forever(time.kind) else sf.lit(False)


def _is_untimed(time: Value) -> Column:
    """Whether a time is the number that stands for none; null for null."""
    if pa.types.is_timestamp(time.kind) and time.kind.tz is not None:
        return sf.unix_micros(time.column) == sf.lit(UNTIMED)
    if not holds_forever(time.kind):
        return sf.lit(False)
    # Not equal to it: as a timestamp that number cannot be written.
    return time.column < literal(pa.scalar(UNTIMED + 1, pa.int64()).cast(time.kind)).column


def _suspect(time: Value, *, nulls: bool) -> Column | None:
    if pa.types.is_integer(time.kind):
        return None
    unit, number = (1, pa.int32()) if pa.types.is_date(time.kind) else (_DAY, pa.int64())
    earliest, latest = (literal(pa.scalar(days * unit, number).cast(time.kind)).column for days in _HONEST_DAYS)
    outside = (time.column < earliest) | (time.column > latest)
    return time.column.isNull() | outside if nulls else outside


# ---- windows --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """How a column of times becomes whole numbers that Spark computes with, and how these become times of windows."""

    unit: Duration
    read: Callable[[Column], Column]
    write: Callable[[Column], Column]


def _scale_of(kind: pa.DataType) -> _Scale:
    if pa.types.is_integer(kind):
        return _Scale(1, lambda time: time.cast("bigint"), lambda number: number)
    if pa.types.is_date(kind):
        to_time = lambda days: sf.date_from_unix_date(days.cast("int")).cast("timestamp_ntz")  # noqa: E731
        return _Scale(_DAY, lambda time: sf.unix_date(time).cast("bigint"), to_time)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _Scale(1, sf.unix_micros, sf.timestamp_micros)
    # Spark has no way from a timestamp without a zone to its number that does not ask for the session's zone.
    raise NotNative(str(kind))


def _assign_window(step: AssignWindow, schema: EventSchema, columns: Columns, times: _Times) -> _NativeStep:
    """Give each row the start and the end of its window; no start where that, or the time, is out of range.

    A window that would end past all times has no end, as in the operator.
    """
    if schema.time.untimed:
        raise NotNative("times that are missing and times that are refused would look alike behind a window")
    time = columns.raw(schema.time.name)
    scale = _scale_of(time.kind)
    size, grid, offset = _in_units(step.window, scale.unit)
    instant = sf.when(times.refused, sf.lit(None)).otherwise(scale.read(time.column))
    past = sf.lit(0) if grid is None else _past_grid(instant, grid, offset)
    start = sf.try_subtract(instant, past)
    start = sf.when(start >= sf.lit(-(-BEGINNING // scale.unit)), start)
    end = sf.when(start <= sf.lit(FOREVER // scale.unit - size), start + sf.lit(size))
    known_end = sf.when(end != sf.lit(FOREVER), end)
    made = [scale.write(start), scale.write(known_end), *(columns.shown(name).column for name in schema.columns)]
    named = [column.alias(name) for column, name in zip(made, step.schema.columns, strict=True)]
    if isinstance(step.window, Hopping):
        in_window = instant.isNull() | (past < sf.lit(size))
        return lambda frame: frame.where(in_window).select(*named)
    return lambda frame: frame.select(*named)


def _in_units(window: Window, unit: Duration) -> tuple[int, int | None, int]:
    """The size of a window, the distance of the starts and one of the starts, if they are whole units."""
    match window:
        case Sliding(size):
            lengths = [size]
        case Tumbling(size, offset):
            lengths = [size, size, offset]
        case Hopping(size, hop, offset) if hop >= size:
            lengths = [size, hop, offset]
        case _:
            # Windows that overlap make several rows of one, which would all have to cross; operators make them there.
            raise NotNative(str(window))
    if any(length % unit for length in lengths):
        raise NotNative(str(window))
    whole = [length // unit for length in lengths]
    return (whole[0], whole[1], whole[2]) if len(whole) > 1 else (whole[0], None, 0)


def _past_grid(instant: Column, grid: int, offset: int) -> Column:
    """How long instants are past the last line of a grid; remainders first, so that nothing leaves int64."""
    return sf.pmod(sf.pmod(instant, sf.lit(grid)) - sf.lit(offset % grid), sf.lit(grid))
