"""Sums up the events of each window and group, and sends each answer when the source of the group is complete past it.

The keys of groups name their source, so no group has rows of two. With several bands, an answer goes out of each band
in turn: what goes out of one is not forgotten, but merged with what comes later for the next.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section V-B, for the bands.

Invariants: every open group starts at or after the bound of its source; the answers of one source come in order.
Cost: each event is grouped once; see groups_by_source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from slackwater.events.batch import punctuation_like
from slackwater.operators.aggregate.aggregate import aggregate_schema
from slackwater.operators.aggregate.banded import banded_schema
from slackwater.operators.aggregate.partials import Partial, PartialState
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.operators.by_origin.by_origin import ByOriginOperator, ByOriginSettings, ByOriginState
from slackwater.operators.by_origin.groups_by_source import GroupsBySource, split_due
from slackwater.operators.by_origin.row_steps import through_steps
from slackwater.operators.emission import Emission, band_output
from slackwater.progress.instants import BEGINNING
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.windows import Window
    from slackwater.progress.instants import Duration, Instant

_PLACE: Final = pa.field("", pa.int64(), nullable=False)
"""The first key of every group that waits: the place of its source."""


@dataclass(frozen=True)
class Groups:
    """What is summed up, of which groups, and how rows get there once it is known which are late."""

    schema: EventSchema
    """The columns of the events."""

    keys: tuple[str, ...]
    origin: str
    """The key that names the source."""

    aggregates: Mapping[str, Aggregate]
    windows: tuple[Window, ...]
    """The windows that events are given by the steps; bounds move with them."""

    banded: bool = False
    """Whether answers say of which band they are."""


@dataclass(frozen=True)
class BandByOriginState:
    """What is remembered of a band: its open groups, and how far its output is complete."""

    partials: tuple[PartialState, ...]
    punctuated: Instant


class AggregateByOriginOperator(ByOriginOperator):
    """Groups by interval and keys; every group goes by its own source."""

    __slots__ = ("_by_place", "_grouping", "_groups", "_no_rows", "_open", "_peak", "_punctuated", "_to_groups")
    state_types = (*ByOriginOperator.state_types, BandByOriginState, PartialState)

    def __init__(
        self,
        settings: ByOriginSettings,
        groups: Groups,
        steps: Sequence[Operator[Any]] = (),
        to_groups: Sequence[Operator[Any]] = (),
        step: str = "aggregate",
        resume: ByOriginState | None = None,
    ) -> None:
        super().__init__(settings, steps, step, resume)
        self._groups = groups
        self._to_groups = to_groups
        self._grouping = Grouping.of(groups.schema.payload, groups.keys, groups.aggregates, step)
        self._by_place = replace(self._grouping, keys=(_PLACE, *self._grouping.keys))
        schema = banded_schema if groups.banded else aggregate_schema
        self._no_rows = schema(groups.schema, groups.keys, groups.aggregates, step).no_rows
        fresh = (BandByOriginState((), BEGINNING),) * len(self._generators)
        bands = fresh if resume is None else resume.held
        self._open = [GroupsBySource(Partial.restored(one, self._by_place) for one in band.partials) for band in bands]
        self._punctuated = [band.punctuated for band in bands]
        self._peak = 0

    def _hold(self, rows: EventBatch, sources: Times, bands: Times) -> None:  # noqa: ARG002 - groups name theirs
        for band, held in enumerate(self._open):
            of_band = rows if len(self._open) == 1 else rows.take_rows(np.flatnonzero(bands == band))
            events, _ = through_steps(self._to_groups, of_band)
            if events.rows:
                held.add(self._partial_of(events))
        self._peak = max(self._peak, self.buffered())

    def _partial_of(self, events: EventBatch) -> Partial:
        groups = Partial.of(events, self._grouping)
        places = self._beats.places_of(groups.keys[self._groups.keys.index(self._groups.origin)])
        return replace(groups, grouping=self._by_place, keys=(pa.array(places), *groups.keys))

    def _release(self, bounds: Sequence[Times]) -> Emission:
        main: list[EventBatch] = []
        side: list[tuple[str, EventBatch]] = []
        done: list[Partial] = []
        for band, held in enumerate(self._open):
            of_band = self._in_windows(bounds[band])
            done = [*held.release_due(of_band), *self._due_of(done, held, of_band)]
            merged = Partial.merge(done) if done else None
            done = [] if merged is None else [merged]
            batches = [] if merged is None else [self._answers(merged, band)]
            punctuation = int(self._in_windows(np.array([self._punctuation(band)]))[0])
            if punctuation > self._punctuated[band]:
                self._punctuated[band] = punctuation
                batches.append(punctuation_like(self._no_rows, punctuation))
            if band:
                side += [(band_output(band), batch) for batch in batches]
            else:
                main = batches
        return Emission(tuple(main), tuple(side))

    def _due_of(self, gone: Sequence[Partial], held: GroupsBySource, bounds: Times) -> list[Partial]:
        """Take in what has gone out of the band before; return what of it goes out of this one at once."""
        found = []
        for partial in gone:
            due, others = split_due(partial, bounds, int(bounds.max()))
            found += [due] if len(due) else []
            for other in others:
                held.add(other)
        return found

    def _in_windows(self, bounds: Times) -> Times:
        """Before which start groups are complete, where events are so before some bounds."""
        for window in self._groups.windows:
            bounds = window.punctuations(bounds)
        return bounds

    def _answers(self, done: Partial, band: int) -> EventBatch:
        answers = replace(done, grouping=self._grouping, keys=done.keys[1:]).finish(f"step {self._step!r}")
        if not self._groups.banded:
            return answers
        columns = [*answers.payload.columns, pa.array(np.full(answers.rows, band, dtype=np.int32))]
        return answers.with_payload(pa.RecordBatch.from_arrays(columns, schema=self._no_rows.schema))

    def _waiting(self) -> Times:
        places = len(self._beats.generator.names)
        return np.add.reduce([held.waiting(places) for held in self._open])

    def _lasting(self) -> Duration:
        return within_int64(sum(window.size for window in self._groups.windows))

    def _held(self) -> Any:
        return tuple(
            BandByOriginState(tuple(partial.snapshot() for partial in held.snapshot()), punctuated)
            for held, punctuated in zip(self._open, self._punctuated, strict=True)
        )

    def buffered(self) -> int:
        """How many groups are open, counted once in each partial that has them."""
        return sum(len(held) for held in self._open)

    def peak_buffered(self) -> int:
        """The most groups that there were at once: those of a batch beside those that were open."""
        return self._peak

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        for held in self._open:
            held.check()
