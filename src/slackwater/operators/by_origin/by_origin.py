"""Lets every row go by the heartbeat of its own source: what all operators that go by origin have in common.

Heartbeats are made here, of all rows of a source, before the steps that may leave some out; whether a row is late, and
when it goes on, follows from how far its own source is complete. A source that nobody waits for goes by all others
together. The output is punctuated up to where all sources are complete, unless one may still begin before that.

    rows ──> heartbeats, by source ──> steps, row by row ──> late by its own source? ──> held ──> released

Several bands go by as many generators, which know the same of the sources, and how far rows of each band may be behind
those of their own source.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004; the paper takes the least of all.

Invariants: no row goes on that is late for its own source; punctuations never go back.
Cost: that of the generators, and of what is held.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slackwater.columns.inline_punctuations import split_punctuations
from slackwater.kernels.progress.heartbeat_tables import BY_NOTHING
from slackwater.operators.by_origin.row_steps import through_steps
from slackwater.operators.emission import LATE, NOTHING, Emission
from slackwater.operators.heartbeats.generator import HeartbeatGenerator, complete_before_of
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator, HeartbeatsState
from slackwater.operators.heartbeats.tables import HeartbeatState
from slackwater.operators.late_rows import LateRows
from slackwater.operators.operator import Operator
from slackwater.operators.steered import WaitsForSources
from slackwater.operators.why import SHOWN_ORIGINS, OriginWhy
from slackwater.policies.late import LateAction
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.operators.heartbeats.heartbeats import Arrivals, HeartbeatSettings
    from slackwater.operators.why import Why
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.late import Late
    from slackwater.policies.windows import Tumbling
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True)
class ByOriginSettings:
    """What users chose, and the steps before rows are found to be late, or not."""

    source: EventSchema
    """The columns of the source."""

    schema: EventSchema
    """Those of the rows that are late, or not."""

    beats: HeartbeatSettings
    """What heartbeats follow from: those of the last band, where there are several."""

    late: Late
    windows: Tumbling | None = None
    """The windows that rows are given next, or have been given: a row is late when its window is complete."""

    sooner: tuple[Rules, ...] = ()
    """What is known of the sources in the bands before the last."""


@dataclass(frozen=True)
class ByOriginState:
    """What is remembered: of all sources, how many rows were late, and what is held."""

    beats: HeartbeatsState
    sooner: tuple[HeartbeatState, ...]
    late: int
    complete_before: Instant
    """The last punctuation of the input."""

    held: Any


class ByOriginOperator(Operator[ByOriginState], WaitsForSources):
    """Follows arrivals, finds late rows, and releases the others when their own source lets it."""

    __slots__ = (
        "_beats",
        "_complete_before",
        "_generators",
        "_late",
        "_late_rows",
        "_settings",
        "_step",
        "_steps",
    )
    state_types: ClassVar[tuple[type[Any], ...]] = (ByOriginState, HeartbeatsState, HeartbeatState)
    ticks = True
    follower: ClassVar[type[HeartbeatsOperator]] = HeartbeatsOperator
    """What follows arrivals."""

    def __init__(
        self,
        settings: ByOriginSettings,
        steps: Sequence[Operator[Any]],
        step: str,
        resume: ByOriginState | None,
    ) -> None:
        self._settings = settings
        self._steps = steps
        self._step = step
        state = None if resume is None else resume.beats
        self._beats = self.follower(settings.source, settings.beats, step, state)
        sooner = [None] * len(settings.sooner) if resume is None else resume.sooner
        self._generators = [
            HeartbeatGenerator(rules, settings.beats.grid, one, self._beats.key)
            for rules, one in zip(settings.sooner, sooner, strict=True)
        ]
        self._generators.append(self._beats.generator)
        self._late_rows = LateRows(settings.schema, step, diverts=settings.late.action is LateAction.DIVERTED)
        self._late = 0 if resume is None else resume.late
        self._complete_before = BEGINNING if resume is None else resume.complete_before

    # ---- what the kinds of operators do ------------------------------------------------------------------------------

    @abstractmethod
    def _hold(self, rows: EventBatch, sources: Times, bands: Times) -> None:
        """Take in rows that are in time for a band, with the places of their sources; late ones are not among them."""

    @abstractmethod
    def _release(self, bounds: Sequence[Times]) -> Emission:
        """Send what lies before the bound of its source, which stands in its place; for each band."""

    @abstractmethod
    def _waiting(self) -> Times:
        """How much waits of each source, by its place; of those that follow, nothing."""

    @abstractmethod
    def _held(self) -> Any:
        """What is held, to be remembered."""

    def _lasting(self) -> Duration:
        """How far past the newest row of a source it must be complete until nothing of it waits any more."""
        return 0 if self._settings.windows is None else self._settings.windows.size

    # ---- rows --------------------------------------------------------------------------------------------------------

    def on_tick(self, now: Instant) -> Emission:
        """Learn the processing time, at which the next batch arrives if no column says otherwise."""
        return self._beats.on_tick(now)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Follow the arrivals, take the rows in, and release what is complete by its own source."""
        if not len(batch):
            return NOTHING
        rows, _, punctuations = split_punctuations(batch)
        side = self._follow(self._beats.arrivals_of(rows)) if rows.rows else []
        self._complete_before = max(self._complete_before, int(punctuations.max(initial=BEGINNING)))
        return self._with_side(side)

    def _follow(self, arrived: Arrivals) -> list[tuple[OutputName, EventBatch]]:
        """Let the generators follow rows, and take these in; return what goes to the late output."""
        # The first row of a source is the first of it in every band.
        own = [self._own(generator, arrived) for generator in self._generators]
        return self._take_in(arrived.rows, arrived.sources, own)

    def _take_in(self, arrived: EventBatch, places: Times, own: Sequence[Times]) -> list[tuple[OutputName, EventBatch]]:
        """Find out which rows are late for which band, and hold the others; return what goes to the late output.

        `own` has, for each band, up to where the source of each row was complete when the row came.
        """
        rows, (sources, *bounds) = through_steps(self._steps, arrived, [places, *own])
        if not rows.rows:
            return []
        bands = np.add.reduce([rows.start < bound for bound in bounds], dtype=np.int64)
        untimed = self._late_rows.untimed(rows.start)
        if untimed is not None:
            bands[untimed] = len(bounds)
        is_late = bands == len(bounds)
        if not is_late.any():
            self._hold(rows, sources, bands)
            return []
        in_time = np.flatnonzero(~is_late)
        side = self._treat_late(rows, np.flatnonzero(is_late), bounds[-1])
        self._hold(rows.take_rows(in_time), sources[in_time], bands[in_time])
        return side

    def _own(self, generator: HeartbeatGenerator, arrived: Arrivals) -> Times:
        """Let a generator follow rows; return up to where the source of each was complete when the row came."""
        own = np.empty(arrived.rows.rows, dtype=np.int64)
        self._begin(generator, int(arrived.ticks[0]))
        closes = self._settings.beats.arrived is None
        generator.follow(arrived.ticks, arrived.sources, arrived.rows.start, closes=closes, own=own)
        return self._complete_before_of(own)

    def _begin(self, generator: HeartbeatGenerator, tick: int) -> None:
        """Before rows are followed: let a generator know all sources by now and, by the clock, when they came."""
        generator.places_of(self._beats.generator.names[len(generator.names) :])
        if self._settings.beats.arrived is None:
            generator.begin(tick)

    def _complete_before_of(self, heartbeats: Times) -> Times:
        """Up to where rows, or whole windows of them, are complete by heartbeats, or by a punctuation of the input."""
        return self._on_grid(np.maximum(complete_before_of(heartbeats), self._complete_before))

    def _treat_late(self, rows: EventBatch, late: Times, bounds: Times) -> list[tuple[OutputName, EventBatch]]:
        if self._settings.late.action is LateAction.REFUSED:
            first = int(late[0])
            raise self._late_rows.refusal(rows.slice(first, first + 1), int(bounds[first]))
        self._late += len(late)
        if self._settings.late.action is LateAction.DROPPED:
            return []
        return [(LATE, self._late_rows.diverted(rows.take_rows(late), bounds[late]))]

    def _with_side(self, side: Sequence[tuple[OutputName, EventBatch]] = ()) -> Emission:
        released = self._release(self._bounds())
        return replace(released, side=(*released.side, *side)) if side else released

    def _bounds(self) -> list[Times]:
        """Up to where each source is complete, for each band, by its place."""
        return [
            self._on_grid(np.maximum(generator.complete_by_source(), self._complete_before))
            for generator in self._generators
        ]

    def _on_grid(self, bounds: Times) -> Times:
        windows = self._settings.windows
        return bounds if windows is None else windows.punctuations(bounds)

    def _punctuation(self, band: int) -> Instant:
        """Up to where all sources are complete, for a band: before any window is assigned."""
        free = self._settings.beats.rules.newcomers_are_free
        bound = max(BEGINNING if free else self._generators[band].complete_before, self._complete_before)
        return int(self._on_grid(np.array([bound]))[0])

    # ---- silence, and the end ----------------------------------------------------------------------------------------

    def wakes_at(self) -> Instant | None:
        """When the clock will have moved something that waits, though no row has come; None if it moves nothing."""
        settings = self._settings.beats
        if settings.wakes_every is None:
            return None
        places, pause = np.flatnonzero(self._waiting()), max(settings.wakes_every // settings.grid, 1)
        ticks = [generator.any_moves_next_at(places, pause) for generator in self._generators]
        first = min((tick for tick in ticks if tick is not None), default=None)
        return None if first is None else min(first * settings.grid, FOREVER)

    def on_wake(self, now: Instant) -> Emission:
        """Release what silence until now lets go."""
        for generator in self._generators:
            generator.advance(now // self._settings.beats.grid)
        return self._with_side()

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release all that is held."""
        self._complete_before = FOREVER
        return self._with_side()

    def idle_waiting_on(self) -> Port | None:
        """The input, while anything is held: a punctuation may release it though no row comes."""
        return 0 if self.buffered() else None

    # ---- steered from outside ----------------------------------------------------------------------------------------

    def reached(self) -> Instant:
        """Up to where all sources are complete, for the last band."""
        return self._punctuation(len(self._generators) - 1)

    def punctuate(self, bound: Instant) -> Emission:
        """Release what is before a bound, of every source and in every band, and punctuate there."""
        self._complete_before = max(self._complete_before, bound)
        return self._with_side()

    def knows(self, source: str) -> bool:
        """Whether it has a source of that name."""
        return self._beats.knows(source)

    def lags(self, source: str) -> bool:
        """Whether a source is complete less far than all that are waited for."""
        return self._beats.lags(source)

    def leave_out(self, source: str) -> Emission:
        """Wait for a source no longer; its own rows go on as far as all others together."""
        for generator in self._generators:
            generator.leave_out(self._place_in(generator, source))
        return self._with_side()

    def wait_for_again(self, source: str) -> None:
        """Wait for a source as bounds say."""
        for generator in self._generators:
            generator.wait_for_again(self._place_in(generator, source))

    def go_on_without(self) -> Emission:
        """Where nobody is left to be waited for: release all that is not newer than the newest row."""
        for generator in self._generators:
            generator.go_on_without()
        return self._with_side()

    def _place_in(self, generator: HeartbeatGenerator, source: str) -> int:
        place = self._beats.place_called(source)
        assert place is not None, source
        generator.places_of(self._beats.generator.names[len(generator.names) :])
        return place

    # ---- looking at it -----------------------------------------------------------------------------------------------

    def late(self) -> int:
        """How many rows were late for their own source, and diverted or dropped."""
        return self._late

    def broken_bounds(self) -> int:
        """How many rows came at or behind the heartbeat of their own source."""
        return self._beats.broken_bounds()

    def goes_on_at(self) -> Instant | None:
        """When all sources together are complete further though no row comes."""
        return self._beats.goes_on_at()

    def why(self) -> Why | None:
        """How far all sources are, and the slowest of those of which something waits."""
        why, generator, waiting = self._beats.why(), self._beats.generator, self._waiting()
        assert why is not None
        places = np.flatnonzero(waiting)
        slowest = places[np.argsort(generator.complete_by_source()[places], kind="stable")]
        return replace(
            why,
            origins=tuple(self._origin_why(int(place), int(waiting[place])) for place in slowest[:SHOWN_ORIGINS]),
            more_origins=max(len(slowest) - SHOWN_ORIGINS, 0),
        )

    def _origin_why(self, place: int, waiting: int) -> OriginWhy:
        generator = self._beats.generator
        found, bound = generator.binding_of(place), int(generator.complete_by_source()[place])
        name, own = self._beats.spelled(found.source), int(complete_before_of(np.array([found.heartbeat]))[0])
        if own < bound:
            everyone = generator.binding()
            ground, _ = self._beats.ground(BY_NOTHING if everyone is None else everyone.rule)
            return OriginWhy(name, bound, waiting, ground, "as far as all sources that are waited for")
        ground, rule = self._beats.ground(found.rule)
        sender = None if found.sender is None else self._beats.spelled(found.sender)
        return OriginWhy(name, bound, waiting, ground, rule, sender, found.time)

    def snapshot(self) -> ByOriginState:
        """Return all there is to remember."""
        sooner = tuple(generator.snapshot() for generator in self._generators[:-1])
        return ByOriginState(self._beats.snapshot(), sooner, self._late, self._complete_before, self._held())

    def check(self) -> None:
        """Assert the invariants."""
        for generator in self._generators:
            generator.check()
        names = self._beats.generator.names
        for generator in self._generators:
            assert generator.names == names[: len(generator.names)], (generator.names, names)
        assert self._late >= 0, self._late
        assert self._waiting().sum() == self.buffered(), self._waiting()
