"""Which columns of a table are time, and which are payload; the way from Arrow to EventBatch and back.

The time columns leave the payload when a batch is made and come back, in their own type and place, when it is
shown. In between, application time is int64 and the payload is untouched Arrow memory.

A null in the time column is refused; where the user chose that such rows are late, it is UNTIMED, and shown as null.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import BackwardInterval, BadTime, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_rows
from slackwater.events.shown_values import show_row
from slackwater.progress.instants import FOREVER, UNTIMED, Duration, Instant, format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.batch import Mask, Times

_MICROSECONDS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MICROSECONDS_PER_DAY = 86_400_000_000
_NANOSECONDS_PER_MICROSECOND = 1_000


@dataclass(frozen=True)
class TimeColumn:
    """A column of instants: its name, and the Arrow type in which users see it."""

    name: str
    type: pa.DataType
    nullable: bool = True
    """As in the user's own schema; times themselves are never null, unless rows may come without one."""

    untimed: bool = field(default=False, compare=False)
    """Whether null is read as UNTIMED, and shown for it; otherwise that number is a time like any other.

    It is not compared: streams with and without such rows have the same columns.
    """

    @classmethod
    def of(cls, schema: pa.Schema, name: str, step: str) -> TimeColumn:
        """Find a column that can serve as time, or refuse a schema without one."""
        if name not in schema.names:
            raise SchemaMismatch.missing(step, name, schema.names)
        kind = schema.field(name).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
            wanted = "a timestamp, a date or an integer"
            raise SchemaMismatch.wrong_type(step, name, kind, wanted, "parse or cast the column first")
        return cls(name, kind, schema.field(name).nullable)

    @property
    def calendar(self) -> bool:
        """Whether instants are microseconds UTC; otherwise they are sequence numbers."""
        return bool(pa.types.is_temporal(self.type))

    @property
    def tick(self) -> Duration:
        """The least difference that the column can hold."""
        if pa.types.is_date(self.type):
            return _MICROSECONDS_PER_DAY
        return _MICROSECONDS_PER_UNIT.get(self.type.unit, 1) if pa.types.is_timestamp(self.type) else 1

    def renamed(self, name: str) -> TimeColumn:
        """Return a column for computed instants of the same kind of time, fine enough for every instant."""
        kind = pa.timestamp("us", getattr(self.type, "tz", None)) if self.calendar else pa.int64()
        return TimeColumn(name, kind, untimed=self.untimed)

    def show(self, instant: Instant) -> str:
        """Write one instant for people."""
        return format_instant(instant, calendar=self.calendar)

    def read(self, column: pa.Array, where: str) -> Times:
        """Turn the column into instants; refuse nulls, if they are. Copies nothing for microseconds and int64."""
        if self.untimed:
            return self._read_with_untimed(column, where)
        if column.null_count:
            raise BadTime.missing(where, self.name, int(np.flatnonzero(_is_null(column))[0]))
        return self._read_present(column, where)

    def read_or_forever(self, column: pa.Array, where: str) -> Times:
        """Turn the column into instants; a null means that the end is not known yet: FOREVER."""
        if not column.null_count:
            return self._read_present(column, where)
        times = self._read_present(self._with_zeros(column), where).copy()
        times[_is_null(column)] = FOREVER
        return times

    def _read_with_untimed(self, column: pa.Array, where: str) -> Times:
        times = self._read_present(self._with_zeros(column) if column.null_count else column, where)
        if (times == UNTIMED).any():
            raise BadTime.overflow(where, self.name, "reading an event at the very beginning of int64")
        if not column.null_count:
            return times
        times = times.copy()
        times[_is_null(column)] = UNTIMED
        return times

    def _with_zeros(self, column: pa.Array) -> pa.Array:
        """The column with a time that can be read in the place of each null."""
        return column.fill_null(pa.scalar(0, pa.int64()).cast(_integer_of(self.type)).cast(self.type))

    def _read_present(self, column: pa.Array, where: str) -> Times:
        try:
            if pa.types.is_date(self.type):
                column = column.cast(pa.timestamp("s"))
            unit = column.type.unit if pa.types.is_timestamp(column.type) else "us"
            ticks = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise BadTime.overflow(where, self.name, f"reading {self.type}: {error}") from error
        if unit == "ns":
            return self._from_nanoseconds(ticks, where)
        factor = _MICROSECONDS_PER_UNIT[unit]
        if factor == 1:
            return ticks
        limit = FOREVER // factor
        if len(ticks) and max(-int(ticks.min()), int(ticks.max())) > limit:
            raise BadTime.overflow(where, self.name, f"turning {self.type} into microseconds")
        return ticks * factor

    def _from_nanoseconds(self, ticks: Times, where: str) -> Times:
        times, rest = np.divmod(ticks, _NANOSECONDS_PER_MICROSECOND)
        if rest.any():
            row = int(np.flatnonzero(rest)[0])
            raise BadTime.too_fine(where, self.name, row, int(ticks[row]))
        return times

    def write_or_null(self, times: Times) -> pa.Array:
        """Turn ends into a column of this type; FOREVER becomes null."""
        open_ended = times == FOREVER
        if open_ended.any():
            return pc.if_else(pa.array(~open_ended), self.write(np.where(open_ended, 0, times)), None)
        return self.write(times)

    def write(self, times: Times) -> pa.Array:
        """Turn instants into a column of this type. Copies nothing for microseconds and int64, if all are times."""
        missing = times == UNTIMED if self.untimed else None
        if missing is None or not missing.any():
            return self._write_present(times)
        return pc.if_else(pa.array(~missing), self._write_present(np.where(missing, 0, times)), None)

    def _write_present(self, times: Times) -> pa.Array:
        if pa.types.is_integer(self.type):
            return pa.array(times, pa.int64()).cast(self.type)
        if pa.types.is_date(self.type):
            return pa.array(times // _MICROSECONDS_PER_DAY).cast(pa.int32()).view(pa.date32()).cast(self.type)
        if self.type.unit == "ns":
            return pa.array(times * _NANOSECONDS_PER_MICROSECOND).view(self.type)
        factor = _MICROSECONDS_PER_UNIT[self.type.unit]
        return pa.array(times if factor == 1 else times // factor).view(self.type)


def _is_null(column: pa.Array) -> Mask:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _integer_of(kind: pa.DataType) -> pa.DataType:
    """The integer type that Arrow casts to `kind` without a change of bits."""
    if pa.types.is_integer(kind):
        return kind
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


@dataclass(frozen=True)
class EventSchema:
    """The payload columns of a stream, its time columns, and the order in which users see them all.

    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
    >>> batch = schema.read(pa.record_batch({"at": [3, 5], "x": ["a", "b"]}), where="source")
    >>> batch.start.tolist(), schema.show(batch).column_names
    ([3, 5], ['at', 'x'])
    """

    payload: pa.Schema
    time: TimeColumn
    until: TimeColumn | None
    columns: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, time: str, until: str | None = None, step: str = "stream") -> EventSchema:
        """Split a table's schema into time and payload."""
        twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
        if twice is not None:
            raise SchemaMismatch.clash(step, twice, "rename one of them before the stream is made")
        time_column = TimeColumn.of(schema, time, step)
        until_column = None if until is None else TimeColumn.of(schema, until, step)
        if until == time:
            raise SchemaMismatch.clash(step, time, "leave until out for events that happen at one time")
        if until_column is not None and until_column.calendar != time_column.calendar:
            wanted = f"the same kind of time as {time!r} ({time_column.type})"
            raise SchemaMismatch.wrong_type(step, until_column.name, until_column.type, wanted)
        payload = pa.schema([field for field in schema if field.name not in {time, until}])
        return cls(payload, time_column, until_column, tuple(schema.names))

    @property
    def calendar(self) -> bool:
        """Whether time is calendar time; otherwise sequence numbers."""
        return self.time.calendar

    @cached_property
    def no_rows(self) -> pa.RecordBatch:
        """An empty payload."""
        return no_rows(self.payload)

    @cached_property
    def shown(self) -> pa.Schema:
        """The schema that users see: payload and time columns in their places."""
        times = {
            column.name: pa.field(column.name, column.type, column.nullable or column.untimed)
            for column in self.time_columns()
        }
        return pa.schema([times.get(name) or self.payload.field(name) for name in self.columns])

    @property
    def read_from(self) -> pa.Schema:
        """The columns of the rows that `read` takes."""
        return self.shown

    def time_columns(self) -> tuple[TimeColumn, ...]:
        """The time column, and the until column if there is one."""
        return (self.time,) if self.until is None else (self.time, self.until)

    def read(self, table: pa.RecordBatch, where: str) -> EventBatch:
        """Make inserts of a user's rows; refuse times that are missing, out of range or run backward.

        Where rows may come without a time, a missing one is UNTIMED.
        """
        start = self.time.read(table.column(self.time.name), where)
        end = None
        if len(start) and int(start.max()) == FOREVER:
            raise BadTime.overflow(where, self.time.name, "reading an event at the very end of int64")
        if self.until is not None:
            end = self.until.read_or_forever(table.column(self.until.name), where)
            if (end < start).any():
                row = int(np.flatnonzero(end < start)[0])
                raise BackwardInterval.of(where, f"row {row}: {show_row(table, row)}")
        payload = table.select(self.payload.names)
        return EventBatch(payload, start, end)

    def show(self, batch: EventBatch) -> pa.RecordBatch:
        """Return the data rows as users see them, time columns included. Copies no payload."""
        data = batch.data()
        columns = {name: data.payload.column(name) for name in self.payload.names}
        columns[self.time.name] = self.time.write(data.start)
        if self.until is not None:
            columns[self.until.name] = self.until.write_or_null(data.ends())
        return pa.RecordBatch.from_arrays([columns[name] for name in self.columns], schema=self.shown)

    def with_untimed_rows(self) -> EventSchema:
        """Return the same columns for rows that may come without a time.

        >>> schema = EventSchema.of(pa.schema({"at": pa.int64()}), time="at").with_untimed_rows()
        >>> batch = schema.read(pa.record_batch({"at": pa.array([3, None])}), where="source")
        >>> batch.start.tolist() == [3, UNTIMED], schema.show(batch).to_pydict()
        (True, {'at': [3, None]})
        """
        return replace(self, time=replace(self.time, untimed=True))

    def with_payload(self, payload: pa.Schema, columns: Iterable[str]) -> EventSchema:
        """Return the same times over other payload columns, to be shown in the given order."""
        return EventSchema(payload, self.time, self.until, tuple(columns))

    def with_times(self, time: TimeColumn, until: TimeColumn | None, step: str) -> EventSchema:
        """Return new time columns, first in place; the present ones become payload. See `keep_times`."""
        new = [time.name] if until is None else [time.name, until.name]
        payload = with_names_before(self.shown, new, step)
        return EventSchema(payload, time, until, (*new, *payload.names))

    def keep_times(self, batch: EventBatch) -> pa.RecordBatch:
        """Return everything that users see now, to be the payload of other times; see `with_times` for its names."""
        return self.show(batch)


def with_names_before(shown: pa.Schema, new: list[str], step: str) -> pa.Schema:
    """Make room for new time columns: a column that is called as one of them gets "_before" after its name."""
    fields = [field.with_name(f"{field.name}_before") if field.name in new else field for field in shown]
    names = [*new, *(field.name for field in fields)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaMismatch.clash(step, twice, "leave the older column out with select() first")
    return pa.schema(fields)
