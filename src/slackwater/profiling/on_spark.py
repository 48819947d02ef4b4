"""A profile of a DataFrame, measured by Spark: the same measures, with lengths in buckets (`log_buckets.py`).

The frame is read once. A DataFrame has no order of its own: a column says when rows arrived. Slices of arrival are
measured one by one (`slices.py`), each compared with all that came before it, and the driver puts together what they
found. Exact are all counts, greatest lengths, medians of sources with up to ten thousand rows, and the curve of
completeness at its points. A quantile, and a patience made of one, is at most a 128th too long and never too short;
rows beyond a patience are counted with the whole of its bucket. How long rows wait by a patience, and how many at a
time, is not measured.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.disorder.profile import QUANTILES, DisorderProfile
from slackwater.profiling.advice import (
    MOST_FITTED,
    SHARES,
    AheadGuard,
    HeldOut,
    PatienceAdvice,
    bounds_advice,
    guard_against,
    readable,
    stretch_begins,
)
from slackwater.profiling.clocks import WrongClock, wrong_clocks
from slackwater.profiling.measures import Copies, Future, PatienceOutcome, SourceProfile, Spread, beyond, steps_up_to
from slackwater.profiling.recording import FURTHEST, Recording
from slackwater.profiling.series import HEAT_SOURCES, SKEW_SOURCES, Heat, Skew, SpanOfRows, span_begins
from slackwater.profiling.slices import Before, Found, Questions, What, look_at_slice
from slackwater.progress.instants import BEGINNING
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import pyarrow as pa

    from slackwater.disorder.fitted import FittedBounds
    from slackwater.profiling.log_buckets import Buckets
    from slackwater.profiling.recording import Columns
    from slackwater.progress.instants import Duration
    from slackwater.runners.spark.profile.narrow_frame import NarrowFrame
    from slackwater.runners.spark.source import SparkFeed

ROWS_OF_A_SLICE: Final = 500_000
"""So many rows are looked at together, in some 50 MB of a task; those of one instant of arrival always are."""


@dataclass(frozen=True)
class MeasuredBySpark:
    """What Spark has found of a frame, with the names that a profile has for it."""

    rows: int
    untimed: int
    oldest: int
    newest: int
    calendar: bool
    clock_calendar: bool
    first: float
    sources: tuple[SourceProfile, ...]
    wrong_clocks: tuple[WrongClock, ...]
    sound_rows: int
    found: Found
    asked: Questions
    copies: Copies | None
    future: Future | None
    sample: Recording | None
    """The first rows, to fit bounds to."""

    def disorder(self) -> DisorderProfile:
        """The measures of disorder: of several slices some are the least that there can be."""
        runs = self.found.runs.sort_by("number").to_pydict()
        joints = sum(last <= first for last, first in zip(runs["last"][:-1], runs["first"][1:], strict=True))
        late = self.found.all_of(What.LATENESS).longer_than_none()
        ranks = {share: min(int(share * late.rows), late.rows - 1) for share in (*QUANTILES, 1.0)}
        return DisorderProfile(
            events=sum(runs["events"]),
            inversions=sum(runs["inversions"]),
            distance=max(runs["distance"]),
            runs=sum(runs["runs"]) - joints,
            interleaved=max(runs["interleaved"]),
            late=late.rows,
            lateness={share: late.at_rank(rank) for share, rank in ranks.items()} if late.rows else {},
            calendar=self.calendar,
            at_least=len(runs["events"]) > 1,
        )

    def spread(self, what: What) -> Spread | None:
        """Quantiles of a length; None where it was not measured."""
        return self.found.all_of(what).spread() if self.found.has(what) else None

    def curve(self) -> tuple[tuple[Duration, float], ...]:
        """Completeness by patience, at lengths that rows have: there it is exact."""
        lateness = self.found.all_of(What.SOUND)
        counted = np.cumsum(lateness.counts)
        places = (
            np.searchsorted(lateness.greatest, np.array(steps_up_to(lateness.longest), np.uint64), side="right") - 1
        )
        chosen = sorted({place for place in places.tolist() if place >= 0})
        return tuple((int(lateness.greatest[place]), int(counted[place]) / lateness.rows) for place in chosen)

    def patiences(self) -> tuple[PatienceAdvice, ...]:
        """A patience for each share, as the worst stretch needs it; tried on the rest."""
        whole, first = (self.found.buckets(what).values() for what in (What.SOUND, What.FIRST))
        together = self.found.all_of(What.SOUND)
        rest = self.found.all_of(What.REST)
        found = []
        for share in SHARES:
            patience = _patience(whole, share, calendar=self.calendar)
            held_out = None
            if rest.rows:
                chosen = _patience(first, share, calendar=self.calendar)
                held_out = HeldOut(chosen, rest.rows, rest.at_most_longer(chosen))
            found.append(PatienceAdvice(share, _outcome(together, patience), held_out))
        return tuple(found)

    def trade_offs(self) -> tuple[PatienceOutcome, ...]:
        """What patiences lose: those of the curve, and those that are advised."""
        together = self.found.all_of(What.SOUND)
        patiences = {patience for patience, _ in self.curve()} | {one.patience for one in self.patiences()}
        return tuple(_outcome(together, patience) for patience in sorted(patiences))

    def bounds(self) -> FittedBounds | None:
        """Bounds for the sources, fitted to the first rows."""
        return None if self.sample is None else bounds_advice(self.sample, self.first)

    def ahead(self) -> AheadGuard | None:
        """A guard against a few rows that are far ahead."""
        if not self.found.has(What.AHEAD):
            return None
        ahead = self.found.all_of(What.AHEAD)
        usual = ahead.at_rank(ahead.rows - 1 - beyond(ahead.rows, 0.999))
        guard = guard_against(usual, ahead.longest, calendar=self.calendar)
        return None if guard is None else AheadGuard(guard, ahead.at_most_longer(guard))

    def spans(self) -> tuple[SpanOfRows, ...]:
        """Parts of the recording."""
        lateness = self.found.buckets(What.SPAN)
        return tuple(
            SpanOfRows(
                first=self.asked.spans[one["span"]],
                arrived=one["first_came"],
                rows=(its := lateness[one["span"]]).rows,
                median=its.at_rank((its.rows - 1) // 2),
                greatest=its.longest,
                silence=one["silence"],
            )
            for one in self.found.spans.sort_by("span").to_pylist()
        )

    def heat(self) -> tuple[Heat, ...]:
        """How many rows of a source are how late."""
        classes: dict[str | None, dict[int, int]] = defaultdict(dict)
        for one in self.found.heat.to_pylist():
            classes[one["who"]][one["class"]] = one["rows"]
        width = max((max(its) for its in classes.values()), default=0) + 1
        return tuple(
            Heat(name, tuple(classes[name].get(number, 0) for number in range(width)))
            for name in self.asked.heat
            if self.asked.by_source
        )

    def skews(self) -> tuple[Skew, ...]:
        """How far each source is behind each other one."""
        names = self.asked.skew
        return tuple(
            Skew(names[one["ahead"]], names[one["behind"]], one["by"])
            for one in self.found.skew.sort_by([("ahead", "ascending"), ("behind", "ascending")]).to_pylist()
        )


def measured_by_spark(feed: SparkFeed, columns: Columns, first: float, *, copies: bool) -> MeasuredBySpark:
    """Have Spark look at all rows of a DataFrame."""
    from slackwater.runners.spark.profile.narrow_frame import NarrowFrame

    assert columns.arrived is not None
    kinds = tuple(columns.on_calendar(feed.schema, name) for name in (columns.time, columns.arrived))
    named = (columns.time, columns.arrived, columns.origin, columns.epoch)
    with NarrowFrame.kept(feed, *named, contents=copies) as narrow:
        return measure(narrow, columns, kinds, first, copies=copies, slice_rows=ROWS_OF_A_SLICE)


def measure(
    narrow: NarrowFrame, columns: Columns, kinds: tuple[bool, ...], first: float, *, copies: bool, slice_rows: int
) -> MeasuredBySpark:
    """Ask for facts, then have slices looked at. `kinds` are whether times and arrivals are calendar time."""
    (calendar, clock_calendar), by_source = kinds, columns.origin is not None
    comparable = calendar == clock_calendar
    facts = narrow.facts()
    _require_rows(facts, columns)
    sources = _sources(narrow, comparable=comparable)
    wrong = wrong_clocks(sources) if by_source else ()
    slices = narrow.slices(_ends(facts, slice_rows))
    of_slices = slices.facts(_names(wrong))
    asked = _questions(sources, wrong, of_slices, first, by_source=by_source, comparable=comparable)
    newest = slices.newest_of(asked.skew).to_pylist() if by_source else []
    before = _before(of_slices, newest, asked)
    found = Found.read(slices.summaries(partial(_look, before, asked), Found.tables()))
    copied = _copies(narrow.copies(), by_source=by_source) if copies else None
    sample = narrow.first(MOST_FITTED, asked.wrong) if by_source else None
    return MeasuredBySpark(
        rows=facts["rows"],
        untimed=facts["rows"] - facts["timed"],
        oldest=facts["oldest"],
        newest=facts["newest"],
        calendar=calendar,
        clock_calendar=clock_calendar,
        first=first,
        sources=_completed(sources, found, copied and copied[1]) if by_source else (),
        wrong_clocks=wrong,
        sound_rows=sum(one["sound_rows"] for one in of_slices),
        found=found,
        asked=asked,
        copies=copied and copied[0],
        future=_future(facts, sources, by_source=by_source) if comparable else None,
        sample=None if sample is None else Recording.of_columns(sample, calendar, clock_calendar),
    )


def _look(before: dict[int, Before], asked: Questions, number: int, rows: pa.Table, sources: pa.Table) -> list[bytes]:
    return look_at_slice(number, rows, before[number], sources, asked).written()


def _require_rows(facts: dict[str, Any], columns: Columns) -> None:
    """Refuse what in process is refused, too."""
    if not facts["timed"]:
        raise columns.without_times("frame", facts["rows"])
    if facts["unknown"]:
        raise columns.without_arrivals(facts["unknown"])
    if facts["last"] - facts["first"] > FURTHEST:
        raise columns.arrivals_too_far()


def _sources(narrow: NarrowFrame, *, comparable: bool) -> tuple[SourceProfile, ...]:
    """What is known of sources before slices are looked at."""
    return tuple(
        SourceProfile(
            name=one["who"],
            rows=one["rows"],
            late=0,
            within=0,
            behind=0,
            silence=0,
            median_delay=one["median"] if comparable else None,
            least_delay=one["least"] if comparable else None,
            shared=None,
        )
        for one in narrow.sources().to_pylist()
    )


def _completed(
    sources: Iterable[SourceProfile], found: Found, shared: dict[Hashable, int] | None
) -> tuple[SourceProfile, ...]:
    """The same sources, with what slices have found of them."""
    known = {one["who"]: one for one in found.sources.to_pylist()}
    return tuple(
        replace(
            one,
            late=known[one.name]["late"],
            within=known[one.name]["within"],
            behind=known[one.name]["behind"],
            silence=known[one.name]["silence"],
            shared=None if shared is None else shared.get(one.name, 0),
        )
        for one in sources
    )


def _ends(facts: dict[str, Any], slice_rows: int) -> list[int]:
    """The last arrival of each slice but the last one."""
    marks = facts["marks"]
    slices = min(-(-facts["timed"] // slice_rows), len(marks) + 1)
    return sorted({marks[number * (len(marks) + 1) // slices - 1] for number in range(1, slices)})


def _names(sources: Iterable[SourceProfile] | Iterable[WrongClock]) -> list[str | None]:
    """Names of sources, as they are in the narrow frame."""
    return [None if one.name is None else str(one.name) for one in sources]


def _questions(
    sources: Sequence[SourceProfile],
    wrong: Sequence[WrongClock],
    of_slices: Sequence[dict[str, Any]],
    first: float,
    *,
    by_source: bool,
    comparable: bool,
) -> Questions:
    sound = sum(one["sound_rows"] for one in of_slices)
    seen = max(int(sound * first), 1)
    names = _names(sources) if by_source else []
    left_out = _names(wrong)
    return Questions(
        wrong=tuple(left_out),
        stretches=tuple(stretch_begins(sound)),
        first_stretches=tuple(stretch_begins(seen)),
        seen=seen,
        spans=tuple(span_begins(sound)[:-1].tolist()),
        heat=tuple(names[:HEAT_SOURCES]),
        skew=tuple([name for name in names if name not in left_out][:SKEW_SOURCES]),
        by_source=by_source,
        comparable=comparable,
    )


def _before(
    of_slices: Sequence[dict[str, Any]], newest_of: Sequence[dict[str, Any]], asked: Questions
) -> dict[int, Before]:
    """What came before each slice, in their order."""
    of_source = {(one["slice"], one["who"]): one["newest"] for one in newest_of}
    following = [one["first_sound"] for one in of_slices[1:]] + [None]
    for place in reversed(range(len(following) - 1)):  # a slice may have no sound row
        following[place] = following[place + 1] if following[place] is None else following[place]
    found: dict[int, Before] = {}
    now = Before(newest_of=(BEGINNING,) * len(asked.skew))
    for one, next_came in zip(of_slices, following, strict=True):
        found[one["slice"]] = replace(now, next_came=next_came)
        newest_sound = BEGINNING if one["newest_sound"] is None else one["newest_sound"]
        now = Before(
            newest=max(now.newest, one["newest"]),
            newest_sound=max(now.newest_sound, newest_sound),
            sound_rows=now.sound_rows + one["sound_rows"],
            newest_of=tuple(
                max(newest, of_source.get((one["slice"], name), BEGINNING))
                for name, newest in zip(asked.skew, now.newest_of, strict=True)
            ),
        )
    return found


def _copies(found: dict[str, Any], *, by_source: bool) -> tuple[Copies, dict[Hashable, int]]:
    shared = {one["who"]: one["rows"] for one in found["shared"].to_pylist()}
    total = sum(shared.values()) if by_source else None
    longest = found["longest"] if found["repeats"] else None
    return Copies(found["repeats"], total, longest), shared


def _future(facts: dict[str, Any], sources: Iterable[SourceProfile], *, by_source: bool) -> Future:
    ahead = sum(one.least_delay is not None and one.least_delay < 0 for one in sources) if by_source else None
    return Future(facts["ahead"], max(within_int64(-facts["least_delay"]), 0), ahead)


def _patience(stretches: Iterable[Buckets], share: float, *, calendar: bool) -> Duration:
    """What the worst stretch needs."""
    needed = max(one.at_rank(one.rows - 1 - beyond(one.rows, share)) for one in stretches)
    return readable(needed, calendar=calendar)


def _outcome(lateness: Buckets, patience: Duration) -> PatienceOutcome:
    """What a patience loses; nobody has followed how long the other rows wait."""
    late = lateness.at_most_longer(patience)
    return PatienceOutcome(patience, lateness.rows, late, None, None, None, None)
