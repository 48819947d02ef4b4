"""What a profile looks at of recorded rows: a few numbers for each, in order of arrival; the rows are let go.

Memory: 8 bytes for each row and column that is named, 8 more for a hash of all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.columns.row_codec import RowCodec
from slackwater.disorder.sample import numbered
from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.kernels.match.known_keys import hash_keys
from slackwater.kernels.progress.recorded_rows import lateness_within_sources
from slackwater.progress.clock import ManualClock
from slackwater.progress.instants import BEGINNING, UNTIMED
from slackwater.progress.saturating import difference
from slackwater.sources.readers import ReadFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from slackwater.plan.feed import Feed

    Column = NDArray[np.int64]
    Lateness = NDArray[np.uint64]

_BATCH: Final = 65_536
FURTHEST: Final = 2**62
"""Arrivals further apart have no difference that fits."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Rows with a time, in order of arrival."""

    name: str
    times: Column
    arrived: Column | None
    """When each row arrived; None if nobody says: then rows arrived in the order in which they stand."""

    codes: Column | None
    """The number of the source of each row."""

    names: tuple[Hashable, ...]
    """The sources, by their numbers."""

    contents: Column | None
    """A hash of what else is in each row; None if nobody asks for it."""

    untimed: int
    """How many rows had no time."""

    calendar: bool
    clock_calendar: bool

    @classmethod
    def of_columns(cls, rows: pa.Table, calendar: bool, clock_calendar: bool) -> Recording:
        """Rows whose times and arrivals are numbers: `at`, `came` and `who`, in order of arrival."""
        codes, names = numbered(rows["who"])
        times, arrived = (rows[name].to_numpy() for name in ("at", "came"))
        return cls("frame", times, arrived, codes, names, None, 0, calendar, clock_calendar)

    def only(self, chosen: NDArray[np.bool_] | Column) -> Recording:
        """Some of the rows, by mask, or by place and in that order."""
        others = (None if one is None else one[chosen] for one in (self.arrived, self.codes, self.contents))
        arrived, codes, contents = others
        return replace(self, times=self.times[chosen], arrived=arrived, codes=codes, contents=contents)

    @cached_property
    def newest(self) -> Column:
        """The greatest time up to each row."""
        return np.maximum.accumulate(self.times)

    @cached_property
    def lateness(self) -> Lateness:
        """How far each row is behind the newest."""
        # Unsigned, because the difference of two int64 may be greater than any int64.
        return self.newest.view(np.uint64) - self.times.view(np.uint64)

    @cached_property
    def own_lateness(self) -> Lateness | None:
        """How far each row is behind the newest of its own source."""
        if self.codes is None:
            return None
        found = np.empty(len(self.times), dtype=np.uint64)
        lateness_within_sources(self.codes, self.times, np.full(len(self.names), BEGINNING), found)
        return found

    @cached_property
    def repeated(self) -> tuple[Column, Column]:
        """The rows whose contents came several times, those of one kind together; and where each kind begins."""
        assert self.contents is not None
        order = np.argsort(self.contents)
        ordered = self.contents[order]
        same = ordered[1:] == ordered[:-1]
        chosen = np.concatenate([same, [False]]) | np.concatenate([[False], same])
        order, ordered = order[chosen], ordered[chosen]
        return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(order)])

    @cached_property
    def by_time(self) -> Column:
        """The places of the rows in order of time."""
        return np.argsort(self.times)

    @cached_property
    def delays(self) -> Column | None:
        """How long each row was under way, by the clock of arrival; below 0 for rows from the future."""
        if self.arrived is None or self.calendar != self.clock_calendar:
            return None
        return difference(self.arrived, self.times)


@dataclass(frozen=True)
class Columns:
    """The columns of a source that say when, and from where."""

    time: str
    arrived: str | None
    origin: str | None
    epoch: str | None = None
    """The unit of whole numbers that are time since 1970; None where they are numbers of a sequence."""

    def read(self, feed: Feed, *, contents: bool, on_rows: Callable[[int], None] | None) -> Recording:
        """Read a source to its end."""
        self.require(feed)
        if not isinstance(feed, ReadFeed):
            hint = "profile a recording: a table, files, or a DataFrame that does not stream"
            raise PlanError(message("a profile reads rows that are there", {"source": feed.name}, hint))
        chunks, hashes = [], []
        hasher = _Hasher(feed.schema, self._named) if contents else None
        reader = feed.open(ManualClock(0), _nobody_wakes)
        try:
            while (polled := reader.poll(_BATCH)) is not None:
                rows, _ = polled
                chunks.append(rows.select(self._named))
                if hasher is not None:
                    hashes.append(hasher.of(rows))
                if on_rows is not None:
                    on_rows(rows.num_rows)
        finally:
            reader.close()
        table = pa.Table.from_batches(chunks, pa.schema([feed.schema.field(name) for name in self._named]))
        if self.epoch is not None:
            table = table.cast(pa.schema([self._since_1970(field) for field in table.schema]))
        return self._recording(feed.name, table, np.concatenate(hashes) if hashes else None)

    def _since_1970(self, field: pa.Field) -> pa.Field:
        """A column of whole numbers as the timestamps that they stand for."""
        if field.name not in {self.time, self.arrived}:
            return field
        return field.with_type(pa.timestamp(self.epoch, "UTC"))

    @property
    def _named(self) -> list[str]:
        given = [name for name in (self.time, self.arrived, self.origin) if name is not None]
        return list(dict.fromkeys(given))

    def require(self, feed: Feed) -> None:
        """Refuse a source that lacks a column, or has none of this type."""
        for name in self._named:
            if name not in feed.schema.names:
                raise SchemaMismatch.missing("profile", name, feed.schema.names)
        for name in (self.time, *(() if self.arrived is None else (self.arrived,))):
            kind = feed.schema.field(name).type
            if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
                hint = "cast it to a timestamp, or to whole numbers"
                raise SchemaMismatch.wrong_type("profile", name, kind, "instants: timestamps or whole numbers", hint)
            if self.epoch is not None and not pa.types.is_integer(kind):
                facts, hint = {"column": name, "type": kind, "epoch": self.epoch}, "leave epoch= out"
                raise SchemaMismatch(message("epoch= is for whole numbers", facts, hint))

    def _recording(self, name: str, table: pa.Table, contents: Column | None) -> Recording:
        times, timed = _instants(table[self.time])
        if not timed.any():
            raise self.without_times(name, table.num_rows)
        arrived = None if self.arrived is None else self._arrivals(table)
        codes, names = (None, ()) if self.origin is None else numbered(table[self.origin])
        kept = np.flatnonzero(timed)
        everything = Recording(
            name,
            times,
            arrived,
            codes,
            names,
            contents,
            untimed=len(times) - len(kept),
            calendar=self.on_calendar(table.schema, self.time),
            clock_calendar=self.arrived is not None and self.on_calendar(table.schema, self.arrived),
        )
        if arrived is not None and (np.diff(arrived) < 0).any():
            return everything.only(kept[np.argsort(arrived[kept], kind="stable")])
        return everything if timed.all() else everything.only(kept)

    def _arrivals(self, table: pa.Table) -> Column:
        assert self.arrived is not None
        arrived, known = _instants(table[self.arrived])
        if not known.all():
            raise self.without_arrivals(int(np.count_nonzero(~known)))
        if len(arrived) and int(arrived.max()) - int(arrived.min()) > FURTHEST:
            raise self.arrivals_too_far()
        return arrived

    def on_calendar(self, schema: pa.Schema, name: str) -> bool:
        """Whether a column is calendar time."""
        return self.epoch is not None or bool(pa.types.is_timestamp(schema.field(name).type))

    def without_times(self, name: str, rows: int) -> PlanError:
        """What is raised where no row has a time."""
        facts, hint = {"source": name, "rows": rows, "time": self.time}, "name the column that has times"
        return PlanError(message("there is no row with a time to profile", facts, hint))

    def without_arrivals(self, rows: int) -> SchemaMismatch:
        """What is raised where rows have no time of arrival."""
        facts = {"arrived": self.arrived, "rows": rows}
        return SchemaMismatch(message("some rows do not say when they arrived", facts, "leave these rows out"))

    def arrivals_too_far(self) -> PlanError:
        """What is raised where arrivals have no difference that fits."""
        hint = "leave out rows that a broken clock has stamped"
        return PlanError(message("arrivals are too far apart to compare", {"arrived": self.arrived}, hint))


class _Hasher:
    """Hashes what is in rows beside the columns that say when and from where they came; the time counts."""

    def __init__(self, schema: pa.Schema, named: list[str]) -> None:
        self._names = [field.name for field in schema if field.name not in named[1:]]
        self._codec = RowCodec(pa.schema([schema.field(name) for name in self._names]), "profile")

    def of(self, rows: pa.RecordBatch) -> Column:
        written = self._codec.encode(rows.select(self._names))
        found = np.empty(rows.num_rows, dtype=np.int64)
        hash_keys(written.word_offsets, written.words, found)
        return found


def _instants(column: pa.ChunkedArray) -> tuple[Column, NDArray[np.bool_]]:
    """A column as microseconds or whole numbers, and which rows have one."""
    if pa.types.is_timestamp(column.type):
        try:
            column = pc.cast(column, options=_micros(column.type.tz))
        except pa.ArrowInvalid as cause:
            facts, hint = {"type": column.type, "Arrow says": cause}, "leave out rows that a broken clock has stamped"
            raise SchemaMismatch(
                message("times of a column do not fit microseconds since 1970", facts, hint)
            ) from cause
    known: Any = column.is_valid().to_numpy()
    return column.cast(pa.int64()).fill_null(UNTIMED).to_numpy(), known


def _micros(zone: str | None) -> Any:
    """Whatever is shorter than a microsecond is cut off; what has no number in them is refused."""
    return pc.CastOptions(target_type=pa.timestamp("us", zone), allow_time_truncate=True)


def _nobody_wakes() -> None:
    """Rows of a source that ends never come later."""
