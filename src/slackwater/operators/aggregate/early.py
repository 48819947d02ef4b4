"""Computes aggregates of all events that share an interval and keys, emits them at once, and revises them later.

The answers are those of aggregate, and so are the groups; but nobody waits for them. After each batch every group that
is new or has another answer now is emitted: what was emitted of it is removed, the new answer is inserted. A group that
can get no more rows, because its start lies before `complete_before`, is forgotten: its last answer stands.

    batch   rows ... punctuation(t) rows ...
    out     changes by the rows before it, punctuation(t), changes by the rows after it

A punctuation t is true of the output as of the input: whatever is emitted later, removals too, concerns a group that
starts at t or after. Of several punctuations in a batch only the furthest is passed on: the others
add nothing to it.

Invariants: the table of the output is at any time the aggregate of all rows so far, and at a punctuation that of all
rows before it; so neither depends on how the input was cut. How often an answer is emitted on the way there does.
Cost: O(rows in), and what the groups that they touch hold; see current_groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import WORD, RowCodec
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import gather
from slackwater.events.kinds import Kind
from slackwater.kernels.columns.number_rows import compare_rows
from slackwater.operators.aggregate.aggregate import aggregate_schema
from slackwater.operators.aggregate.current_groups import CurrentGroups, identity_codec, lay_end_to_end
from slackwater.operators.aggregate.partials import Partial, PartialState
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.operators.emission import Emission
from slackwater.operators.operator import Operator
from slackwater.operators.stream_progress import StreamProgress, insert_only
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.current_groups import Update
    from slackwater.policies.aggregates import Aggregate
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


def early_schema(
    schema: EventSchema, keys: Sequence[str], aggregates: Mapping[str, Aggregate], step: str = "aggregate_early"
) -> EventSchema:
    """Return the schema of the answers, that of an aggregate, or refuse answers that could not be distinguished."""
    answers = aggregate_schema(schema, keys, aggregates, step)
    RowCodec(answers.payload, step)
    return answers


@dataclass(frozen=True)
class EarlyAggregateState:
    """What is remembered: the input's progress, the open groups, and how far the output is complete."""

    progress: StreamProgress
    partials: tuple[PartialState, ...]
    punctuated_until: Instant


class EarlyAggregateOperator(Operator[EarlyAggregateState]):
    """Groups by interval and keys. `ordered`: each event of the input closes the time before it."""

    __slots__ = (
        "_answers",
        "_grouping",
        "_groups",
        "_no_rows",
        "_ordered",
        "_peak",
        "_progress",
        "_punctuated_until",
        "_where",
    )
    state_types = (EarlyAggregateState, PartialState, StreamProgress)

    def __init__(
        self,
        schema: EventSchema,
        keys: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        *,
        ordered: bool = False,
        step: str = "aggregate_early",
        resume: EarlyAggregateState | None = None,
    ) -> None:
        self._grouping = Grouping.of(schema.payload, keys, aggregates, step)
        self._no_rows = early_schema(schema, keys, aggregates, step).no_rows
        self._answers = RowCodec(pa.schema([recipe.answer for recipe in self._grouping.recipes]), step)
        self._ordered = ordered
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        partials = [Partial.restored(one, self._grouping) for one in (resume.partials if resume else ())]
        self._groups = CurrentGroups(identity_codec(self._grouping, step), partials)
        self._punctuated_until = resume.punctuated_until if resume else BEGINNING
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Emit what the rows change, those before the furthest punctuation first, and pass that on between."""
        assert insert_only(batch), "an aggregated stream has no adjusts"
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        emitted, rest, punctuated_at = [], batch, batch.punctuated_at()
        if len(punctuated_at):
            furthest = int(punctuated_at[np.argmax(batch.start[punctuated_at])])
            bound = int(batch.start[furthest])
            if bound > self._punctuated_until:
                emitted = [*self._update(batch.slice(0, furthest)), *self._punctuate(bound)]
                rest = batch.slice(furthest, len(batch))
        emitted += self._update(rest)
        # On an ordered input the rows themselves are further than the punctuations.
        emitted += self._punctuate(self._progress.complete_before)
        return Emission(tuple(emitted))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Forget every group, and end the output: no answer will change any more."""
        return Emission(tuple(self._punctuate(FOREVER)))

    def _punctuate(self, complete_before: Instant) -> list[EventBatch]:
        if complete_before <= self._punctuated_until:
            return []
        self._punctuated_until = complete_before
        self._groups.release(complete_before)
        return [punctuation_like(self._no_rows, complete_before)]

    def _update(self, stretch: EventBatch) -> list[EventBatch]:
        """Take in the rows of a stretch, and emit the answers that are other now, in order of their groups."""
        if not stretch.rows:
            return []
        update = self._groups.update(Partial.of(stretch.data(), self._grouping))
        self._peak = max(self._peak, len(self._groups))
        answers = lay_end_to_end([update.before, update.now]).finish(self._where)
        removed, inserted = self._changes(update, answers)
        if not len(inserted):
            return []
        former = len(update.before)
        rows = np.concatenate([removed, former + inserted])
        # A group's removal stands right before its new answer.
        rows = rows[np.argsort(np.concatenate([2 * update.places[removed], 2 * inserted + 1]))]
        payload, start, end = gather(answers.payload, rows), answers.start[rows], answers.ends()[rows]
        if not len(removed):
            return [EventBatch.inserts(payload, start, end)]
        is_removal = rows < former
        kind = np.where(is_removal, np.int8(Kind.ADJUST), np.int8(Kind.INSERT))
        return [EventBatch(payload, start, np.where(is_removal, start, end), kind, prior_end=end)]

    def _changes(self, update: Update, answers: EventBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which groups of `before` have another answer now, and which groups of `now` are to be emitted."""
        former = len(update.before)
        unchanged = np.zeros(former, dtype=np.bool_)
        if former:
            # Their keys are the same.
            rows = self._answers.encode(answers.payload.select([what.answer.name for what in self._grouping.recipes]))
            ones, others = np.arange(former), former + update.places
            compare_rows(rows.offsets // WORD, rows.words, ones, others, unchanged)
        to_emit = np.ones(len(update.now), dtype=np.bool_)
        to_emit[update.places[unchanged]] = False
        return np.flatnonzero(~unchanged), np.flatnonzero(to_emit)

    def buffered(self) -> int:
        """How many groups are open. They wait for nothing: all of them were emitted."""
        return len(self._groups)

    def peak_buffered(self) -> int:
        """The most groups that were open, before those that a batch completes were forgotten."""
        return self._peak

    def snapshot(self) -> EarlyAggregateState:
        """Return the open groups. Cost: O(log n); no row is copied."""
        partials = tuple(partial.snapshot() for partial in self._groups.snapshot())
        return EarlyAggregateState(self._progress, partials, self._punctuated_until)

    def check(self) -> None:
        """Assert the invariants."""
        self._groups.check()
        punctuated = self._punctuated_until
        assert punctuated in {FOREVER, self._progress.complete_before}, (punctuated, self._progress)
        for partial in self._groups.snapshot():
            assert partial.starts[0] >= punctuated, (partial.starts[0], punctuated)
