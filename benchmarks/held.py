"""Measures what a running query holds: the memory behind the state of its operators, and the memory of the process.

A state is a tree of tuples, dataclasses, NumPy arrays and Arrow data, and so is an operator. Many of them share memory,
or are views of more than they show. So what is counted is address ranges: of every array the whole memory that it keeps
alive, each byte once. Batches of a table are views of that table; `copied` hands out copies instead, so that a batch
that is held counts as itself and not as the whole input.

Not counted: what operators use while they run and do not remember (scratch space, rows on their way from step to step),
and Python's own objects but for sets of keys. The process's memory has all of it.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

BATCH_ROWS = 262_144
"""Rows of a copied batch: as many as the runner takes from a source at once."""

T = TypeVar("T")

Range: TypeAlias = tuple[int, int]
"""Where memory begins, and where it ends."""


def held_bytes(state: Any) -> int:
    """The bytes of memory that a state keeps alive, each counted once.

    >>> column = np.zeros(100)
    >>> held_bytes({"a": (column[:10], column[50:]), "b": pa.array(column)})
    800
    >>> key = b"a key"
    >>> held_bytes([{key}, key]) == sys.getsizeof({key}) + sys.getsizeof(key)
    True
    """
    keys = {id(one): one for one in _keys(state)}
    held, reached = sum(map(sys.getsizeof, keys.values())), 0
    for begin, end in sorted(set(_ranges(state))):
        held += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return held


def copied(columns: Mapping[str, NDArray[Any]], types: Mapping[str, pa.DataType]) -> pa.RecordBatchReader:
    """Read columns as batches that are made when they are asked for, in memory of their own."""
    rows = len(next(iter(columns.values())))
    schema = pa.schema([(name, types.get(name, pa.from_numpy_dtype(column.dtype))) for name, column in columns.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, BATCH_ROWS):
            arrays = [pa.array(column[first : first + BATCH_ROWS].copy()) for column in columns.values()]
            viewed = [array.view(field.type) for array, field in zip(arrays, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(viewed, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def resident_bytes(what: str = "VmRSS") -> int:
    """The memory of this process that is in use now (VmRSS), or the most that was since `forget_peak` (VmHWM)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status says nothing about {what}")


def forget_peak() -> None:
    """Let VmHWM begin anew with what is in use now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def growth(work: Callable[[], Any]) -> int:
    """By how many bytes this process grows, at its peak, while something is done: scratch space and all."""
    gc.collect()
    forget_peak()
    before = resident_bytes()
    work()
    return resident_bytes("VmHWM") - before


def in_fresh_process(work: Callable[..., T], *arguments: Any) -> T:
    """Do something in a process that has done nothing else, so that no memory lies about for it to use again."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def _ranges(value: Any) -> Iterator[Range]:
    """Walk a state, down to the memory behind it."""
    if isinstance(value, np.ndarray):
        yield from _behind_array(value)
    elif isinstance(value, pa.Buffer):
        yield _whole(value)
    else:
        for part in _parts(value):
            yield from _ranges(part)


def _keys(value: Any) -> Iterator[set[Any] | frozenset[Any] | bytes]:
    """Walk a state, down to the sets of keys that it has, and the keys in them."""
    if isinstance(value, set | frozenset | bytes):
        yield value
    if not isinstance(value, bytes | np.ndarray | pa.Buffer):
        for part in _parts(value):
            yield from _keys(part)


def _parts(value: Any) -> Iterable[Any]:
    """What a value consists of, one level down."""
    match value:
        case pa.RecordBatch() | pa.Table():
            return value.columns
        case pa.ChunkedArray():
            return value.chunks
        case pa.Array():
            words = [value.dictionary] if pa.types.is_dictionary(value.type) else []
            return [*(buffer for buffer in value.buffers() if buffer is not None), *words]
        case Mapping():
            return value.values()
        case tuple() | list() | set() | frozenset():
            return value
        case _:
            return [getattr(value, name) for name in _names_of(value) if hasattr(value, name)]


def _names_of(value: Any) -> Iterable[str]:
    """What a dataclass has; or an operator, room that it does not use yet included."""
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}


def _behind_array(array: NDArray[Any]) -> Iterator[Range]:
    """The memory that an array is a view of, whoever owns it."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        array, owner = owner, owner.base
    if isinstance(owner, pa.Array | pa.Buffer):
        yield from _ranges(owner)
    else:
        own = owner if isinstance(owner, np.ndarray) else array
        begin = int(own.__array_interface__["data"][0])
        yield begin, begin + own.nbytes


def _whole(buffer: pa.Buffer) -> Range:
    while buffer.parent is not None:
        buffer = buffer.parent
    return buffer.address, buffer.address + buffer.size
