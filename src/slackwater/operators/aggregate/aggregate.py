"""Computes aggregates of all events that share an interval and keys, and emits each once, when it is complete.

A group is complete when no later event can start where it starts: when its start lies before `complete_before`.
Known by punctuations, or by the events themselves on an ordered input; so the operator needs progress, not order.
After a window that is the answer per window. For intervals that overlap, see cut_at_changes.

Where windows overlap, events may be summed up by panes instead, which do not: a window's answer is merged from those of
its panes when it is complete.

Groups that end before time that is of interest are forgotten, and not answered; no other answer depends on them.

Invariants: every open group starts at or after complete_before; output is ordered by (start, end), and groups of one
interval come in the order in which they first appeared. Both do not depend on how the input was cut.
Cost: O(rows in and out) times the logarithm of what waits; punctuations inside a batch cost no grouping of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.errors import SchemaMismatch
from slackwater.events.batch import punctuation_like
from slackwater.operators.aggregate.open_groups import OpenGroups
from slackwater.operators.aggregate.partials import Partial, PartialState
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.operators.emission import Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.shares import require_alike
from slackwater.operators.stream_progress import StreamProgress, insert_only
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.operators.aggregate.panes import Panes
    from slackwater.policies.aggregates import Aggregate
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


def aggregate_schema(
    schema: EventSchema, keys: Sequence[str], aggregates: Mapping[str, Aggregate], step: str = "aggregate"
) -> EventSchema:
    """Return the schema after an aggregation (time columns, keys, aggregates), or refuse what cannot work."""
    grouping = Grouping.of(schema.payload, keys, aggregates, step)
    times = [column.name for column in schema.time_columns()]
    for name in aggregates:
        if name in times:
            raise SchemaMismatch.clash(step, name, "give the aggregate another name than the time column")
    return schema.with_payload(grouping.payload, [*times, *grouping.payload.names])


@dataclass(frozen=True)
class AggregateState:
    """What an aggregation remembers: its input's progress, the open groups, and how far its output is complete."""

    progress: StreamProgress
    partials: tuple[PartialState, ...]
    emitted_until: Instant


class AggregateOperator(InterestedOperator[AggregateState]):
    """Groups by interval and keys. `ordered`: each event of the input closes the time before it.

    With `panes` the intervals of events are panes, and the answers are those of the windows made of them.
    """

    __slots__ = (
        "_done_before", "_emitted_until", "_grouping", "_no_rows", "_open", "_ordered", "_panes", "_peak", "_progress",
        "_where",
    )  # fmt: skip
    state_types = (AggregateState, PartialState, StreamProgress)
    splits = True

    def __init__(
        self,
        schema: EventSchema,
        keys: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        *,
        ordered: bool,
        step: str = "aggregate",
        resume: AggregateState | None = None,
        panes: Panes | None = None,
    ) -> None:
        super().__init__()
        self._panes = panes
        self._done_before = BEGINNING
        self._grouping = Grouping.of(schema.payload, keys, aggregates, step)
        self._no_rows = aggregate_schema(schema, keys, aggregates, step).no_rows
        self._ordered = ordered
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._open = OpenGroups(Partial.restored(one, self._grouping) for one in (resume.partials if resume else ()))
        self._emitted_until = resume.emitted_until if resume else BEGINNING
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Fold the rows into their groups, and release the groups that the batch as a whole completes."""
        assert insert_only(batch), "an aggregated stream has no adjusts"
        before = self._complete_before()
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        bound, held = self._complete_before(), len(self._open)
        done = self._open.release(bound) if self._panes is None else []
        rows = self._of_interest(batch.data()) if batch.rows else batch
        if rows.rows:
            groups = Partial.of(rows, self._grouping)
            self._peak = max(self._peak, held + len(groups))
            complete, still_open = groups.split(bound if self._panes is None else BEGINNING)
            done += [complete] if len(complete) else []
            self._open.add(still_open)
        if self._panes is None:
            return self._send([Partial.merge(done)] if done else [], bound)
        return self._send(self._windows(before, bound), bound)

    def add_groups(self, rows: EventBatch, form: GroupRows) -> None:
        """Take in groups of events that were summed up elsewhere, of which nothing is complete yet.

        >>> import pyarrow as pa
        >>> import slackwater as sw
        >>> from slackwater.events.batch import EventBatch
        >>> from slackwater.operators.aggregate.group_rows import GroupRows
        >>> windows = sw.stream([{"at": 1, "k": "a"}], time="at").tumbling(10).node.schema
        >>> form = GroupRows(windows, ("k",), {"n": sw.count()}, "example")
        >>> events = EventBatch.inserts(pa.record_batch({"at": [1, 4], "k": ["a", "a"]}), [0, 0], [10, 10])
        >>> aggregate = AggregateOperator(windows, ("k",), {"n": sw.count()}, ordered=False)
        >>> aggregate.add_groups(form.rows(form.summed_up(events)), form)
        >>> [answer.payload.to_pydict() for answer in aggregate.on_end(0).batches if answer.rows]
        [{'k': ['a'], 'n': [2]}]
        """
        rows = self._of_interest(rows)
        if not rows.rows:
            return
        groups = form.partial(rows)
        assert groups.starts[0] >= self._complete_before(), "a group that is complete was answered"
        self._peak = max(self._peak, len(self._open) + len(groups))
        self._open.add(groups)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release every group, and end the output."""
        if self._panes is not None:
            return self._send(self._windows(self._complete_before(), FOREVER), FOREVER)
        done = self._open.release(FOREVER)
        return self._send([Partial.merge(done)] if done else [], FOREVER)

    def _complete_before(self) -> Instant:
        """All groups that start before this instant are complete."""
        bound = self._progress.complete_before
        return bound if self._panes is None else self._panes.punctuation(bound)

    def _windows(self, since: Instant, bound: Instant) -> list[Partial]:
        """The windows that start between two bounds; panes that none of the later ones needs are forgotten."""
        assert self._panes is not None
        panes = self._open.release(self._panes.needed_before(bound)) if bound > since else []
        if not panes:
            return []
        merged = Partial.merge(panes)
        self._open.add(merged.split(bound)[1])
        return list(self._panes.windows(merged, since, bound))

    def _send(self, done: list[Partial], complete_before: Instant) -> Emission:
        batches = [groups.finish(self._where) for groups in done]
        if batches:
            self._emitted_until = max(self._emitted_until, int(batches[-1].start[-1]))
            batches = [answers for answers in map(self._wanted, batches) if len(answers)]
        if complete_before > self._emitted_until:
            self._emitted_until = complete_before
            batches.append(punctuation_like(self._no_rows, complete_before))
        return Emission(tuple(batches))

    def ignore_before(self, bound: Instant) -> None:
        """Forget the groups that end at or before the bound: all their rows, past and future, are of no interest."""
        super().ignore_before(bound)
        if self._panes is None:
            self._open.forget_ended(self._interest.since)
        else:
            self._done_before = self._panes.window.done_before(self._interest.since)
            self._open.release(self._done_before)

    def of_interest_from(self, port: Port) -> Instant:
        """Panes before the first of the first window that is."""
        return super().of_interest_from(port) if self._panes is None else self._done_before

    def _of_interest(self, rows: EventBatch) -> EventBatch:
        if self._panes is None:
            return self._interest.rows_of(rows)
        return rows if self._done_before == BEGINNING else self._interest.keep(rows, rows.start >= self._done_before)

    def _wanted(self, answers: EventBatch) -> EventBatch:
        """The answers that are of interest: a group that was not forgotten may have ended all the same."""
        since = self._interest.since
        return answers if since == BEGINNING else answers.keep_rows(answers.ends() > since)

    def idle_waiting_on(self) -> Port | None:
        """The input, while groups are open: a punctuation may close them though no event comes."""
        return 0 if len(self._open) else None

    def buffered(self) -> int:
        """How many groups are open, counted once in each partial that has them."""
        return len(self._open)

    def peak_buffered(self) -> int:
        """The most groups that there were at once: those of a batch beside those that were open."""
        return self._peak

    def snapshot(self) -> AggregateState:
        """Return the open groups. Cost: O(log n); no row is copied."""
        return self._state(self._progress, self._open, self._emitted_until)

    @staticmethod
    def _state(progress: StreamProgress, groups: OpenGroups, emitted_until: Instant) -> AggregateState:
        return AggregateState(progress, groups.remembered(), emitted_until)

    def split(self, spreads: Sequence[RowSpread]) -> list[AggregateState]:
        """The open groups, by their keys. Cost: a copy of them."""
        parts = self._open.spread(spreads[0])
        return [self._state(self._progress, part, self._emitted_until) for part in parts]

    def unite(self, states: Sequence[AggregateState]) -> AggregateState:
        """All open groups. Windows of panes are answered by how far all have come, which must be the same."""
        if self._panes is not None:
            require_alike(self._where, (state.progress.complete_before for state in states))
        groups = OpenGroups.together((state.partials for state in states), self._grouping)
        progress = StreamProgress.least(state.progress for state in states)
        return self._state(progress, groups, min(state.emitted_until for state in states))

    def check(self) -> None:
        """Assert the invariants."""
        self._open.check()
        bound = self._complete_before()
        for partial in self._open.snapshot():
            assert partial.starts[0] >= bound, (partial.starts[0], bound)
