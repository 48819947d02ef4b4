"""Where rows go that wait when they are too many for memory, and what is kept of them there: a number.

An operator reads no file. Whoever runs it brings a spillway: rows go in, and come back when they are asked for. On
Spark it is the state store, in which what waits is stored anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class SpilledRows:
    """Rows that lie elsewhere, under a number. Once read they stay in memory, until they are let go.

    >>> import pyarrow as pa
    >>> spilled = SpilledRows(7, lambda number: pa.record_batch({"x": [number]}))
    >>> spilled.in_memory, spilled.read().to_pydict()
    (None, {'x': [7]})
    """

    __slots__ = ("_fetch", "in_memory", "number")

    def __init__(
        self, number: int, fetch: Callable[[int], pa.RecordBatch], in_memory: pa.RecordBatch | None = None
    ) -> None:
        self.number = number
        self.in_memory = in_memory
        """The rows, if they have been read."""

        self._fetch = fetch

    def read(self) -> pa.RecordBatch:
        """The rows."""
        if self.in_memory is None:
            self.in_memory = self._fetch(self.number)
        return self.in_memory

    def let_go(self) -> None:
        """Keep the rows in memory no longer: whoever still wants them reads them again."""
        self.in_memory = None


class Spillway(Protocol):
    """Takes rows that wait."""

    @property
    def block_bytes(self) -> int:
        """How many bytes rows should have, about, that are put there together, and are read together."""
        ...

    def put(self, rows: pa.RecordBatch) -> SpilledRows:
        """Put rows there."""
        ...
