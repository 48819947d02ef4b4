"""A live source: rows are pushed into it, from any thread, while a query reads it.

Invariant: arrivals are stamped, and punctuations of the present made, under one lock; so no row can get a stamp that is
older than a punctuation made before it came.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from slackwater.errors import PlanError, SlackwaterError, SourceFailed, message
from slackwater.progress.clock import Clock, SystemClock
from slackwater.progress.instants import BEGINNING, Instant
from slackwater.sources.rows import batch_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.plan.feed import Pushes

Rows: TypeAlias = "pa.RecordBatch | pa.Table | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
"""What may be pushed: Arrow data, one row as a mapping, or several."""

BACKLOG = 16
"""So many waiting pushes are taken together. Of fewer each goes all the way by itself: the first is out sooner, and one
that stops the query does not take those before it along."""

_FAILED = "its feeder called fail(); mend that, and open a new query"
CAPACITY = 1_000_000
"""How many rows may wait by default before push() blocks: about 100 MB of rows of 100 bytes."""


class PushSource:
    """A feed that its owner pushes rows into and closes at the end.

    Where rows cost something to make, the feeder may look at `wanted_from` first, from any thread: rows that end at or
    before it are of no interest to the query any more. Those that are pushed all the same are left out, and counted.

    `push` blocks while `capacity` rows wait: a query that cannot keep up slows its feeders down. What is pushed at once
    is taken whole. A callback of the query must not push into a source that may be full: nobody would empty it.

    >>> source = PushSource({"x": pa.int64()}, name="clicks")
    >>> source.push({"x": 1})
    >>> source.close()
    >>> source.waiting
    1
    """

    live = True

    def __init__(
        self, schema: pa.Schema | Mapping[str, pa.DataType], *, name: str = "push", capacity: int = CAPACITY
    ) -> None:
        if not isinstance(capacity, int) or capacity < 1:
            raise PlanError(message("capacity is a number of rows above zero", {"got": repr(capacity)}))
        self.schema: pa.Schema = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        self.name = name
        self._capacity = capacity
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._arrived: deque[tuple[pa.RecordBatch, Instant]] = deque()
        self._rows = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._clock: Clock = SystemClock()
        self._wake: Callable[[], None] = _nobody
        self._opened = False
        self._wanted_from: Instant = BEGINNING

    @property
    def waiting(self) -> int:
        """How many rows have been pushed and not taken yet."""
        return self._rows

    @property
    def wanted_from(self) -> Instant:
        """Rows that end at or before this are of no interest any more; BEGINNING while all are. It never goes back."""
        return self._wanted_from

    @property
    def closed(self) -> bool:
        """Whether somebody closed it: its feeder, or the query that read it."""
        return self._closed

    @property
    def ended(self) -> bool:
        """Whether it was closed and everything was taken; one that failed never ends."""
        return self._closed and not self._arrived and self._failure is None

    def push(self, rows: Rows, timeout: float | None = None) -> None:
        """Add rows; they arrive now. Blocks while the source is full, at most `timeout` seconds.

        - `rows`: a mapping, a list of mappings, an Arrow table or a batch, of the columns of the source.

        >>> source = PushSource({"x": pa.int64()}, capacity=2)
        >>> source.push([{"x": 1}, {"x": 2}])
        >>> try:
        ...     source.push({"x": 3}, timeout=0)
        ... except TimeoutError:
        ...     print("full")
        full
        """
        batches = [self._checked(batch) for batch in self._as_batches(rows) if batch.num_rows]
        with self._lock:
            for taken, batch in enumerate(batches):
                if self._rows >= self._capacity:
                    self._wake()  # the query must know of the rows that fill the source before its feeder waits
                if not self._has_room.wait_for(self._is_over_or_has_room, timeout):
                    done = sum(earlier.num_rows for earlier in batches[:taken])
                    facts = {"source": self.name, "rows waiting": self._rows, "rows of this push taken": done}
                    hint = "the query is slower than its feeder, or nobody runs it"
                    raise TimeoutError(message("push waited too long for room", facts, hint))
                if self._failure is not None:
                    raise SlackwaterError(message("rows were pushed into a source that failed", {"source": self.name}))
                if self._closed:
                    raise SlackwaterError(message("rows were pushed into a closed source", {"source": self.name}))
                self._arrived.append((batch, self._clock.now()))
                self._rows += batch.num_rows
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Say that the feeder has died: no more rows will come, and those that came are not all there should be.

        The query takes what was pushed before, and then stops with SourceFailed, whose cause is the error. Closing
        instead would mean that everything was sent. May be called from any thread; only the first failure counts.

        >>> source = PushSource({"x": pa.int64()}, name="clicks")
        >>> source.fail(ConnectionError("the broker is gone"))
        >>> source.poll(10)
        Traceback (most recent call last):
        slackwater.errors.SourceFailed: a source could not be read
            source  clicks
            cause   ConnectionError: the broker is gone
            hint: its feeder called fail(); mend that, and open a new query
        """
        if not isinstance(error, BaseException):
            hint = 'pass the exception: except Exception as error: source.fail(error), or RuntimeError("what happened")'
            raise SlackwaterError(message("a source fails with an error", {"got": repr(error)}, hint))
        with self._lock:
            if self._closed:
                raise SlackwaterError(message("a source that is closed cannot fail any more", {"source": self.name}))
            self._failure = self._failure or error
            self._has_room.notify_all()
        self._wake()

    def close(self) -> None:
        """Say that no more rows will come.

        >>> source = PushSource({"x": pa.int64()})
        >>> source.close()
        >>> source.ended
        True
        """
        with self._lock:
            self._closed = True
            self._has_room.notify_all()
        self._wake()

    def open(self, clock: Clock, wake: Callable[[], None]) -> PushSource:
        """Start reading, once: rows pushed before are taken to arrive now, later ones by this clock."""
        with self._lock:
            if self._opened:
                hint = "a push source feeds one query; use the stream twice within one plan instead"
                raise SlackwaterError(message("this push source is being read already", {"source": self.name}, hint))
            self._opened = True
            self._clock, self._wake = clock, wake
            now = clock.now()
            self._arrived = deque((batch, now) for batch, _ in self._arrived)
        return self

    def poll(self, max_rows: int) -> tuple[pa.RecordBatch, Instant] | None:
        """Take the next rows that arrived together."""
        with self._lock:
            return self._take(max_rows) if self._has_some() else None

    def poll_together(self, max_rows: int) -> Pushes | None:
        """Take all pushes that wait, up to so many rows, each with its arrival; where few wait, only the first."""
        with self._lock:
            taken: Pushes = []
            at_most = len(self._arrived) if len(self._arrived) >= BACKLOG else 1
            while max_rows > 0 and len(taken) < at_most and (self._arrived if taken else self._has_some()):
                taken.append(self._take(max_rows))
                max_rows -= taken[-1][0].num_rows
            return taken or None

    def _has_some(self) -> bool:
        """Whether rows wait; when all have been taken, the failure of the feeder is raised, if there was one."""
        if not self._arrived and self._failure is not None:
            raise SourceFailed.unreadable(self.name, self._failure, _FAILED) from self._failure
        return bool(self._arrived)

    def _take(self, max_rows: int) -> tuple[pa.RecordBatch, Instant]:
        batch, arrived = self._arrived.popleft()
        if batch.num_rows > max_rows:
            self._arrived.appendleft((batch.slice(max_rows), arrived))
            batch = batch.slice(0, max_rows)
        was_full = self._rows >= self._capacity
        self._rows -= batch.num_rows
        if was_full:
            self._has_room.notify_all()
        return batch, arrived

    def ignore_before(self, bound: Instant) -> None:
        """Show feeders that rows which end at or before the bound are of no interest: the query says so."""
        self._wanted_from = bound

    def quiet_until(self) -> Instant | None:
        """Return the present when nothing waits: whatever comes later will be stamped later. None after the end."""
        with self._lock:
            return None if self._arrived or self._closed or self._failure else self._clock.now()

    def _is_over_or_has_room(self) -> bool:
        return self._rows < self._capacity or self._closed or self._failure is not None

    def _as_batches(self, rows: Rows) -> list[pa.RecordBatch]:
        if isinstance(rows, pa.RecordBatch):
            return [rows]
        if isinstance(rows, pa.Table):
            return rows.to_batches()
        if isinstance(rows, Mapping):
            return [batch_of_rows([rows], self.schema, self.name)]
        if not isinstance(rows, Iterable):
            facts, hint = (
                {"source": self.name, "got": repr(rows)},
                "push a mapping, mappings, or an Arrow table or batch",
            )
            raise SourceFailed(message("these are no rows", facts, hint))
        return [batch_of_rows(list(rows), self.schema, self.name)]

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema != self.schema:
            raise SourceFailed.other_columns(
                self.name, ", ".join(map(str, self.schema)), ", ".join(map(str, batch.schema))
            )
        return batch


def _nobody() -> None:
    """Wakes nobody: no query reads the source yet."""
