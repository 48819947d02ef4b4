"""Cuts the events of an ordered stream wherever the set of events alive in their group changes.

An event that lasts for [1, 9), beside one of the same keys that lasts for [4, 6), comes out as [1, 4), [4, 6), [6, 9);
the other as [4, 6). Pieces of one group either share an interval or do not overlap, so an aggregation of the pieces
gives the value over the events alive, for every maximal interval in which they stay the same:

       a  1--------9              1--4--6--9
       b     4--6         ->         4--6            count:  1, 2, 1

A piece is final, and sent, when the input is complete before its end: a later event could still cut it until then.
Events of no length are never alive: they neither cut nor come out.

Invariant: what is held of an event starts at the last change of its group, and ends after it.
Cost: O((alive + new) log) per call plus the pieces sent. All events alive are looked at in every call, because each
may have to be cut; a stream with many long events should come in large batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.aggregate.group_keys import comparable, key_fields, number_groups
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.stream_progress import StreamProgress, insert_only
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import Times
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class CutAtChangesState:
    """What is remembered: the input's progress, the events alive, and how far the output is complete."""

    progress: StreamProgress
    alive: EventBatch
    punctuated_until: Instant


class CutAtChangesOperator(Operator[CutAtChangesState]):
    """Cuts events at the changes of their group. `keys` name the columns that make the group."""

    __slots__ = ("_alive", "_keys", "_no_rows", "_peak", "_progress", "_punctuated_until", "_where")
    state_types = (CutAtChangesState, EventBatch, StreamProgress)

    def __init__(
        self,
        schema: EventSchema,
        keys: Sequence[str],
        step: str = "cut_at_changes",
        resume: CutAtChangesState | None = None,
    ) -> None:
        self._keys = tuple(field.name for field in key_fields(schema.payload, keys, step))
        self._no_rows = schema.no_rows
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._alive = resume.alive if resume else EventBatch.inserts(self._no_rows, start=[], end=[])
        self._punctuated_until = resume.punctuated_until if resume else BEGINNING
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Take the events, and send all pieces that can no longer be cut."""
        assert insert_only(batch), "a stream to be cut has no adjusts"
        if not len(batch):
            return NOTHING
        self._progress = self._progress.after(batch, self._where, ordered=True)
        events = batch.data()
        fresh = EventBatch.inserts(events.payload, events.start, events.ends())
        self._alive = EventBatch.concat([self._alive, fresh.keep_rows(fresh.ends() > fresh.start)])
        self._peak = max(self._peak, len(self._alive))
        return self._send(self._progress.complete_before)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Send all pieces."""
        return self._send(FOREVER)

    def _send(self, complete_before: Instant) -> Emission:
        pieces, self._alive = self._cut(complete_before)
        still_to_come = min(complete_before, int(self._alive.start.min(initial=FOREVER)))
        if still_to_come <= self._punctuated_until:
            return Emission.of(pieces)
        self._punctuated_until = still_to_come
        return Emission.of(pieces, punctuation_like(self._no_rows, still_to_come))

    def _cut(self, complete_before: Instant) -> tuple[EventBatch, EventBatch]:
        """Return the final pieces, in order of start and then arrival, and what is left of the events."""
        alive = self._alive
        changes = Changes.of(self._groups(), alive.start, alive.ends(), complete_before)
        first, pieces = changes.starts, np.maximum(np.minimum(changes.ends, changes.last) - changes.starts, 0)
        event = np.repeat(np.arange(len(alive)), pieces)
        change = np.arange(len(event)) + np.repeat(first - (np.cumsum(pieces) - pieces), pieces)
        order = np.argsort(changes.times[change], kind="stable")
        sent = alive.take_rows(event[order]).payload
        change = change[order]
        cut = EventBatch.inserts(sent, changes.times[change], changes.times[change + 1])
        left = np.flatnonzero(changes.ends > changes.last)
        rest = alive.take_rows(left)
        since = np.maximum(rest.start, changes.times[changes.last[left]])
        return cut, EventBatch.inserts(rest.payload, since, rest.ends())

    def _groups(self) -> Times:
        columns = [comparable(self._alive.payload.column(key)) for key in self._keys]
        return number_groups(np.zeros(len(self._alive), dtype=np.int64), columns).numbers

    def idle_waiting_on(self) -> Port | None:
        """The input, while events live: a punctuation may settle pieces though no event comes."""
        return 0 if len(self._alive) else None

    def buffered(self) -> int:
        """How many events are alive."""
        return len(self._alive)

    def peak_buffered(self) -> int:
        """The most events that were alive: those of a batch beside those that were held."""
        return self._peak

    def snapshot(self) -> CutAtChangesState:
        """Return the events alive. Nothing is copied."""
        return CutAtChangesState(self._progress, self._alive, self._punctuated_until)

    def check(self) -> None:
        """Assert the invariants."""
        self._alive.check()
        assert (self._alive.ends() > self._alive.start).all()
        assert (self._alive.start >= self._punctuated_until).all(), (self._alive.start, self._punctuated_until)
        groups = self._groups()
        since = np.full(len(groups) + 1, BEGINNING)
        np.maximum.at(since, groups, self._alive.start)
        assert (self._alive.start == since[groups]).all(), self._alive.start


@dataclass(frozen=True)
class Changes:
    """The instants at which groups change, sorted by group and time, and where each event stands among them."""

    times: Times
    """All changes: the different starts and ends of the events of each group."""

    starts: Times
    """For each event, the number of the change at its start."""

    ends: Times
    """For each event, the number of the change at its end."""

    last: Times
    """For each event, the number of its group's last change that is not after complete_before."""

    @classmethod
    def of(cls, group: Times, start: Times, end: Times, complete_before: Instant) -> Changes:
        """Find the changes. Every start must be at or before complete_before.

        >>> of_one_group = Changes.of(np.array([0, 0]), np.array([1, 4]), np.array([9, 6]), complete_before=6)
        >>> of_one_group.times.tolist(), of_one_group.starts.tolist(), of_one_group.ends.tolist()
        ([1, 4, 6, 9], [0, 1], [3, 2])
        >>> of_one_group.last.tolist()
        [2, 2]
        """
        groups, times = np.concatenate([group, group]), np.concatenate([start, end])
        order = np.lexsort((times, groups))
        groups, times = groups[order], times[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.cumsum(new) - 1
        groups, times = groups[new], times[new]
        known = np.bincount(groups[times <= complete_before], minlength=int(group.max(initial=-1)) + 1)
        first = np.searchsorted(groups, group)
        return cls(times, number[: len(start)], number[len(start) :], first + known[group] - 1)
