"""Fits bounds to a recorded sample of a stream: exact for what was seen, or for nearly all of it.

Four things are measured for each row: how far it is behind its own source, how far behind all sources a while ago (for
several whiles), how long it was under way by the clock of arrival, and the longest silence of all before it came in
spite of its age. The greatest of each is a bound that holds for the whole sample; a quantile is one that leaves out a
part of the rows. All hold together. What they give is found by a replay, not by a formula; and since bounds that fit
what was seen may not fit what comes, they are fitted to the first part of the sample and tried on the rest.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 6: bounds on rows as they
arrive, latency included. Sources with few rows are put together, and are the model for sources that were not seen.

Cost: O(n log n) for a sample of n rows; a replay for each point of the curve, and for each bound that may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.disorder.fitted import CurvePoint, FittedBounds, Outcome
from slackwater.disorder.sample import LEAST_ROWS, Sample
from slackwater.errors import PlanError, message
from slackwater.kernels.progress.skews import longest_silence, skew_within_source
from slackwater.operators.heartbeats.recording import Recording
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import BEGINNING, MICROSECONDS, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration

    Column = NDArray[np.int64]

BEYOND: Final = (0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1)
"""The parts of the rows that are left out, point by point of the curve."""

_LAGS: Final = 12
"""After so many whiles, each twice as long as the one before, bounds on all sources are tried."""

_BY_CLOCK: Final = frozenset({"lull", "delay"})
"""Kinds of bounds whose lengths are of the clock of arrival, not of the times."""

_WORTH: Final = 1.01
"""A bound without which rows wait by less than this factor longer is left out: what is shorter is easier to keep."""


def fit_bounds(
    sample: pa.Table | str | Path, *, time: str, arrived: str, origin: str, loss: float = 0.0, first: float = 0.7
) -> FittedBounds:
    """Fit bounds to a recorded sample, for `sort(bounds=...)`; and show what they cost, and lose, on the rest of it.

    - `sample`: an Arrow table, or the path of Parquet files, with at least a few thousand rows.
    - `time`, `arrived`, `origin`: the columns with the times, the instants of arrival, and the sources.
    - `loss`: the part of the rows that may be late; 0 fits all rows that were seen.
    - `first`: the part of the sample that bounds are fitted to; the rest, which arrived later, tries them.

    Bounds that fit a sample are no guarantee: what `on_the_rest` loses is the measure of what is to come. They have the
    paper's time-out among them (`Bounds.lull`), where silences were short whenever something was still to come.

    >>> import pyarrow as pa, slackwater as sw
    >>> rows = pa.table({"at": [1, 2, 2, 4, 5, 6], "came": [3, 4, 5, 6, 7, 8], "by": ["a", "b", "a", "b", "a", "b"]})
    >>> fitted = sw.fit_bounds(rows, time="at", arrived="came", origin="by", first=0.5)
    >>> print(fitted.text)
    (
        sw.Bounds.uniform(0)
    ).once_seen()
    """
    if not 0 <= loss < 1 or not 0 < first <= 1:
        hint = "loss=0.001 allows one row of a thousand to be late; first=0.7 tries bounds on the last three tenths"
        raise PlanError(message("these are no parts of a sample", {"loss": loss, "first": first}, hint))
    return fit_sample(Sample.read(sample, time, arrived, origin), loss, first)


def fit_sample(whole: Sample, loss: float, first: float) -> FittedBounds:
    """Fit bounds to a sample that has been read."""
    seen = whole.up_to(max(int(len(whole.times) * first), 1))
    # Sources are waited for from their first row on, if no more than allowed is late then; else from the beginning.
    for fit in (_Fit(seen, as_seen=True), _Fit(seen, as_seen=False)):
        curve = tuple(CurvePoint(part, fit.outcome(fit.families, level)) for level, part in enumerate(BEYOND))
        allowed = [level for level, point in enumerate(curve) if point.outcome.loss <= loss]
        if allowed:
            break
    level = min(allowed, key=lambda one: curve[one].outcome.mean_delay, default=0)
    families, fitted = fit.needed(level, curve[level].outcome, loss)
    bounds, text = fit.bounds(families, level)
    on_the_rest = _outcome(_recording(whole, fit.grid), bounds.rules(whole.units), len(seen.times))
    return FittedBounds(bounds, text, curve, fitted, on_the_rest, seen.units.clock_calendar)


@dataclass(frozen=True, eq=False)
class _Family:
    """Bounds of one kind: one for each source that is named and one for all others, at every point of the curve."""

    kind: str
    after: Duration
    values: Column
    """By the point of the curve, and the source; the last is for all others."""


@dataclass(frozen=True, eq=False)
class _Fit:
    """What a sample shows."""

    sample: Sample
    as_seen: bool
    """Whether sources are waited for from their first row on, or from the beginning."""

    # ---- what is measured -------------------------------------------------------------------------------------------

    @cached_property
    def newest(self) -> Column:
        """The greatest time up to each row."""
        return np.maximum.accumulate(self.sample.times)

    @cached_property
    def by_source(self) -> tuple[Column, Column]:
        """The rows in order of their source, those with few rows being one; and where each of these begins."""
        group = np.minimum(self.sample.codes, self.sample.named)
        return np.argsort(group.astype(np.uint16), kind="stable"), np.searchsorted(
            np.sort(group), np.arange(self.sample.named + 2)
        )

    def behind_all(self, after: Duration) -> Column:
        """How far each row is behind the greatest time that had arrived so long before it; BEGINNING for no row."""
        before = np.searchsorted(self.sample.arrived, self.sample.arrived - after, side="left") - 1
        return np.where(before < 0, BEGINNING, self.newest[before] - self.sample.times)

    def behind_own(self) -> Column:
        """How far each row is behind the greatest time of its source; BEGINNING for no row."""
        found, high_water = np.empty_like(self.newest), np.full(len(self.sample.names), BEGINNING)
        skew_within_source(self.sample.arrived, self.sample.codes, self.sample.times, high_water, found)
        return found

    def silences(self) -> Column:
        """For each row the longest silence of all, since one came that is not older."""
        first = np.searchsorted(self.newest, self.sample.times, side="left")
        found = np.empty_like(self.newest)
        longest_silence(self.sample.arrived, first, np.empty_like(self.newest), found)
        return found

    # ---- bounds -----------------------------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> Duration:
        """How finely arrivals are counted in replays: about a fiftieth of what one patience for all would be."""
        patience = max(int(self.behind_all(0).max()), 1)
        if not self.sample.units.clock_calendar:
            return max(patience // 50, 1) if not self.sample.units.calendar else 1
        nice = [MICROSECONDS["s"] * seconds for seconds in (1, 10, 60, 600, 3600)]
        return max([length for length in nice if 50 * length <= patience], default=nice[0])

    @cached_property
    def families(self) -> tuple[_Family, ...]:
        """All kinds of bounds, for all points of the curve."""
        made = [self._family("disorder", self.behind_own()), self._family("uniform", self.behind_all(0))]
        for lag in range(_LAGS):
            after = self.grid << lag
            made.append(self._family("uniform", self.behind_all(after), after))
            if (made[-1].values[0] <= 0).all():
                break
        if self.sample.units.calendar == self.sample.units.clock_calendar:
            made.append(self._family("delay", self.sample.arrived - self.sample.times))
        silences = np.sort(self.silences())
        # One unit longer than the longest that was a mistake; a tick at least, for nobody looks more often.
        longest = [max(int(_beyond(silences, beyond)) + 1, self.grid) for beyond in BEYOND]
        made.append(_Family("lull", 0, np.array(longest)[:, None]))
        return tuple(made)

    def _family(self, kind: str, values: Column, after: Duration = 0) -> _Family:
        order, begins = self.by_source
        values = values[order]
        found = np.full((len(BEYOND), self.sample.named + 1), BEGINNING)
        for source, (begin, end) in enumerate(zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)):
            ordered = np.sort(values[begin:end])
            found[:, source] = [_beyond(ordered, beyond) for beyond in BEYOND]
        # Where few rows stand for all others, so does what holds for everybody.
        few = begins[-1] - begins[-2] < LEAST_ROWS
        weakest = found.max(axis=1)
        found[:, -1] = weakest if few else found[:, -1]
        return _Family(kind, after, np.where(found == BEGINNING, weakest[:, None], found).clip(0))

    def bounds(self, families: Iterable[_Family], level: int) -> tuple[Bounds, str]:
        """These bounds, and the same as text."""
        units, made, lines = self.sample.units, [], []
        for family in families:
            calendar = units.clock_calendar if family.kind in _BY_CLOCK else units.calendar
            lengths = [_length(value, calendar=calendar) for value in family.values[level].tolist()]
            after = {"after": _length(family.after, calendar=units.clock_calendar)} if family.after else {}
            names = (*self.sample.names[: self.sample.named], ...)
            given: Any = lengths[0] if len(set(lengths)) == 1 else dict(zip(names, lengths, strict=True))
            made.append(getattr(Bounds, family.kind)(given, **after))
            arguments = [_written(given), *(f"after={length!r}" for length in after.values())]
            lines.append(f"sw.Bounds.{family.kind}({', '.join(arguments)})")
        together, text = reduce(and_, made), "(\n    " + "\n    & ".join(lines) + "\n)"
        return (together.once_seen(), f"{text}.once_seen()") if self.as_seen else (together, text)

    def outcome(self, families: Iterable[_Family], level: int) -> Outcome:
        """What they give on this sample."""
        return _outcome(self.recording, self.bounds(families, level)[0].rules(self.sample.units), 0)

    @cached_property
    def recording(self) -> Recording:
        """The sample, to be replayed."""
        return _recording(self.sample, self.grid)

    def needed(self, level: int, best: Outcome, loss: float) -> tuple[tuple[_Family, ...], Outcome]:
        """The bounds without which rows would wait longer, or more of them would be late; and what they give."""
        kept, given = list(self.families), best
        for family in reversed(self.families):
            fewer = [one for one in kept if one is not family]
            without = self.outcome(fewer, level) if fewer else None
            if without is not None and _as_good(without, best, max(loss, best.loss)):
                kept, given = fewer, without
        return tuple(kept), given


def _as_good(without: Outcome, best: Outcome, loss: float) -> bool:
    longest, longest_by_origin = _WORTH * best.mean_delay, _WORTH * best.mean_delay_by_origin
    return without.loss <= loss and without.mean_delay <= longest and without.mean_delay_by_origin <= longest_by_origin


def _recording(sample: Sample, grid: Duration) -> Recording:
    return Recording(sample.arrived, sample.codes, sample.times, sample.names, grid)


def _outcome(recording: Recording, rules: Rules, since: int) -> Outcome:
    """What rules give on the rows from a place on."""
    replayed = recording.replayed(rules)
    late, late_by_origin = (replayed.late(by_origin=by_origin)[since:] for by_origin in (False, True))
    delays = replayed.delays()[since:][~late]
    by_origin = replayed.delays(by_origin=True)[since:][~late_by_origin]
    return Outcome(
        rows=len(late),
        late=int(np.count_nonzero(late)),
        mean_delay=int(delays.mean()) if len(delays) else 0,
        median_delay=int(np.median(delays)) if len(delays) else 0,
        mean_delay_by_origin=int(by_origin.mean()) if len(by_origin) else 0,
        late_by_origin=int(np.count_nonzero(late_by_origin)),
    )


def _beyond(ordered: Column, part: float) -> int:
    """The least value that no more than a part of the rows is beyond; BEGINNING if there are no rows."""
    return int(ordered[len(ordered) - 1 - int(part * len(ordered))]) if len(ordered) else BEGINNING


def _length(value: Duration, *, calendar: bool) -> Length:
    """A length as a user writes it: three digits, rounded up."""
    if not calendar:
        return value
    unit = 10 ** max(len(str(value)) - 3, 0)
    return format_duration(-(-value // unit) * unit)


def _written(given: Length | dict[Any, Length]) -> str:
    if not isinstance(given, dict):
        return repr(given)
    named = [f"{'...' if name is ... else repr(name)}: {length!r}" for name, length in given.items()]
    return "{" + ", ".join(named) + "}"
