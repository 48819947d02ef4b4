"""Other ways to bring a whole table into the order of its time column: every column, ties in order of arrival.

Each is written as its users would write it for speed, and gets the rows in the form that it likes best: NumPy arrays,
an Arrow table, a Polars frame, a registered view. Polars and DuckDB run as they come, with all cores; we use one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from rivals import numpy_packed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]


def numpy_argsort(columns: Columns) -> dict[str, NDArray[Any]]:
    """Stable argsort (adaptive), then take every column."""
    order = np.argsort(columns["at"], kind="stable")
    return {name: column.take(order) for name, column in columns.items()}


def numpy_packed_key(columns: Columns) -> dict[str, NDArray[Any]]:
    """Time and row packed into one 64-bit key for the vectorised sort; then take every column but the time."""
    times, order = numpy_packed(columns["at"])
    return {"at": times, **{name: column.take(order) for name, column in columns.items() if name != "at"}}


NUMPY: dict[str, Callable[[Columns], dict[str, NDArray[Any]]]] = {
    "numpy argsort": numpy_argsort,
    "numpy packed": numpy_packed_key,
}
"""Rivals that are measured with and without AVX-512, where NumPy uses it."""


def frames(columns: Columns) -> dict[str, Callable[[], Any]]:
    """Table engines, each with the rows in its own form."""
    table = pa.table(dict(columns))
    frame = pl.from_arrow(table)
    numbered = table.append_column("row", pa.array(np.arange(table.num_rows)))
    return {
        "polars": partial(_polars, frame),
        "pyarrow": partial(table.sort_by, "at"),
        "duckdb": partial(_duckdb, numbered),
    }


def _polars(frame: Any) -> pl.DataFrame:
    sorted_frame: pl.DataFrame = frame.sort("at", maintain_order=True)
    return sorted_frame


@cache
def _database() -> Any:
    import duckdb

    return duckdb.connect()


def _duckdb(numbered: pa.Table) -> pa.Table:
    """ORDER BY keeps no order of ties; the number of the row does."""
    connection = _database()
    connection.register("events", numbered)
    ordered = connection.sql('SELECT * FROM events ORDER BY "at", "row"').to_arrow_table()
    connection.unregister("events")
    return ordered


def same(made: Any, right: Columns) -> bool:
    """Whether what a contender made is the table in order, whatever form it has."""
    return all(np.array_equal(np.asarray(made[name]), column) for name, column in right.items())
