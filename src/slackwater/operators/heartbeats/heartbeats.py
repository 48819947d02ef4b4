"""Puts heartbeats between the rows of a stream, as punctuations: up to where it is complete, by what bounds guarantee.

Rows arrive at instants: those of a column, where one says when each row came, or else of the clock, where each batch is
one. The punctuation before the rows of an instant follows from all rows of earlier ones, and says nothing of rows that
came together with those. Whether a row behind it is late is not decided here: the next step with a policy does that.
A row that is ahead of the clock by more than it may be moves no progress, and goes to the late output. Without a clock
the newest of all rows that count stands for it (docs/decisions/0048).
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.

Invariants: rows pass in their order, those that are ahead go to the late output. Punctuations never go back.
Cost: that of the generator; nothing is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.columns.inline_punctuations import insert_punctuations, split_punctuations
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.kernels.progress.heartbeat_tables import BY_CLOCK, BY_IDLE, BY_LULL, BY_NOTHING
from slackwater.kernels.progress.rows_ahead import latest_allowed
from slackwater.kernels.progress.ticks import ticks_of
from slackwater.operators.emission import LATE, NOTHING, Emission
from slackwater.operators.heartbeats.estimating import EstimatingGenerator, generator_for
from slackwater.operators.heartbeats.learnt import LearntState
from slackwater.operators.heartbeats.source_words import SourceWords
from slackwater.operators.heartbeats.tables import HeartbeatState
from slackwater.operators.late_rows import schema_with_bound
from slackwater.operators.operator import Operator
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.operators.steered import WaitsForSources
from slackwater.operators.why import BrokenBounds, Grounds, Why
from slackwater.progress.instants import BEGINNING, FOREVER, format_duration
from slackwater.progress.saturating import later, within_int64

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.generator import Binding, HeartbeatGenerator
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant

ONE_SOURCE: bytes = b""
"""The name of the source of a stream whose rows are all of one."""


def ahead_schema(schema: EventSchema, step: str = "heartbeats") -> EventSchema:
    """Return the schema of rows that are ahead of the clock: all columns, the latest time allowed, and how far past it.

    >>> from slackwater.events.schema import EventSchema
    >>> ahead_schema(EventSchema.of(pa.schema({"at": pa.int64()}), time="at")).columns
    ('at', 'latest_allowed', 'ahead_by')
    """
    return schema_with_bound(schema, step, "latest_allowed", "ahead_by")


@dataclass(frozen=True, slots=True)
class HeartbeatsState:
    """What the step remembers."""

    generator: HeartbeatState
    ahead: int = 0
    """How many rows were ahead of the clock by more than they may be."""

    punctuated: Instant = BEGINNING
    """The last punctuation that was sent, made here or by the input."""


@dataclass(frozen=True)
class HeartbeatSettings:
    """What heartbeats follow from, in the units of a stream and its clock."""

    rules: Rules
    origin: str | None
    """The column that names the source of each row; None where all rows are of one."""

    arrived: str | None
    """The column that says when each row arrived; None where the clock does."""

    grid: Duration
    """How long a tick is: arrivals within one count as one instant."""

    ahead: Duration | None
    """How far rows may be ahead of the clock, or of the newest row."""

    wakes_every: Duration | None = None
    """How often to look, while no rows come, whether the clock has moved something; None for sources that end."""

    clock_calendar: bool = True
    """Whether arrivals are calendar time."""

    ahead_of_rows: bool = False
    """Whether rows are ahead of the newest row before them, since no clock says how far time has come."""

    @property
    def learns(self) -> bool:
        """Whether bounds are learnt from the rows, of which every time is needed then."""
        return self.rules.estimation is not None


class Arrivals(NamedTuple):
    """Rows that have arrived, and in which ticks."""

    rows: EventBatch
    ticks: Times
    sources: Times
    """The place of the source of each row."""


class HeartbeatsOperator(Operator[HeartbeatsState], WaitsForSources):
    """Follows the arrivals of a stream, and punctuates it as far as bounds let it."""

    __slots__ = (
        "_ahead",
        "_ahead_payload",
        "_generator",
        "_names",
        "_now",
        "_punctuated",
        "_schema",
        "_settings",
        "_step",
        "_words",
    )
    state_types: ClassVar[tuple[type[Any], ...]] = (HeartbeatsState, HeartbeatState, LearntState)
    splits = True
    ticks = True

    def __init__(
        self,
        schema: EventSchema,
        settings: HeartbeatSettings,
        step: str = "heartbeats",
        resume: HeartbeatsState | None = None,
        ahead_payload: pa.Schema | None = None,
    ) -> None:
        self._schema = schema
        self._settings = settings
        self._step = step
        self._names = None if settings.origin is None else ReplicaNames(schema, settings.origin, step)
        learnt = None if resume is None else resume.generator
        self._generator = generator_for(settings.rules, settings.grid, learnt, self.key)
        self._words = None if self._names is None else SourceWords(self._names, self._generator.places_of)
        self._ahead = 0 if resume is None else resume.ahead
        self._punctuated = BEGINNING if resume is None else resume.punctuated
        self._ahead_payload = ahead_payload
        self._now: Instant = BEGINNING

    def key(self, name: SourceName) -> Hashable:
        """How a source that bounds name is called here."""
        return ONE_SOURCE if self._names is None else self._names.name_of(name)

    def on_tick(self, now: Instant) -> Emission:
        """Learn the processing time, at which the next batch arrives if no column says otherwise."""
        self._now = max(self._now, now)
        return NOTHING

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Put punctuations between the rows, and take out those that are ahead."""
        rows, *inputs = split_punctuations(batch)
        if not len(batch):
            return NOTHING
        # By the clock all rows arrive now, which only matters to those that may be ahead of it.
        at_once = self._settings.arrived is None and self._words is not None
        arrivals = _NOWHERE if at_once and self._settings.ahead is None else self._arrivals(rows)
        rows, arrivals, inputs[0], side = self._without_rows_ahead(rows, arrivals, inputs[0])
        if not rows.rows:
            return self._emission(rows, inputs[0], inputs[1], side)
        if at_once and self._words is not None:
            words = self._words.of(rows.payload.column(self._settings.origin))
            places, bounds = self._generator.follow_instant(self._instant(), words, rows.start)
        else:
            places, bounds = self._generator.follow(
                self._ticks(arrivals), self._sources(rows), rows.start, closes=self._settings.arrived is None
            )
        return self._emission(rows, *_together(inputs[0], inputs[1], places, bounds), side)

    def _ticks(self, arrivals: Times) -> Times:
        """The ticks of some arrivals, of which there is at least one."""
        if self._settings.arrived is None:
            return np.full(len(arrivals), self._instant())
        ticks = np.empty(len(arrivals), dtype=np.int64)
        ticks_of(arrivals, self._settings.grid, ticks)
        return ticks

    def _instant(self) -> int:
        """Let the tick begin in which a batch arrives by the clock: one of its own, however soon after another."""
        tick = max(self._now // self._settings.grid, self._generator.tick + 1)
        self._generator.begin(tick)
        return tick

    def _emission(self, rows: EventBatch, places: Times, bounds: Times, side: _Diverted) -> Emission:
        """Rows with those punctuations between them that are news."""
        reached = np.maximum.accumulate(np.concatenate([[self._punctuated], bounds]))
        news = reached[1:] > reached[:-1]
        self._punctuated = int(reached[-1])
        sent = _punctuated(rows, places[news], bounds[news])
        return Emission(tuple(one for one in sent if len(one)), side)

    def _arrivals(self, rows: EventBatch) -> Times:
        """When each row arrived; BEGINNING, for as soon as those before it, where nobody says."""
        column = self._settings.arrived
        if column is None:
            return np.full(rows.rows, self._now, dtype=np.int64)
        return arrival_times(rows.payload.column(column))

    def _sources(self, rows: EventBatch) -> NDArray[np.int64]:
        if self._settings.origin is None:
            return np.full(rows.rows, self._generator.places_of([ONE_SOURCE])[0])
        return self.places_of(rows.payload.column(self._settings.origin))

    def sources_of(self, rows: EventBatch) -> NDArray[np.int64]:
        """The place of the source of each row."""
        return self._sources(rows)

    def places_of(self, origins: pa.Array) -> NDArray[np.int64]:
        """The places that sources have, which are named by the values of a column."""
        assert self._words is not None
        return self._words.of(origins).places()

    def arrivals_of(self, rows: EventBatch) -> Arrivals:
        """Who sent some rows, and when; for steps that follow the generator themselves."""
        return Arrivals(rows, self._ticks(self._arrivals(rows)), self._sources(rows))

    def _without_rows_ahead(
        self, rows: EventBatch, arrivals: Times, places: Times
    ) -> tuple[EventBatch, Times, Times, _Diverted]:
        """Take out the rows whose times are further ahead of the clock, or of the newest row, than they may be."""
        allowed = self._settings.ahead
        if allowed is None:
            return rows, arrivals, places, ()
        limits = self._latest_allowed(rows.start, arrivals, allowed)
        is_ahead = rows.start > limits
        if not is_ahead.any():
            return rows, arrivals, places, ()
        ahead, kept = np.flatnonzero(is_ahead), np.flatnonzero(~is_ahead)
        self._ahead += len(ahead)
        side = () if self._ahead_payload is None else ((LATE, self._diverted(rows.take_rows(ahead), limits[ahead])),)
        return rows.take_rows(kept), arrivals[kept], np.searchsorted(kept, places), side

    def _latest_allowed(self, times: Times, arrivals: Times, allowed: Duration) -> Times:
        """The latest time that each row may have."""
        if self._settings.ahead_of_rows:
            limits = np.empty(len(times), dtype=np.int64)
            latest_allowed(times, self._generator.newest, allowed, limits)
            return limits
        # Where it is not known when a row arrived it did not before those that came earlier.
        before = within_int64(self._generator.tick * self._settings.grid)
        return later(np.maximum(np.maximum.accumulate(arrivals), before), allowed)

    def _diverted(self, ahead: EventBatch, limits: Times) -> EventBatch:
        """Add two columns: the latest time that was allowed, and how far past it the row is."""
        assert self._ahead_payload is not None
        by = np.minimum(ahead.start.view(np.uint64) - limits.view(np.uint64), FOREVER).astype(np.int64)
        added = [
            self._schema.time.renamed("latest_allowed").write(limits),
            pa.array(by).view(self._ahead_payload.field("ahead_by").type),
        ]
        payload = pa.RecordBatch.from_arrays([*ahead.payload.columns, *added], schema=self._ahead_payload)
        return ahead.with_payload(payload)

    # ---- silence ----------------------------------------------------------------------------------------------------

    def wakes_at(self) -> Instant | None:
        """When the clock will have moved something though no row has come; None if it moves nothing."""
        every = self._settings.wakes_every
        if every is None:
            return None
        if not self._generator.begun:  # the clock may say something of a stream that has sent nothing yet
            return BEGINNING if any(delay is not None for delay in self._settings.rules.delay.values) else None
        # The runner wakes it only where something waits.
        tick = self._generator.moves_next_at(max(every // self._settings.grid, 1), past_newest=True)
        return None if tick is None else within_int64(tick * self._settings.grid)

    def on_wake(self, now: Instant) -> Emission:
        """Punctuate as far as silence until now lets the stream be complete."""
        return self.punctuate(self._generator.advance(now // self._settings.grid))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release nothing: nothing was held."""
        return NOTHING

    # ---- steered from outside ---------------------------------------------------------------------------------------

    def reached(self) -> Instant:
        """Up to where it has punctuated."""
        return self._punctuated

    def punctuate(self, bound: Instant) -> Emission:
        """Punctuate at a bound, where that is further than the last punctuation."""
        none = EventBatch.inserts(self._schema.no_rows, _NOWHERE)
        return self._emission(none, _AT_THE_START, np.array([bound]), ())

    def place_called(self, source: str) -> int | None:
        """The place of a source, by its name as people read it; None if there is none of that name."""
        if not self._distinguishes:
            return None
        named = enumerate(self._generator.names)
        return next((place for place, name in named if name is not None and self.spelled(name) == source), None)

    def knows(self, source: str) -> bool:
        """Whether it has a source of that name."""
        return self.place_called(source) is not None

    def lags(self, source: str) -> bool:
        """Whether a source is complete less far than all that are waited for."""
        place = self.place_called(source)
        return place is not None and self._generator.lags(place)

    def leave_out(self, source: str) -> Emission:
        """Wait for a source no longer; punctuate as far as that lets the stream be complete."""
        place = self.place_called(source)
        assert place is not None, source
        self._generator.leave_out(place)
        return self._punctuated_by_now()

    def wait_for_again(self, source: str) -> None:
        """Wait for a source as bounds say."""
        place = self.place_called(source)
        assert place is not None, source
        self._generator.wait_for_again(place)

    def go_on_without(self) -> Emission:
        """Where nobody is left to be waited for: punctuate behind the newest row."""
        self._generator.go_on_without()
        return self._punctuated_by_now()

    def _punctuated_by_now(self) -> Emission:
        return self.punctuate(self._complete_before())

    # ---- looking at it ----------------------------------------------------------------------------------------------

    @property
    def generator(self) -> HeartbeatGenerator:
        """What the heartbeats are made by."""
        return self._generator

    @property
    def grid(self) -> Duration:
        """How long a tick is."""
        return self._settings.grid

    @property
    def by_clock(self) -> bool:
        """Whether rows arrive when the clock says, and not a column: only then silence can be seen."""
        return self._settings.arrived is None

    def late(self) -> int:
        """How many rows were ahead of the clock by more than they may be."""
        return self._ahead

    def broken_bounds(self) -> int:
        """How many rows came at or behind the heartbeat of their own source, late or not."""
        return sum(rows for rows, _, _ in self._generator.violations().values())

    def late_by_estimate(self) -> int:
        """How many rows came behind the stream because of an estimate, though declared bounds would have kept them."""
        return self._generator.observed().late if isinstance(self._generator, EstimatingGenerator) else 0

    def broken(self) -> dict[str, BrokenBounds]:
        """For each source that broke bounds: how often, and which it was at last."""
        show = self._schema.time.show
        return {
            self.spelled(name): BrokenBounds(rows, time, str(show(time)), self.ground(rule)[1])
            for name, (rows, rule, time) in self._generator.violations().items()
        }

    def goes_on_at(self) -> Instant | None:
        """When the least heartbeat rises though no row comes."""
        tick = self._generator.rises_next_at()
        return None if tick is None else tick * self._settings.grid

    @property
    def _distinguishes(self) -> bool:
        """Whether rows are of several sources, that have names."""
        return self._names is not None

    def _binding(self) -> Binding | None:
        """Why the output is complete no further."""
        return self._generator.binding()

    def _complete_before(self) -> Instant:
        """Up to where the output is complete."""
        return self._generator.complete_before

    def _newest(self) -> Instant:
        """The greatest time of all rows that go to the output."""
        return self._generator.newest

    def why(self) -> Why | None:
        """Which source the others wait for, and by which bound."""
        settings, generator = self._settings, self._generator
        found = self._binding()
        ground, rule = (Grounds.NOTHING, "") if found is None else self._ground_of(found)
        known = found is not None and found.sender is not None
        return Why(
            self._step,
            self._complete_before(),
            self._newest(),
            ground,
            rule,
            source=None if found is None or not self._distinguishes else self.spelled(found.source),
            sender=self.spelled(found.sender) if found is not None and known else None,
            time=BEGINNING if found is None else found.time,
            arrived=None if found is None or found.arrived is None else found.arrived * settings.grid,
            estimate=generator.observed() if isinstance(generator, EstimatingGenerator) else None,
            broken={source: str(one) for source, one in self.broken().items()},
            calendar=self._schema.calendar,
            clock_calendar=settings.clock_calendar,
        )

    def _ground_of(self, binding: Binding) -> tuple[Grounds, str]:
        """What the heartbeat of the source goes by that the others wait for: an estimate shows how far it reaches."""
        generator = self._generator
        if not isinstance(generator, EstimatingGenerator) or not generator.goes_by_estimate(binding):
            return self.ground(binding.rule)
        length, by_clock = generator.estimate_now(binding), binding.rule == BY_CLOCK
        what = "the clock" if by_clock else self._settings.rules.rules[binding.rule].words
        if length is None:
            return Grounds.ESTIMATED, f"{what}, by an estimate that was taken back since"
        if by_clock:
            return Grounds.ESTIMATED, f"rows arrive at most {self._by_clock(length)} after their time"
        behind = "newer" if length == 0 else f"at most {self._by_time(length - 1)} behind"
        return Grounds.ESTIMATED, f"{what}: {behind}"

    def ground(self, rule: int) -> tuple[Grounds, str]:
        """What a heartbeat goes by."""
        rules = self._settings.rules
        if rule >= 0:
            return Grounds.PROVEN, rules.rules[rule].words
        return {
            BY_NOTHING: (Grounds.NOTHING, ""),
            BY_CLOCK: (Grounds.PROVEN, self._delays()),
            BY_IDLE: (Grounds.ASSUMED, f"a source that is silent for {self._by_clock(rules.idle)} has nothing older"),
            BY_LULL: (Grounds.ASSUMED, f"all sources were silent for {self._by_clock(rules.lull)}"),
        }[rule]

    def _delays(self) -> str:
        """The delays that bounds name, from the shortest to the longest; where they name none it was an estimate."""
        lengths = sorted({delay for delay in self._settings.rules.delay.values if delay is not None})
        if not lengths:
            return "the clock, by an estimate"
        named = " to ".join(map(self._by_clock, dict.fromkeys(lengths[:1] + lengths[-1:])))
        return f"rows arrive at most {named} after their time"

    def _by_clock(self, length: Duration | None) -> str:
        """A length of the time at which rows arrive, as people write it."""
        return "" if length is None else format_duration(length) if self._settings.clock_calendar else str(length)

    def _by_time(self, length: Duration) -> str:
        """A length of the times of rows, as people write it."""
        return format_duration(length) if self._schema.calendar else str(length)

    def spelled(self, source: Hashable | None) -> str:
        """The name of a source as people read it."""
        if source is None:
            return "any source that has not come yet"
        if self._names is None:
            return "the source"
        return self._names.spelled(source) if isinstance(source, bytes) else str(source)

    def snapshot(self) -> HeartbeatsState:
        """Return all there is to remember."""
        return HeartbeatsState(self._generator.snapshot(), self._ahead, self._punctuated)

    def split(self, spreads: Sequence[RowSpread]) -> list[HeartbeatsState]:
        """All know how far each source has come; the first goes on counting."""
        state = self.snapshot()
        others = HeartbeatsState(state.generator.without_violations(), 0, state.punctuated)
        return [state, *[others] * (spreads[0].places - 1)]

    def unite(self, states: Sequence[HeartbeatsState]) -> HeartbeatsState:
        """All know the same of how far each source has come; what they have counted is added up."""
        generator = HeartbeatState.with_all_violations([state.generator for state in states])
        return HeartbeatsState(generator, sum(state.ahead for state in states), states[0].punctuated)

    def check(self) -> None:
        """Assert the invariants."""
        self._generator.check()
        assert self._ahead >= 0, self._ahead


def arrival_times(column: pa.Array) -> Times:
    """A column of arrivals in the units of their clock, BEGINNING where it is not known.

    >>> arrival_times(pa.array([3, None])).tolist() == [3, BEGINNING]
    True
    """
    whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()) if _on_calendar(column.type) else column
    found: Times = whole.cast(pa.int64()).fill_null(BEGINNING).to_numpy()
    return found


def _on_calendar(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _punctuated(rows: EventBatch, places: Times, bounds: Times) -> tuple[EventBatch, ...]:
    """Rows with punctuations; those before or behind many rows go by themselves, so that nothing is copied."""
    where = places.tolist()
    if rows.rows < _MANY or any(0 < place < rows.rows for place in where):
        return (insert_punctuations(rows, places, bounds),)
    none = rows.payload.slice(0, 0)
    alone = [(place, punctuation_like(none, bound)) for place, bound in zip(where, bounds.tolist(), strict=True)]
    return (*(one for place, one in alone if not place), rows, *(one for place, one in alone if place))


def _together(places: Times, bounds: Times, more_places: Times, more: Times) -> tuple[Times, Times]:
    """Punctuations of the input and those made here, in order of their places."""
    if not len(bounds):
        return more_places, more
    both_places, both = np.concatenate([places, more_places]), np.concatenate([bounds, more])
    order = np.lexsort((both, both_places))
    return both_places[order], both[order]


_MANY: Final = 4_096
"""From so many rows on to copy their times costs more than to hand on a batch of its own."""

_NOWHERE: Times = np.empty(0, dtype=np.int64)
_AT_THE_START: Times = np.zeros(1, dtype=np.int64)
_Diverted: TypeAlias = "tuple[tuple[str, EventBatch], ...]"
