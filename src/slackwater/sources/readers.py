"""Feeds that are read to their end: Arrow tables and readers, pandas frames, files, Python iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from slackwater.progress.clock import Clock
    from slackwater.progress.instants import Instant

Batches: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]
"""Starts a reading: each call gives all batches from the beginning."""


def _unknown() -> None:
    """Nobody knows how many rows there are before they are read."""


@dataclass(frozen=True, eq=False)
class ReadFeed:
    """A feed with an end, in order of arrival."""

    name: str
    schema: pa.Schema
    batches: Batches
    rows_if_known: Callable[[], int | None] = _unknown
    """How many rows there are, where that is known before they are read; for who shows how far a run has come."""

    live = False

    def open(self, clock: Clock, wake: Callable[[], None]) -> BatchReader:  # noqa: ARG002 - rows never come later
        """Start a reading from the beginning."""
        return BatchReader(iter(self.batches()), clock)


class BatchReader:
    """Hands out batches no larger than asked for, cutting without copying."""

    __slots__ = ("_batches", "_clock", "_left", "ended")

    def __init__(self, batches: Iterator[pa.RecordBatch], clock: Clock) -> None:
        self._batches = batches
        self._clock = clock
        self._left: pa.RecordBatch | None = None
        self.ended = False

    def poll(self, max_rows: int) -> tuple[pa.RecordBatch, Instant] | None:
        """Return the next rows, at most max_rows of them. The end is known when there are none."""
        batch = self._left
        while batch is None or not batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                self.ended = True
                return None
        self._left = batch.slice(max_rows) if batch.num_rows > max_rows else None
        return batch.slice(0, max_rows), self._clock.now()

    def quiet_until(self) -> Instant | None:
        """A reading that has not ended always has rows waiting."""
        return None

    def close(self) -> None:
        """Drop the reading; files close with it."""
        self._left = None
        self._batches = iter(())
        self.ended = True


class ReadOnce:
    """Batches of a one-way reader or generator: it can be read once, and says so the second time."""

    def __init__(self, batches: Iterable[pa.RecordBatch], name: str) -> None:
        self._batches: Iterable[pa.RecordBatch] | None = batches
        self._name = name

    def __call__(self) -> Iterable[pa.RecordBatch]:
        """Hand over the batches, the first time."""
        batches, self._batches = self._batches, None
        if batches is None:
            hint = "make a new stream from a fresh reader, or from a table"
            raise PlanError(message("this source can be read only once, and was", {"source": self._name}, hint))
        return batches
