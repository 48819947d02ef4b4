"""A recorded sample of a stream, read into columns: when its rows arrived, from where, and their times.

Sources with many rows come first, each by its own name; the others follow, and count as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.policies.bound import Units

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

LEAST_ROWS: Final = 30
"""A source with fewer rows shows too little: it is put together with others."""

MOST_NAMED: Final = 100
"""So many sources have bounds of their own at most: those with the most rows."""

_FURTHEST: Final = 2**62
"""Times further apart have no difference that fits."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The columns of a sample, in order of arrival."""

    arrived: Column
    codes: Column
    times: Column
    names: tuple[Hashable, ...]
    units: Units

    @classmethod
    def read(cls, given: pa.Table | str | Path, time: str, arrived: str, origin: str) -> Sample:
        """Read three columns of a table or of Parquet files; rows without a time are left out."""
        table = _table_of(given, list(dict.fromkeys([time, arrived, origin])))
        table = table.filter(pc.is_valid(table[time]))
        times, calendar = _numbers(table[time], "time", time)
        arrivals, clock_calendar = _numbers(table[arrived], "arrived", arrived)
        if not len(times):
            raise PlanError(message("the sample has no rows", {"time": time}, "record some of the stream first"))
        if max(int(times.max()), int(arrivals.max())) - min(int(times.min()), int(arrivals.min())) > _FURTHEST:
            hint = "leave out rows with times of another kind, or with clocks that are broken"
            raise PlanError(message("times of the sample are too far apart to compare", {"time": time}, hint))
        order = np.argsort(arrivals, kind="stable")
        codes, names = numbered(table[origin])
        units = Units(calendar=calendar, clock_calendar=clock_calendar)
        return cls(arrivals[order], codes[order], times[order], names, units)

    def up_to(self, rows: int) -> Sample:
        """The first rows, with sources in order of how many of these they have."""
        codes = self.codes[:rows]
        count = np.bincount(codes, minlength=len(self.names))
        by_rows = np.argsort(-count, kind="stable")
        places = np.empty(len(by_rows), np.int64)
        places[by_rows] = np.arange(len(by_rows))
        names = tuple(self.names[code] for code in by_rows.tolist())
        return Sample(self.arrived[:rows], places[codes], self.times[:rows], names, self.units)

    @cached_property
    def named(self) -> int:
        """How many sources have bounds of their own: the first ones."""
        count = np.bincount(self.codes, minlength=len(self.names))
        return min(int(np.count_nonzero(count >= LEAST_ROWS)), MOST_NAMED)


def _table_of(given: pa.Table | str | Path, columns: list[str]) -> pa.Table:
    if isinstance(given, str | Path):
        if not Path(given).exists():
            raise PlanError(message("there is no such sample", {"path": str(given)}, "name a Parquet file or a folder"))
        schema = pq.ParquetDataset(given).schema
    elif isinstance(given, pa.Table):
        schema = given.schema
    else:
        hint = "pass an Arrow table, or the path of Parquet files"
        raise PlanError(message("a sample is a table or a path", {"got": type(given).__name__}, hint))
    lacking = [name for name in columns if name not in schema.names]
    if lacking:
        facts = {"lacking": ", ".join(lacking), "columns": ", ".join(schema.names)}
        raise SchemaMismatch(message("the sample lacks a column", facts, "name columns that it has"))
    return given.select(columns) if isinstance(given, pa.Table) else pq.read_table(given, columns=columns)


def _numbers(column: pa.ChunkedArray, role: str, name: str) -> tuple[Column, bool]:
    """A column as numbers: microseconds for calendar time; and whether it is that."""
    calendar = pa.types.is_timestamp(column.type)
    if not calendar and not pa.types.is_integer(column.type):
        facts, hint = {role: name, "type": str(column.type)}, "use a column of timestamps or of whole numbers"
        raise SchemaMismatch(message("this column has no times", facts, hint))
    if column.null_count:
        facts, hint = {role: name, "rows": column.null_count}, "leave these rows out"
        raise SchemaMismatch(message("some rows do not say when they arrived", facts, hint))
    if calendar:
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.cast(pa.int64()).to_numpy(), calendar


def numbered(column: pa.ChunkedArray) -> tuple[Column, tuple[Any, ...]]:
    """The number of each row's source, and the sources in order of their numbers."""
    encoded = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode(null_encoding="encode")
    # What a dictionary has twice, or for nobody, is one source, or none. The first place is that of null.
    places = encoded.indices.fill_null(-1).cast(pa.int64()).to_numpy() + 1
    used = np.flatnonzero(np.bincount(places))
    names = [encoded.dictionary[place - 1].as_py() if place else None for place in used.tolist()]
    distinct = {name: number for number, name in enumerate(dict.fromkeys(names))}
    number_of = np.zeros(len(encoded.dictionary) + 1, np.int64)
    number_of[used] = [distinct[name] for name in names]
    return number_of[places], tuple(distinct)
