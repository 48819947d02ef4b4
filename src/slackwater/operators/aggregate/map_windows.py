"""Hands a user's function the rows of one window after the other, each window whole, and sends what it answers.

A window is here all events that share an interval. It is complete when no later event can start where it starts, as in
aggregate. Until then its rows wait in a sort, which hands them over in order of start, equal starts as they came; all
that is left to do is to cut them where the interval changes.

Invariants: everything held starts at or after complete_before; windows go to the function in order of (start, end),
each once, their rows in order of arrival. Neither depends on how the input was cut.
Cost: that of sort; one slice and one call for each window; one copy of the answers of a release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.errors import SchemaMismatch, StepFailed, message
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import no_columns
from slackwater.events.shown_values import show_row
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.sort import SortOperator, SortState
from slackwater.operators.stream_progress import StreamProgress
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

WindowFunction: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table]
"""What a user may write: from all rows of one window to any number of answers."""


def mapped_schema(schema: EventSchema, answers: pa.Schema, step: str = "map_windows") -> EventSchema:
    """Return the schema of the answers (time columns, then theirs), or refuse what cannot be."""
    times = [column.name for column in schema.time_columns()]
    names = [*times, *answers.names]
    for name in answers.names:
        if name in times:
            hint = f"answers get the times of their window by themselves; leave {' and '.join(times)} out of them"
            raise SchemaMismatch.clash(step, name, hint)
        if names.count(name) > 1:
            raise SchemaMismatch.clash(step, name, "give each column of the answer its own name")
    return schema.with_payload(answers, names)


def answered_rows(answer: Any) -> pa.RecordBatch:
    """Return an answer as one batch; refuse what is neither a batch nor a table."""
    if isinstance(answer, pa.RecordBatch):
        return answer
    if not isinstance(answer, pa.Table):
        raise TypeError(f"the function answered {type(answer).__name__}, not a pa.RecordBatch or pa.Table")
    if not answer.num_columns:
        return no_columns(answer.num_rows)
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in answer.columns], schema=answer.schema)


def in_planned_columns(answer: pa.RecordBatch, planned: pa.Schema) -> pa.RecordBatch:
    """Return an answer in the order and the types that were planned; refuse one that has other columns."""
    if answer.schema == planned:
        return answer
    if sorted(answer.schema.names) != sorted(planned.names):
        came, wanted = (", ".join(names) or "none" for names in (answer.schema.names, planned.names))
        raise ValueError(f"the function answered the columns {came}; planned were {wanted}")
    return answer.select(planned.names).cast(planned)


@dataclass(frozen=True)
class MapWindowsState:
    """What the step remembers: its input's progress, and the rows that wait."""

    progress: StreamProgress
    waiting: SortState


class MapWindowsOperator(Operator[MapWindowsState]):
    """Calls a function once per window. `ordered`: each event of the input closes the time before it.

    `answers` are the columns that the function must answer; columns of another order, or of types that can be cast
    without loss, are brought into theirs.
    """

    __slots__ = ("_function", "_no_answers", "_ordered", "_progress", "_schema", "_sort", "_step", "_where")
    state_types = (MapWindowsState, *SortOperator.state_types)

    def __init__(
        self,
        schema: EventSchema,
        function: WindowFunction,
        answers: pa.Schema,
        *,
        ordered: bool,
        step: str = "map_windows",
        resume: MapWindowsState | None = None,
    ) -> None:
        self._schema = schema
        self._function = function
        self._no_answers = mapped_schema(schema, answers, step).no_rows
        self._ordered = ordered
        self._step = step
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._sort = SortOperator(schema, step, resume.waiting if resume else None)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take the rows in; answer for the windows that the batch as a whole completes."""
        before = self._progress.complete_before
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        self._sort.on_batch(port, batch.data())
        bound = self._progress.complete_before
        if bound <= before:
            return NOTHING
        # The sort goes by punctuations alone; one of our own also passes on what follows from the order of the input.
        return self._send(self._sort.on_batch(port, punctuation_like(self._schema.no_rows, bound)), bound)

    def on_end(self, port: Port) -> Emission:
        """Answer for every window, and end the output."""
        return self._send(self._sort.on_end(port), FOREVER)

    def _send(self, complete: Emission, complete_before: Instant) -> Emission:
        answers = (self._answered(rows) for rows in complete.batches if rows.rows)
        return Emission.of(*answers, punctuation_like(self._no_answers, complete_before))

    def _answered(self, rows: EventBatch) -> EventBatch:
        """The answers for rows in order of start, each with the interval of its window."""
        rows = _by_interval(rows)
        firsts = _first_rows(rows)
        stops = np.append(firsts[1:], len(rows))
        shown = self._schema.show(rows)
        answers = [
            self._answer(shown.slice(first, stop - first), rows, first)
            for first, stop in zip(firsts.tolist(), stops.tolist(), strict=True)
        ]
        window = np.repeat(firsts, [answer.num_rows for answer in answers])
        return EventBatch(self._joined(answers), rows.start[window], None if rows.end is None else rows.end[window])

    def _answer(self, window: pa.RecordBatch, rows: EventBatch, first: int) -> pa.RecordBatch:
        try:
            return self._in_planned_columns(answered_rows(self._function(window)))
        except Exception as cause:
            held = f"{window.num_rows}, the first {show_row(window, 0)}"
            facts = {"window": self._interval(rows, first), "rows": held, "cause": f"{type(cause).__name__}: {cause}"}
            raise StepFailed(message(f"{self._where} failed", facts)) from cause

    def _in_planned_columns(self, answer: pa.RecordBatch) -> pa.RecordBatch:
        if not answer.num_columns and not answer.num_rows:
            return self._no_answers  # what Arrow makes of an empty list: it has no rows, in whatever columns
        return in_planned_columns(answer, self._no_answers.schema)

    def _joined(self, answers: list[pa.RecordBatch]) -> pa.RecordBatch:
        planned = self._no_answers.schema
        if not len(planned):
            return no_columns(sum(answer.num_rows for answer in answers))
        try:
            together = pa.concat_batches(answers)
        except pa.ArrowException as cause:  # such as dictionaries of more words than their numbers can distinguish
            raise StepFailed.at(self._step, None, None, cause) from cause
        return pa.RecordBatch.from_arrays(together.columns, schema=planned)

    def _interval(self, rows: EventBatch, row: int) -> str:
        start, end = (self._schema.time.show(int(times[row])) for times in (rows.start, rows.ends()))
        return start if self._schema.until is None else f"[{start}, {end})"

    def ignore_before(self, bound: Instant) -> None:
        """Leave out the windows that end at or before the bound: all their rows, past and future, do."""
        self._sort.ignore_before(bound)

    def of_interest_from(self, port: Port) -> Instant:
        """The same as behind the step."""
        return self._sort.of_interest_from(port)

    def peak_buffered(self) -> int:
        """The most rows that waited."""
        return self._sort.peak_buffered()

    def ignored_rows(self) -> int:
        """How many rows were left out."""
        return self._sort.ignored_rows()

    def idle_waiting_on(self) -> Port | None:
        """The input, while rows are held: a punctuation may complete their windows though no row comes."""
        return self._sort.idle_waiting_on()

    def buffered(self) -> int:
        """How many rows wait for their window to be complete."""
        return self._sort.buffered()

    def snapshot(self) -> MapWindowsState:
        """Return what waits. Cost: that of a sort's; no row is copied."""
        return MapWindowsState(self._progress, self._sort.snapshot())

    def check(self) -> None:
        """Assert the invariants."""
        self._sort.check()
        punctuated = self._sort.snapshot().progress.punctuated
        assert punctuated == self._progress.complete_before, (punctuated, self._progress)


def _by_interval(rows: EventBatch) -> EventBatch:
    """Bring rows that are ordered by start in order of (start, end); copies nothing that is."""
    if rows.end is None:
        return rows
    start, end = rows.start, rows.end
    back = (end[1:] < end[:-1]) & (start[1:] == start[:-1])
    return rows.take_rows(np.lexsort((end, start))) if back.any() else rows


def _first_rows(rows: EventBatch) -> NDArray[np.int64]:
    """The number of the first row of each window."""
    change = rows.start[1:] != rows.start[:-1]
    if rows.end is not None:
        change |= rows.end[1:] != rows.end[:-1]
    return np.append(0, np.flatnonzero(change) + 1)
