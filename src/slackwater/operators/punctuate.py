"""Turns patience into punctuations (Spark, Flink: watermarks), and splits rows into bands by how late they are.

At the instants that a cadence names, a band with patience p is complete before high water - p, and is punctuated there;
a punctuation of the input counts for every band. A row goes to the first band whose punctuations it does not
contradict: the least patient one that can still take it. A row behind the punctuations of all bands is late, and the
user has chosen what becomes of it. An event exactly at the bound is on time. A row without a time is late whatever the
punctuations are, and moves none: neither as a high water nor as one of n rows.

Where rows are given windows next, a row is late when its window is complete, not before: punctuations are starts of
windows. One in the middle of a window could not be distinguished from one at its start, for a window is complete as a
whole; so nothing comes out later for it, and fewer rows are late.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue: Revisiting Disorder in High-Performance Log Analytics.
ICDE 2018, section V-A (the partition operator).

Invariants: rows in = rows out of all bands + rows counted as late. Rows of a band keep their order of arrival; its
punctuations stand right after the row that caused them, and each of them is news.
Cost: O(rows + bands * punctuations); nothing is held, and a payload is copied only when rows go different ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from slackwater.columns.inline_punctuations import insert_punctuations, split_punctuations
from slackwater.errors import RunError, message
from slackwater.events.batch import EventBatch
from slackwater.kernels.progress.split_by_lateness import NEVER, NO_GRID, Stretches, bands_of, follow, rows_of
from slackwater.operators.emission import LATE, NOTHING, Emission, band_output
from slackwater.operators.late_rows import LateRows
from slackwater.operators.operator import Operator
from slackwater.operators.steered import Steered
from slackwater.operators.stream_progress import insert_only
from slackwater.operators.why import Grounds, Why
from slackwater.policies.cadence import Cadence, CadenceUnit
from slackwater.policies.late import LateAction
from slackwater.progress.instants import BEGINNING, FOREVER, Instant, format_duration
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import Mask, Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.preaggregate import Preaggregate
    from slackwater.operators.emission import OutputName
    from slackwater.policies.late import Late
    from slackwater.policies.windows import Tumbling
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration

DRIVEN_BY_RUNNER: Final = Cadence(CadenceUnit.ROWS, FOREVER)
"""The cadence of a step whose progress the runner measures: it punctuates by `advance_high_water` alone."""
_LONG_RUN = 1_000  # rows; from here on slicing and concatenating costs less than gathering, by measurement


@dataclass(frozen=True, slots=True)
class PunctuateState:
    """What the step remembers. How far each band is punctuated follows from it, so that is not kept."""

    high_water: Instant = BEGINNING
    """The greatest time of a row, late rows included."""

    punctuated_high_water: Instant = BEGINNING
    """The high water at the last instant of the cadence; this one decides which rows are late."""

    rows_since: int = 0
    """How many rows have come since that instant."""

    complete_before: Instant = BEGINNING
    """The greatest punctuation of the input."""

    late: int = 0
    """How many rows were diverted or dropped."""

    adjusted: int = 0
    """How many rows were moved to the bound they had missed."""


class PunctuateOperator(Operator[PunctuateState], Steered):
    """Punctuates one band per patience. Patiences rise strictly; band 0, the least patient, is the main output.

    `windows` are those that rows are given next, or have been given. `event_count_column` names the column with
    how many events a row stands for, if it does; then rows can be dropped, but not shown. With `preaggregate` rows are
    summed up as soon as it is known which are late, and what bands get are groups. With `only_last` a batch is followed
    by the last of its punctuations, and the others are left out: for steps that look at no other, which then get the
    rows as they came.
    """

    __slots__ = (
        "_cadence",
        "_event_count_column",
        "_grid",
        "_late",
        "_late_rows",
        "_only_last",
        "_patiences",
        "_preaggregate",
        "_schema",
        "_state",
        "_step",
        "_windows",
    )
    state_types = (PunctuateState,)
    splits = True

    def __init__(
        self,
        schema: EventSchema,
        patiences: Sequence[Duration],
        cadence: Cadence,
        late: Late,
        step: str = "punctuate",
        resume: PunctuateState | None = None,
        windows: Tumbling | None = None,
        event_count_column: str | None = None,
        preaggregate: Preaggregate | None = None,
        only_last: bool = False,
    ) -> None:
        self._schema = schema
        self._only_last = only_last
        self._preaggregate = preaggregate
        self._windows = windows
        self._event_count_column = event_count_column
        self._grid = (NO_GRID, 0) if windows is None else (windows.size, windows.offset % windows.size)
        self._patiences = np.array(patiences, dtype=np.int64)
        self._cadence = cadence
        self._late = late
        self._late_rows = LateRows(schema, step, diverts=late.action is LateAction.DIVERTED)
        self._step = step
        self._state = resume or PunctuateState()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Split the rows into bands, and put each band's punctuations between them."""
        assert insert_only(batch), "a punctuated stream has no adjusts"
        if not len(batch):
            return NOTHING
        if len(batch) == 1 and not batch.rows and self._preaggregate is None and self._windows is None:
            return self._go_on(
                replace(self._state, complete_before=max(self._state.complete_before, int(batch.start[0])))
            )
        rows, *inputs = split_punctuations(batch)
        untimed = self._late_rows.untimed(rows.start)
        if untimed is None:
            stretches = self._follow(rows.start, *inputs)
        else:
            stretches = self._follow_timed(rows.start, untimed, *inputs)
        if untimed is None and not stretches.behind:
            return _emission(self._by_band(rows, None, stretches))
        bands = bands_of(rows.start, stretches)
        if untimed is not None:
            bands[untimed] = len(self._patiences)
        rows, side = self._treat_late(rows, bands, stretches)
        return _emission(self._by_band(rows, bands, stretches), side)

    def _by_band(self, rows: EventBatch, bands: NDArray[np.int16] | None, stretches: Stretches) -> list[_Batches]:
        """What each band gets, its punctuations included. Without `bands` all rows are of the first one."""
        count = len(self._patiences)
        if self._preaggregate is not None:
            groups = self._preaggregate.by_band(rows, bands, count)
            return [_followed_by(of_band, stretches.punctuations(band)[1]) for band, of_band in enumerate(groups)]
        if bands is None:
            return [self._band(rows, _NO_ROWS if band else None, stretches, band) for band in range(count)]
        return [self._band(rows, rows_of(band, bands), stretches, band) for band in range(count)]

    def _band(self, rows: EventBatch, numbers: Times | None, stretches: Stretches, band: int) -> _Batches:
        """Some rows of a batch, given by number and in order, or all, with a band's punctuations."""
        places, punctuations = stretches.punctuations(band)
        if numbers is not None and len(numbers) < rows.rows:
            rows, places = _picked(rows, numbers), np.searchsorted(numbers, places)
        return (
            _followed_by(rows, punctuations) if self._only_last else (insert_punctuations(rows, places, punctuations),)
        )

    def advance_high_water(self, high_water: Instant) -> Emission:
        """Make this an instant, whatever the cadence, and go by a high water that was seen elsewhere if it is more.

        >>> import slackwater as sw
        >>> node = sw.stream([{"at": 1}], time="at").sort(patience=3, every=sw.Every.rows(100)).node.input
        >>> [batch.last_punctuation() for batch in node.build("punctuate#1").advance_high_water(10).batches]
        [7]
        """
        reached = max(self._state.high_water, high_water)
        return self._go_on(replace(self._state, high_water=reached, punctuated_high_water=reached, rows_since=0))

    def in_time_from(self) -> Instant:
        """The time from which on no row that comes before the next instant is late."""
        return self._bound(self._state, int(self._patiences[-1]))

    def on_groups(self, groups: EventBatch, since: Instant) -> Emission:
        """Send groups to their bands whose rows were summed up elsewhere; none of these was before `since`.

        That they are in time must be certain: a late row is to be seen, and nobody can take it out of a sum again.
        """
        assert self._preaggregate is not None, "groups come only where rows become groups"
        if since < self.in_time_from():
            raise self.summed_up_late(since, self.in_time_from())
        state, count = self._state, len(self._patiences)
        bounds = np.array([[self._bound(state, patience) for patience in self._patiences.tolist()]])
        bands = bands_of(groups.start, Stretches(_NO_ROWS_BEFORE, bounds, behind=True))
        return _emission([(of_band,) for of_band in self._preaggregate.split(groups, bands, count)])

    def groups_in_time(self, groups: EventBatch, event_count_column: str) -> EventBatch:
        """Of the groups of all rows of some windows those in time, where whole windows are late; others are counted."""
        assert self._windows is not None, "a group is late as a whole where its window is"
        assert self._late.action is LateAction.DROPPED, "late rows that are seen are not summed up"
        late = groups.start < self.in_time_from()
        if not late.any():
            return groups
        counted = int(groups.payload.column(event_count_column).to_numpy()[late].sum())
        self._state = replace(self._state, late=self._state.late + counted)
        return groups.take_rows(np.flatnonzero(~late))

    def summed_up_late(self, since: Instant, in_time_from: Instant) -> RunError:
        """Refuse sums of rows that were made elsewhere, one of which may be late."""
        show = self._schema.time.show
        facts = {"complete before": show(in_time_from), "oldest of the rows": show(since)}
        hint = "nothing is lost: start the query again, which reads these rows anew"
        return RunError(message(f"step {self._step!r} got a sum of rows that may be late", facts, hint))

    def _go_on(self, state: PunctuateState) -> Emission:
        """Remember that something was reached though no rows came, and punctuate the bands that it lets go on."""
        before, self._state = self._state, state
        bounds = [
            (self._bound(before, patience), self._bound(state, patience)) for patience in self._patiences.tolist()
        ]
        return _emission([(self._nothing.punctuation(now) if now > then else self._nothing,) for then, now in bounds])

    @property
    def _nothing(self) -> EventBatch:
        """What bands get where no row came."""
        no_rows = EventBatch.inserts(self._schema.no_rows, _NO_ROWS)
        return no_rows if self._preaggregate is None else self._preaggregate.no_groups

    # ---- steered from outside ---------------------------------------------------------------------------------------

    def reached(self) -> Instant:
        """Up to where the most patient band is punctuated."""
        return self.in_time_from()

    @property
    def patience(self) -> Duration | None:
        """How long rows are waited for, where there is one band, and not only punctuations count."""
        return int(self._patiences[0]) if len(self._patiences) == 1 and self._patiences[0] < FOREVER else None

    def wait_as_before(self, patience: Duration) -> None:
        """Go on with a patience that was taken in an earlier life."""
        self._patiences = np.array([patience], dtype=np.int64)

    def wait_for(self, patience: Duration) -> Emission:
        """Take another patience from now on; what is punctuated stays punctuated, however long it is.

        >>> import slackwater as sw
        >>> node = sw.stream([{"at": 1}], time="at").sort(patience=9, every=sw.Every.rows(1)).node.input
        >>> operator = node.build("punctuate#1")
        >>> _ = operator.advance_high_water(10)
        >>> [batch.last_punctuation() for batch in operator.wait_for(3).batches], operator.wait_for(5).batches
        ([7], ())
        """
        assert self.patience is not None, "bands have several, and punctuations none"
        before, state = self.reached(), self._state
        reached = within_int64(state.punctuated_high_water - self.patience)
        self._state = replace(state, complete_before=max(state.complete_before, reached))
        self.wait_as_before(patience)
        now = self.reached()
        return _emission([(self._nothing.punctuation(now) if now > before else self._nothing,)])

    def punctuate(self, bound: Instant) -> Emission:
        """Punctuate every band at a bound, whatever its patience, where that is further than its last punctuation.

        >>> import slackwater as sw
        >>> node = sw.stream([{"at": 1}], time="at").sort(patience=3, every=sw.Every.rows(100)).node.input
        >>> operator = node.build("punctuate#1")
        >>> [batch.last_punctuation() for bound in (10, 9) for batch in operator.punctuate(bound).batches]
        [10]
        """
        return self.on_batch(0, EventBatch.inserts(self._schema.no_rows, _NO_ROWS).punctuation(bound))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release nothing: nothing was held."""
        return NOTHING

    def late(self) -> int:
        """How many rows were diverted or dropped."""
        return self._state.late

    def why(self) -> Why | None:
        """The patience of the last band, behind the newest time at the last instant; nothing where there is none.

        Where its input says that more is complete, it goes by that.
        """
        patience = int(self._patiences[-1])
        if patience == FOREVER:
            return None
        calendar, state = self._schema.calendar, self._state
        bound = self._bound(state, patience)
        if state.complete_before > within_int64(state.punctuated_high_water - patience):
            return Why(self._step, bound, state.high_water, Grounds.PUNCTUATED, "", calendar=calendar)
        ground = Grounds.NOTHING if bound == BEGINNING else Grounds.PATIENCE
        shown = format_duration(patience) if calendar else str(patience)
        return Why(self._step, bound, state.high_water, ground, f"patience {shown}", calendar=calendar)

    def snapshot(self) -> PunctuateState:
        """Return all there is to remember."""
        return self._state

    def split(self, spreads: Sequence[RowSpread]) -> list[PunctuateState]:
        """All know how far rows have come; the first goes on counting."""
        others = replace(self._state, late=0, adjusted=0)
        return [self._state, *[others] * (spreads[0].places - 1)]

    def unite(self, states: Sequence[PunctuateState]) -> PunctuateState:
        """All know the same of how far rows have come."""
        late, adjusted = sum(one.late for one in states), sum(one.adjusted for one in states)
        return replace(states[0], late=late, adjusted=adjusted)

    def check(self) -> None:
        """Assert the invariants."""
        state = self._state
        assert state.punctuated_high_water <= state.high_water, state
        assert state.late >= 0, state
        assert state.adjusted >= 0, state
        if self._cadence.unit is CadenceUnit.ROWS:
            assert 0 <= state.rows_since < self._cadence.length, state
        if self._cadence.unit is CadenceUnit.TIME:
            # Whoever enters a new cell of the grid makes an instant.
            length = self._cadence.length
            assert state.punctuated_high_water // length == state.high_water // length, state
        if self._cadence.unit is CadenceUnit.BATCH:
            assert state.punctuated_high_water == state.high_water, state

    def _follow(self, times: Times, places: Times, punctuations: Times) -> Stretches:
        every_rows = every_time = NEVER
        match self._cadence.unit:
            case CadenceUnit.ROWS:
                every_rows = self._cadence.length
            case CadenceUnit.TIME:
                every_time = self._cadence.length
            case CadenceUnit.BATCH:
                every_rows = len(times) or NEVER
        state = self._state
        progress = np.array([state.high_water, state.punctuated_high_water, state.rows_since, state.complete_before])
        stretches = follow(
            times, (places, punctuations), self._patiences, (every_rows, every_time), progress, self._grid
        )
        high_water, applied, rows_since, complete_before = progress.tolist()
        self._state = PunctuateState(high_water, applied, rows_since, complete_before, state.late, state.adjusted)
        return stretches

    def _bound(self, state: PunctuateState, patience: Duration) -> Instant:
        """Up to where a band is punctuated."""
        bound = max(state.complete_before, within_int64(state.punctuated_high_water - patience))
        return bound if self._windows is None else int(self._windows.punctuations(np.array([bound]))[0])

    def _follow_timed(self, times: Times, untimed: Mask, places: Times, punctuations: Times) -> Stretches:
        """Follow the rows that have a time as if the others were not there, and find the stretches among all rows."""
        timed = np.flatnonzero(~untimed)
        stretches = self._follow(times[timed], np.searchsorted(timed, places), punctuations)
        right_behind = np.concatenate([[0], timed + 1])
        if self._cadence.unit is CadenceUnit.BATCH and len(timed):
            right_behind[-1] = len(times)  # the instant is at the end of the batch, whichever row is the last
        return Stretches(right_behind[stretches.first], stretches.bounds, stretches.behind)

    def _treat_late(
        self, rows: EventBatch, bands: NDArray[np.int16], stretches: Stretches
    ) -> tuple[EventBatch, list[tuple[OutputName, EventBatch]]]:
        """Treat late rows by the policy; return the rows as they are now, and what goes to the late output."""
        late = rows_of(len(self._patiences), bands)
        if not len(late):
            return rows, []
        bounds = stretches.bounds_at(late)
        if self._late.action is LateAction.REFUSED:
            raise self._late_rows.refusal(rows.slice(int(late[0]), int(late[0]) + 1), int(bounds[0]))
        if self._late.action is LateAction.ADJUSTED:
            return self._adjusted(rows, bands, late, bounds), []
        self._state = replace(self._state, late=self._state.late + self._counted(rows, late))
        return rows, [] if self._late.action is LateAction.DROPPED else [
            (LATE, self._late_rows.diverted(rows.take_rows(late), bounds))
        ]

    def _counted(self, rows: EventBatch, chosen: NDArray[np.int64]) -> int:
        """How many rows these are, or stand for."""
        if self._event_count_column is None:
            return len(chosen)
        return int(rows.payload.column(self._event_count_column).to_numpy()[chosen].sum())

    def _adjusted(
        self, rows: EventBatch, bands: NDArray[np.int16], late: NDArray[np.int64], bounds: Times
    ) -> EventBatch:
        """Move late rows to the last band and its bound, unless there is none or nothing would be left of the event."""
        fits = bounds < FOREVER if rows.end is None else rows.end[late] > bounds
        fits &= bounds > BEGINNING  # only a row without a time is late before there is a bound
        moved = late[fits]
        bands[moved] = len(self._patiences) - 1
        start = rows.start.copy()
        start[moved] = bounds[fits]
        counts = (self._state.late + len(late) - len(moved), self._state.adjusted + len(moved))
        self._state = replace(self._state, late=counts[0], adjusted=counts[1])
        return EventBatch(rows.payload, start, rows.end)


_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
_NO_ROWS_BEFORE: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
"""Where the only stretch of a batch begins."""


_Batches: TypeAlias = tuple[EventBatch, ...]


def _followed_by(rows: EventBatch, punctuations: Times) -> _Batches:
    """Rows, and behind them the last of some punctuations."""
    return (rows, rows.punctuation(int(punctuations[-1]))) if len(punctuations) else (rows,)


def _picked(rows: EventBatch, numbers: NDArray[np.int64]) -> EventBatch:
    """Gather rows; long runs of neighbours, as when a few rows of many are late, are copied whole, which is faster."""
    breaks = np.flatnonzero(numbers[1:] - numbers[:-1] > 1) + 1
    if len(numbers) < _LONG_RUN * (len(breaks) + 1):
        return rows.take_rows(numbers)
    edges = pairwise([0, *breaks.tolist(), len(numbers)])
    return EventBatch.concat([rows.slice(int(numbers[a]), int(numbers[b - 1]) + 1) for a, b in edges])


def _emission(bands: list[_Batches], side: Sequence[tuple[OutputName, EventBatch]] = ()) -> Emission:
    main, *others = bands
    outputs = [(band_output(band), batch) for band, batches in enumerate(others, 1) for batch in batches if len(batch)]
    return Emission(tuple(batch for batch in main if len(batch)), (*outputs, *side))
