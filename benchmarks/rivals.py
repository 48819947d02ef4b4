"""Other ways to sort a whole column of times: each gives the sorted times and the rows in that order.

Each is written as its users would write it for speed: in place where that is possible, with no check that the others do
not make. Polars and DuckDB run as they come, with all cores.
"""

from __future__ import annotations

import heapq
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Sorted = tuple[Any, Any]
    """The sorted times and the rows: arrays, or lists where the rival is plain Python."""


def numpy_stable(times: Column) -> Sorted:
    """Stable argsort (timsort: adaptive), then take."""
    order = np.argsort(times, kind="stable")
    return times.take(order), order


def numpy_unstable(times: Column) -> Sorted:
    """The default argsort (vectorised quicksort), then take. Ties lose their order: for information only."""
    order = np.argsort(times)
    return times.take(order), order


def numpy_packed(times: Column) -> Sorted:
    """Time and row packed into one 64-bit key, so that the vectorised sort of plain values can be used."""
    low = int(times.min())
    bits = (len(times) - 1).bit_length()
    if (int(times.max()) - low).bit_length() + bits > 64:
        raise OverflowError("the range of the times leaves no bits for the row")
    key = (times - low).view(np.uint64)
    key <<= np.uint64(bits)
    key |= np.arange(len(times), dtype=np.uint64)
    key.sort()
    rows = key & np.uint64((1 << bits) - 1)
    key >>= np.uint64(bits)
    ordered = key.view(np.int64)
    ordered += low
    return ordered, rows.view(np.int64)


def polars_sort(times: Column) -> Sorted:
    """A frame with a row index, sorted stably."""
    import polars as pl

    frame = pl.DataFrame({"time": times}).with_row_index("row").sort("time", maintain_order=True)
    return frame["time"].to_numpy(), frame["row"].to_numpy()


@cache
def _database() -> Any:
    import duckdb

    return duckdb.connect()


def duckdb_sort(times: Column) -> Sorted:
    """ORDER BY time and row."""
    connection = _database()
    connection.register("events", pa.table({"time": times, "row": np.arange(len(times))}))
    fetched = connection.execute("SELECT time, row FROM events ORDER BY time, row").fetchnumpy()
    connection.unregister("events")
    return fetched["time"], fetched["row"]


def list_sort(times: Column) -> Sorted:
    """Python's own timsort, over (time, row)."""
    pairs = list(zip(times.tolist(), range(len(times)), strict=True))
    pairs.sort()
    return _unzipped(pairs)


def heap_sort(times: Column) -> Sorted:
    """A heap of (time, row), popped until it is empty."""
    heap = list(zip(times.tolist(), range(len(times)), strict=True))
    heapq.heapify(heap)
    return _unzipped([heapq.heappop(heap) for _ in range(len(heap))])


def _unzipped(pairs: Sequence[tuple[int, int]]) -> Sorted:
    return [time for time, _ in pairs], [row for _, row in pairs]


def values_only(times: Column) -> Column:
    """The times alone, sorted stably: no rival, because no other column can follow; a mark for comparison."""
    return np.sort(times, kind="stable")


FAST: dict[str, Callable[[Column], Sorted]] = {"argsort stable": numpy_stable, "packed key": numpy_packed}
"""Rivals that may turn out the best one: timed on every data set."""

FRAMES: dict[str, Callable[[Column], Sorted]] = {"polars": polars_sort, "duckdb": duckdb_sort}
"""Engines that sort rows of any type, and pay for it: timed on some data sets."""

PLAIN: dict[str, Callable[[Column], Sorted]] = {"list.sort": list_sort, "heapq": heap_sort}
"""Plain Python: timed on a prefix."""


def check(name: str, work: Callable[[Column], Sorted], times: Column, order: Column) -> None:
    """Assert that a rival gives exactly what the stable argsort gives; of the unstable one, the times."""
    made_times, made_rows = map(np.asarray, work(times))
    assert np.array_equal(made_times, times.take(order)), f"{name}: the times are not the sorted times"
    if work is not numpy_unstable:
        assert np.array_equal(made_rows, order), f"{name}: the rows are not in order, or ties lost theirs"
