"""Computes aggregates at several latencies in one pass: early answers soon, fuller ones later, none computed twice.

Input i carries the events of patience band i, in any order, and punctuations that state how far the band is complete.
Output i answers from bands 0 to i, when all of them are complete. A group that goes out of one band is not
forgotten: its partial result moves on to the next, to be merged with what comes later.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section V-B (the advanced framework); partial
results replace the events that its unions would buffer.

    band 0 ──partial──> open groups ──complete──┬──> answers of band 0
                                                v
    band 1 ──partial──────────────> open groups ──complete──┬──> answers of band 1
                                                            v  ...

Invariants: the open groups of band i start at or after the least punctuation of bands 0 to i; every output is ordered
by (start, end). Cost: each event is grouped once; each group is merged O(log) times in every band.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.errors import SchemaMismatch
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.aggregate.aggregate import aggregate_schema
from slackwater.operators.aggregate.open_groups import OpenGroups
from slackwater.operators.aggregate.partials import Partial, PartialState
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.operators.emission import Emission, band_output
from slackwater.operators.operator import Operator
from slackwater.operators.stream_progress import StreamProgress, insert_only
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.policies.aggregates import Aggregate
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

BAND = pa.field("band", pa.int32(), nullable=False)
"""The column that names from which band an answer is: of answers for one group the greatest band counts."""


def banded_schema(
    schema: EventSchema, keys: Sequence[str], aggregates: Mapping[str, Aggregate], step: str = "in_bands"
) -> EventSchema:
    """Return the schema of the answers: as after an aggregation, and the band."""
    plain = aggregate_schema(schema, keys, aggregates, step)
    return with_band(plain, step)


def with_band(schema: EventSchema, step: str) -> EventSchema:
    """Return the same schema with the column that names the band."""
    if BAND.name in schema.columns:
        raise SchemaMismatch.clash(step, BAND.name, "in_bands() names the band of each answer by it; use another name")
    return schema.with_payload(schema.payload.append(BAND), (*schema.columns, BAND.name))


@dataclass(frozen=True)
class BandState:
    """What is remembered of one band: how far its input is, its open groups, how far its output is complete."""

    progress: StreamProgress
    partials: tuple[PartialState, ...]
    punctuated_until: Instant


class _Band:
    """One band: its input's progress and its open groups."""

    __slots__ = ("groups", "progress", "punctuated_until")

    def __init__(self, state: BandState, grouping: Grouping) -> None:
        self.progress = state.progress
        self.groups = OpenGroups(Partial.restored(one, grouping) for one in state.partials)
        self.punctuated_until = state.punctuated_until

    def snapshot(self) -> BandState:
        return BandState(self.progress, self.groups.remembered(), self.punctuated_until)


class BandedAggregateOperator(Operator[tuple[BandState, ...]]):
    """Groups by interval and keys, band by band. Rows are events of the schema, or stand for groups of them."""

    __slots__ = ("_bands", "_grouping", "_groups", "_no_rows", "_peak", "_where")
    state_types = (BandState, PartialState, StreamProgress)
    splits = True

    def __init__(
        self,
        schema: EventSchema,
        keys: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        bands: int,
        *,
        step: str = "in_bands",
        resume: tuple[BandState, ...] | None = None,
        groups: GroupRows | None = None,
    ) -> None:
        self._groups = groups
        self._grouping = Grouping.of(schema.payload, keys, aggregates, step)
        self._no_rows = banded_schema(schema, keys, aggregates, step).no_rows
        self._where = f"step {step!r}"
        fresh = BandState(StreamProgress(), (), BEGINNING)
        self._bands = [_Band(state, self._grouping) for state in (resume or (fresh,) * bands)]
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Fold the rows into their band's groups, and send what is complete now, in this band and those after it."""
        assert insert_only(batch), "an aggregated stream has no adjusts"
        band = self._bands[port]
        band.progress = band.progress.after(batch, self._where, ordered=False)
        new = [self._partial_of(batch.data())] if batch.rows else []
        self._peak = max(self._peak, self.buffered() + sum(map(len, new)))
        return self._send(port, new)

    def on_end(self, port: Port) -> Emission:
        """Note that nothing more will come in a band."""
        band = self._bands[port]
        band.progress = replace(band.progress, punctuated=FOREVER)
        return self._send(port, [])

    def _partial_of(self, rows: EventBatch) -> Partial:
        return Partial.of(rows, self._grouping) if self._groups is None else self._groups.partial(rows)

    def _send(self, first: int, new: list[Partial]) -> Emission:
        main: list[EventBatch] = []
        side: list[tuple[str, EventBatch]] = []
        for number in range(first, len(self._bands)):
            done, batches = self._answers(number, new)
            main += batches if number == 0 else []
            side += [(band_output(number), batch) for batch in batches] if number else []
            new = [done] if done is not None else []
        return Emission(tuple(main), tuple(side))

    def _answers(self, number: int, new: list[Partial]) -> tuple[Partial | None, list[EventBatch]]:
        """Take new partial results into a band; return what is complete in it now, and the answers to send."""
        band = self._bands[number]
        bound = self._complete_before(number)
        done = band.groups.release(bound)
        for partial in new:
            complete, still_open = partial.split(bound)
            done += [complete] if len(complete) else []
            band.groups.add(still_open)
        batches: list[EventBatch] = []
        whole = Partial.merge(done) if done else None
        if whole is not None:
            batches.append(self._answer(whole, number))
        if bound > band.punctuated_until:
            band.punctuated_until = bound
            batches.append(punctuation_like(self._no_rows, bound))
        return whole, batches

    def _answer(self, done: Partial, number: int) -> EventBatch:
        plain = done.finish(self._where)
        band = pa.array(np.full(plain.rows, number, dtype=np.int32))
        columns = [*plain.payload.columns, band]
        return plain.with_payload(pa.RecordBatch.from_arrays(columns, schema=self._no_rows.schema))

    def _complete_before(self, number: int) -> Instant:
        """How far all bands up to this one are complete."""
        return min(band.progress.complete_before for band in self._bands[: number + 1])

    def idle_waiting_on(self) -> Port | None:
        """The band that holds back the first one that has open groups."""
        for number, band in enumerate(self._bands):
            if len(band.groups):
                bounds = [band.progress.complete_before for band in self._bands[: number + 1]]
                return bounds.index(min(bounds))
        return None

    def buffered(self) -> int:
        """How many groups are open, counted once in each partial that has them."""
        return sum(len(band.groups) for band in self._bands)

    def peak_buffered(self) -> int:
        """The most groups that there were at once: those of a batch beside those that were open."""
        return self._peak

    def snapshot(self) -> tuple[BandState, ...]:
        """Return the open groups of all bands. Cost: O(bands log n); no row is copied."""
        return tuple(band.snapshot() for band in self._bands)

    def split(self, spreads: Sequence[RowSpread]) -> list[tuple[BandState, ...]]:
        """The open groups of all bands, by their keys. Cost: a copy of them."""
        parts = zip(*(band.groups.spread(spreads[0]) for band in self._bands), strict=True)
        return [
            tuple(
                BandState(band.progress, groups.remembered(), band.punctuated_until)
                for band, groups in zip(self._bands, part, strict=True)
            )
            for part in parts
        ]

    def unite(self, states: Sequence[tuple[BandState, ...]]) -> tuple[BandState, ...]:
        """All open groups, band by band."""
        return tuple(
            BandState(
                StreamProgress.least(one.progress for one in of_band),
                OpenGroups.together((one.partials for one in of_band), self._grouping).remembered(),
                min(one.punctuated_until for one in of_band),
            )
            for of_band in zip(*states, strict=True)
        )

    def check(self) -> None:
        """Assert the invariants."""
        for number, band in enumerate(self._bands):
            band.groups.check()
            for partial in band.groups.snapshot():
                assert partial.starts[0] >= self._complete_before(number), (number, partial.starts[0])
