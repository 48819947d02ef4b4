"""What a plan and its runners ask of a source of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from slackwater.progress.clock import Clock
    from slackwater.progress.instants import Instant


class Reader(Protocol):
    """One reading of a feed, from its beginning; used by one runner."""

    def poll(self, max_rows: int) -> tuple[pa.RecordBatch, Instant] | None:
        """Return the next rows and the instant they arrived; None when there are none now."""
        ...

    def quiet_until(self) -> Instant | None:
        """Return the present instant when no row waits that arrived before it; None when one does."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no row will ever come any more."""
        ...

    def close(self) -> None:
        """Release files and other resources."""
        ...


Pushes: TypeAlias = "list[tuple[pa.RecordBatch, Instant]]"
"""Rows that arrived one after the other, each batch with the instant of its arrival."""


@runtime_checkable
class GivesTogether(Protocol):
    """A reader of rows that may come in many small pushes, and can be taken together."""

    def poll_together(self, max_rows: int) -> Pushes | None:
        """Return the next pushes, in order, as many as have at most so many rows; None when there are none now."""
        ...


@runtime_checkable
class HeedsFeedback(Protocol):
    """A reader that wants to know which rows nobody is interested in."""

    def ignore_before(self, bound: Instant) -> None:
        """Learn that rows which end at or before the bound are of no interest; they may still be given."""
        ...


class Feed(Protocol):
    """A source of rows, in order of arrival."""

    @property
    def name(self) -> str:
        """What messages and explain() call it."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        ...

    @property
    def live(self) -> bool:
        """Whether rows come while the query runs, so that it may be empty without having ended."""
        ...

    def open(self, clock: Clock, wake: Callable[[], None]) -> Reader:
        """Start a reading. A live reader stamps arrivals by the clock and calls `wake` when rows come or it ends."""
        ...
