"""Statistics of arrivals as they are sent: columns of differences, as narrow as their greatest.

Every task sends them to every shard, and where bounds are learnt there is one for nearly every row: ticks and times are
in order, so that what a row is after the one before it takes a byte or two where the time itself takes eight.

Cost: a few passes over the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROUPS: Final = b"groups"
_BY_TIME: Final = b"by time"


def statistics_as_rows(statistics: ArrivalStatistics) -> pa.RecordBatch:
    """Statistics as rows: first the groups, then the rows that may be ahead of the clock. Who sends them knows when.

    >>> groups = np.array([[0, 1], [500, 500], [2, 1], [10**15, 10**15 + 3]])
    >>> sent = statistics_as_rows(ArrivalStatistics((b"a", b"b"), 7, groups, by_time=True))
    >>> sent.schema.field("rows").type, sent.column("time").to_pylist()
    (DataType(int8), [1000000000000000, 3])
    >>> read = statistics_of_rows(sent, now=7)
    >>> read.names, read.now, read.groups.tolist() == groups.tolist(), read.by_time
    ((b'a', b'b'), 7, True, True)
    """
    groups, ahead = statistics.groups, statistics.perhaps_ahead
    ones, zeros = np.ones(ahead.shape[1], np.int64), np.zeros(groups.shape[1], np.int64)
    codes = _narrow(np.concatenate([groups[0], ahead[0]]))
    columns = {
        "name": pa.DictionaryArray.from_arrays(codes, pa.array(statistics.names, pa.binary())),
        "tick": _steps(np.concatenate([groups[1], ahead[1]])),
        "rows": _narrow(np.concatenate([groups[2], ones])),
        "time": _steps(np.concatenate([groups[3], ahead[3]])),
        "arrived": _steps(np.concatenate([zeros, ahead[2]])),
    }
    described = {_GROUPS: str(groups.shape[1]), _BY_TIME: str(int(statistics.by_time))}
    return pa.RecordBatch.from_pydict(columns).replace_schema_metadata(described)


def statistics_of_rows(rows: pa.RecordBatch, now: Instant = BEGINNING) -> ArrivalStatistics:
    """Read what was sent of rows that arrived now, unless a column says when."""
    described = rows.schema.metadata
    codes = rows.column("name").indices.to_numpy().astype(np.int64)
    ticks, times, arrived = (np.cumsum(_wide(rows, name)) for name in ("tick", "time", "arrived"))
    counts, first = _wide(rows, "rows"), int(described[_GROUPS])
    return ArrivalStatistics(
        tuple(rows.column("name").dictionary.to_pylist()),
        now,
        np.array([column[:first] for column in (codes, ticks, counts, times)]),
        np.array([column[first:] for column in (codes, ticks, arrived, times)]),
        bool(int(described[_BY_TIME])),
    )


def _steps(values: NDArray[np.int64]) -> pa.Array:
    """What each is more than the one before it; at the ends of int64 this wraps, and back again when it is added up."""
    return _narrow(np.diff(values, prepend=np.int64(0)))


def _narrow(values: NDArray[np.int64]) -> pa.Array:
    """Whole numbers in the narrowest type that holds them.

    >>> _narrow(np.array([3, -200])).type
    DataType(int16)
    """
    least, greatest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max:
            return pa.array(values.astype(kind))
    return pa.array(values)


def _wide(rows: pa.RecordBatch, name: str) -> NDArray[Any]:
    return rows.column(name).to_numpy().astype(np.int64)
