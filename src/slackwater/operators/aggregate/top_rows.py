"""The greatest rows of a window in rank order, as a function over windows: the same answer however the rows came.

Rows are ranked by one column, greatest first. Where that leaves a tie all other columns decide, from left to right, the
least first; at the very end the bits of floats do, for 0.0 and -0.0 are equal and yet not the same. So the order of the
answers follows from what the rows are, which is what case R1 of LMerge asks of replicas.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections IV-A and IV-D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

_BITS: Final = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
"""The integers that are as long as floats."""


@dataclass(frozen=True)
class TopRows:
    """The k rows of a window that are greatest in one column. Nulls come last, and NaNs just before them.

    >>> rows = pa.record_batch({"v": [3, 9, None, 9], "who": ["ann", "bob", "cid", "ann"]})
    >>> TopRows(3, "v", ("who", "v"))(rows).to_pylist()
    [{'who': 'ann', 'v': 9}, {'who': 'bob', 'v': 9}, {'who': 'ann', 'v': 3}]
    """

    k: int
    by: str
    columns: tuple[str, ...]
    """What is answered of each row."""

    @property
    def __name__(self) -> str:
        """What explain() calls it."""
        return f"{self.k} by {self.by}"

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rank the rows of a window. Cost: a sort of them; other columns are compared where there are ties."""
        rows = rows.select(self.columns)
        keys = [rows.column(self.by), *(column for name, column in _named(rows) if name != self.by)]
        keys = [sortable(key) for key in keys]
        keys += [key.view(_BITS[key.type]) for key in keys if key.type in _BITS]
        names = [str(number) for number in range(len(keys))]
        order = [(name, "descending" if name == "0" else "ascending") for name in names]
        ranked = pc.sort_indices(pa.record_batch(keys, names), sort_keys=order)
        return rows.take(ranked.slice(0, self.k))


def sortable(column: pa.Array) -> pa.Array:
    """The values of a column as Arrow can compare them; words instead of their numbers.

    Arrow cannot compare floats of 16 bits; all of them are floats of 32, too.
    """
    if pa.types.is_dictionary(column.type):
        return sortable(column.dictionary_decode())
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column


def can_be_ranked(kind: pa.DataType) -> bool:
    """Whether Arrow can bring values of a type in order."""
    try:
        pc.sort_indices(sortable(pa.array([], kind)))
    except pa.ArrowException:
        return False
    return True


def _named(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(rows.schema.names, rows.columns, strict=True)
