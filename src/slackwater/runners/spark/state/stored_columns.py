"""Columns of a state, as they are stored: as rows, for a segment of their own, or as text, where they are small.

    NumPy arrays    one column of their bytes; type and shape are written beside it
    Arrow arrays    one column
    Arrow tables    rows of one batch
    record batches  as they are

Arrays come back read-only, large ones and small ones alike: nobody may write to what is stored.
Cost: nothing is copied, but for arrays with gaps and tables of several pieces when they are stored.
"""

from __future__ import annotations

import ast
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from slackwater.events.gather import no_rows
from slackwater.runners.spark.wire.arrow_bytes import from_buffer, to_buffer
from slackwater.runners.spark.wire.chunks import places_of_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Leaf: TypeAlias = "np.ndarray[Any, Any] | pa.RecordBatch | pa.Array | pa.Table"
"""Columns that are stored together. They are never changed, so that the same object is the same."""

Described: TypeAlias = "Mapping[str, Any]"
"""What columns were before they were rows or text, in values that JSON can say."""


def is_leaf(value: object) -> TypeGuard[Leaf]:
    """Whether a value is stored as columns. An array of Python's objects is not: they are no bytes."""
    if type(value) is np.ndarray:
        return not value.dtype.hasobject
    return isinstance(value, (pa.RecordBatch, pa.Array, pa.Table))


def description_of(leaf: Leaf) -> Described:
    """Say what columns are.

    >>> description_of(np.zeros((2, 3)))
    {'as': 'array', 'type': '<f8', 'shape': [2, 3]}
    >>> description_of(pa.array([1, 2]))
    {'as': 'column'}
    """
    if isinstance(leaf, np.ndarray):
        return {"as": "array", "type": str(np.lib.format.dtype_to_descr(leaf.dtype)), "shape": list(leaf.shape)}
    if isinstance(leaf, pa.Array):
        return {"as": "column"}
    return {"as": "table" if isinstance(leaf, pa.Table) else "rows"}


def rows_of(leaf: Leaf) -> pa.RecordBatch:
    """The rows that are stored for columns.

    >>> rows_of(pa.array(["a", "b"])).to_pydict()
    {'column': ['a', 'b']}
    >>> rows_of(np.array([[1], [2]], dtype=np.uint8)).to_pydict()
    {'column': [1, 2]}
    """
    if isinstance(leaf, pa.RecordBatch):
        return leaf
    if isinstance(leaf, pa.Table):
        pieces = leaf.to_batches() or [no_rows(leaf.schema)]
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    if isinstance(leaf, np.ndarray):
        leaf = pa.array(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8))
    return pa.record_batch([leaf], names=["column"])


def parts_of(leaf: Leaf) -> list[pa.RecordBatch]:
    """The same rows in parts, each no larger than a chunk, unless a row is.

    >>> [part.num_rows for part in parts_of(np.zeros(1_000_000))]
    [4194304, 3805696]
    """
    rows = rows_of(leaf)
    return [rows.slice(first, stop - first) for first, stop in places_of_chunks(rows)]


def text_of(leaf: Leaf) -> str:
    """Write columns out: arrays as their bytes, others with the names and types that rows have."""
    return b64encode(leaf.tobytes() if isinstance(leaf, np.ndarray) else to_buffer(rows_of(leaf))).decode()


def leaf_of_rows(described: Described, rows: pa.RecordBatch) -> Leaf:
    """Make columns again of the rows that were stored for them; ValueError where these do not fit the description.

    >>> column = pa.array(["a", None])
    >>> leaf_of_rows(description_of(column), rows_of(column)).equals(column)
    True
    """
    match described:
        case {"as": "array", "type": str(kind), "shape": list(shape)}:
            return _array_of(rows.column(0).to_numpy(), kind, shape)
        case {"as": "column"}:
            return rows.column(0)
        case {"as": "table"}:
            return pa.Table.from_batches([rows])
        case {"as": "rows"}:
            return rows
    raise ValueError(f"nothing is stored as {dict(described)}")


def leaf_of_text(described: Described, text: str) -> Leaf:
    """Make columns again that were written out; ValueError where the text does not fit the description.

    >>> grid = np.array([[1, 2], [3, 4]])
    >>> leaf_of_text(description_of(grid), text_of(grid)).tolist()
    [[1, 2], [3, 4]]
    """
    data = b64decode(text, validate=True)
    match described:
        case {"as": "array", "type": str(kind), "shape": list(shape)}:
            return _array_of(data, kind, shape)
    return leaf_of_rows(described, from_buffer(data))


def _array_of(data: bytes | np.ndarray[Any, Any], kind: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    # A type with fields is written as a list of their names and types.
    described: Any = ast.literal_eval(kind) if kind.startswith("[") else kind
    return np.frombuffer(data, np.lib.format.descr_to_dtype(described)).reshape(shape)
