"""A profile as text: measures first, then what each patience loses and costs, then what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.progress.instants import format_duration, format_instant, rounded_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.disorder.fitted import FittedBounds
    from slackwater.profiling.advice import PatienceAdvice
    from slackwater.profiling.measures import SourceProfile, Spread
    from slackwater.profiling.profile import StreamProfile
    from slackwater.progress.instants import Duration

_BAR: Final = 20
"""Characters of a bar that is full."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"

_IN_BUCKETS: Final = "in buckets: p50 to p99.9 and patiences are at most {:.1%} too long, never too short"
_MOST_SOURCES: Final = 10
_FEW: Final = 3
_LONGEST_LITERAL: Final = 12
_WIDEST_LITERAL: Final = 110
"""Bounds that take more lines, or wider ones, are not shown: the value has them."""


def lines_of(profile: StreamProfile) -> Iterator[str]:
    """The whole profile, line by line."""
    words = Words(calendar=profile.calendar, clock_calendar=profile.clock_calendar)
    yield from _facts(profile, words)
    if profile.resolution:
        yield f"  lengths           {_IN_BUCKETS.format(profile.resolution)}"
    yield ""
    yield from _patiences(profile, words)
    if profile.sources:
        yield ""
        yield from _sources(profile.sources, words)
    yield ""
    yield from _advice(profile, words)


class Words:
    """Lengths of time as people write them."""

    def __init__(self, *, calendar: bool, clock_calendar: bool) -> None:
        self._calendar = calendar
        self._clock_calendar = clock_calendar

    def length(self, length: Duration | None, *, by_clock: bool = False) -> str:
        """A length of the times of rows, or of the clock of arrival; three digits are enough to read."""
        if length is None:
            return ""
        sign = "-" if length < 0 else ""
        calendar = self._clock_calendar if by_clock else self._calendar
        return sign + (format_duration(rounded_up(abs(length))) if calendar else f"{abs(length):,}")

    def given(self, length: Duration) -> str:
        """A length as it stands in a program."""
        return f'"{format_duration(length)}"' if self._calendar else str(length)


def _facts(profile: StreamProfile, words: Words) -> Iterator[str]:
    disorder, span = profile.disorder, (profile.oldest, profile.newest)
    begin, end = (format_instant(one, calendar=profile.calendar) for one in span)
    yield f"{profile.name}: {profile.rows:,} rows, {begin} to {end}"
    if profile.untimed:
        yield f"  without a time    {profile.untimed:,} rows, left out below"
    yield f"  out of order      {disorder.late:,} rows ({disorder.late_fraction:.1%}) come after a newer one"
    yield f"  late by           {_spread(profile.lateness, words)}"
    if profile.within is not None:
        yield f"  within a source   {_spread(profile.within, words)}{_between(profile)}"
    if profile.delay is not None:
        yield f"  under way         {_spread(profile.delay, words, by_clock=True)}"
    apart, least = ("some at least", "at least ") if disorder.at_least else ("at most", "")
    yield f"  inversions        {least}{disorder.inversions:,}, {apart} {disorder.distance:,} rows apart"
    yield f"  runs in order     {disorder.runs:,}, {least}{disorder.interleaved:,} interleaved"
    copies, future = profile.copies, profile.future
    if copies is not None and copies.repeats:
        again = f", again after {words.length(copies.longest, by_clock=True)} at most" if copies.longest else ""
        others = f", {copies.shared:,} rows from several sources" if copies.shared else ""
        yield f"  copies            {copies.repeats:,} rows repeat another{others}{again}"
    if future is not None and future.rows:
        whose = f" of {_sources_counted(future.sources)}" if future.sources else ""
        yield f"  from the future   {future.rows:,} rows{whose}, by {words.length(future.greatest)} at most"
    if profile.wrong_clocks:
        clocks = profile.wrong_clocks
        named = ", ".join(f"{one.name} ({words.length(one.behind)} behind)" for one in clocks[:_FEW])
        more = f" and {len(clocks) - _FEW} more" if len(clocks) > _FEW else ""
        yield f"  wrong clocks      {named}{more}: {sum(one.rows for one in clocks):,} rows, left out below"


def _spread(spread: Spread, words: Words, *, by_clock: bool = False) -> str:
    shown = {share: words.length(length, by_clock=by_clock) for share, length in spread.at}
    return ", ".join(
        [*(f"p{100 * share:g} {one}" for share, one in shown.items() if share < 1), f"at most {shown[1.0]}"]
    )


def _between(profile: StreamProfile) -> str:
    """What it means that rows of one source are in better order than all together."""
    assert profile.within is not None
    of_all, own = profile.lateness[0.99], profile.within[0.99]
    if 2 * own >= of_all:
        return ""
    return "  <- most of it is between sources: let bounds say so, or sort within origins"


def _patiences(profile: StreamProfile, words: Words) -> Iterator[str]:
    """What patiences lose and cost."""
    yield "what a patience does"
    header = ["", "patience", "complete", "late rows", "held at most", "delay, median", "p99"]
    outcomes = {one.outcome.patience: one.outcome for one in profile.patiences}
    rows = [
        [
            bar(one.complete),
            words.length(one.patience),
            f"{one.complete:.3%}",
            f"{one.late:,}",
            "" if one.most_held is None else f"{one.most_held:,}",
            words.length(one.median_delay, by_clock=True),
            words.length(one.delay, by_clock=True),
        ]
        for one in outcomes.values()
    ]
    patience, complete = profile.curve[0]
    if patience not in outcomes:
        rows.insert(0, [bar(complete), words.length(patience), f"{complete:.3%}", "", "", "", ""])
    yield from _with_what_is_known(header, rows)


def _sources(sources: Sequence[SourceProfile], words: Words) -> Iterator[str]:
    yield f"sources: {len(sources):,}" + (
        "" if len(sources) <= _MOST_SOURCES else f", the {_MOST_SOURCES} with most rows"
    )
    header = ["", "rows", "late", "within, at most", "behind all, at most", "longest silence", "median delay", "shared"]
    rows = [
        [
            shortened(str(one.name)),
            f"{one.rows:,}",
            f"{one.late / one.rows:.1%}",
            words.length(one.within),
            words.length(one.behind),
            words.length(one.silence, by_clock=True),
            words.length(one.median_delay, by_clock=True),
            f"{one.shared / one.rows:.1%}" if one.shared else "",
        ]
        for one in sources[:_MOST_SOURCES]
    ]
    yield from _with_what_is_known(header, rows)


def _with_what_is_known(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of texts, without those in which nothing stands."""
    shown = [place for place in range(len(header)) if any(row[place] for row in rows)]
    yield from aligned([header[place] for place in shown], [[row[place] for place in shown] for row in rows])


def _sources_counted(sources: int) -> str:
    return f"{sources:,} source" + ("" if sources == 1 else "s")


def _advice(profile: StreamProfile, words: Words) -> Iterator[str]:
    yield "what to write"
    lines = []
    for one in profile.patiences[1:]:
        share = "all" if one.share == 1 else f"{100 * one.share:g} %"
        lines.append([f".sort(patience={words.given(one.patience)})", f"{share} in time", _tried(one, words)])
    yield from aligned(None, lines, left=3)
    if profile.bands:
        patiences = ", ".join(map(words.given, profile.bands))
        yield f"  .in_bands({patiences}, ...)  answers soon, and right ones"
    if profile.ahead is not None:
        guard = f"ahead={words.given(profile.ahead.ahead)}"
        yield f"  {guard}  beside these: {profile.ahead.diverted:,} rows from the future move nothing then"
    if profile.bounds is not None:
        yield from _bounds(profile.bounds, words)


def _tried(advice: PatienceAdvice, words: Words) -> str:
    """What it gave that the same was chosen without a look at the rest."""
    held = advice.held_out
    if held is None:
        return ""
    outcome = "kept" if held.complete >= advice.share else f"missed by {advice.share - held.complete:.2%}"
    return (
        f"tried: {words.length(held.patience)}, chosen before, has {held.complete:.3%} of the rest in time ({outcome})"
    )


def _bounds(bounds: FittedBounds, words: Words) -> Iterator[str]:
    fitted, rest = bounds.fitted, bounds.on_the_rest
    delay, alone = (words.length(one, by_clock=True) for one in (fitted.mean_delay, fitted.mean_delay_by_origin))
    yield f"  .sort(bounds=...)  {delay} mean delay, and {alone} by .sort_within_origins(bounds=...)"
    if rest.rows:
        yield f"    tried: chosen before, they have {1 - rest.loss:.3%} of the rest in time"
    literal = bounds.text.splitlines()
    if len(literal) <= _LONGEST_LITERAL and max(map(len, literal)) <= _WIDEST_LITERAL:
        yield from (f"    {line}" for line in literal)
    else:
        yield "    print(profile.bounds) has them, and their curve of delay against loss"


def shortened(name: str) -> str:
    """A name that takes no more room than a column has; where it begins and how it ends is worth most.

    >>> shortened("WORKSTATION5.example.local|Windows-PowerShell/Operational")
    'WORKSTATION5.ex…Shell/Operational'
    """
    most = 33
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most - most // 2) :]}"


def bar(part: float) -> str:
    """A bar that is full at 1.

    >>> bar(0.5)
    '██████████          '
    """
    eighths = round(part * _BAR * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def aligned(header: Sequence[str] | None, rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Columns of texts: the first ones to the left, all others to the right.

    >>> list(aligned(["", "rows"], [["a", "1"], ["bc", "20"]]))
    ['      rows', '  a      1', '  bc    20']
    """
    cells = [row for row in (header, *rows) if row is not None]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    for row in cells:
        texts = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(texts)).rstrip()
