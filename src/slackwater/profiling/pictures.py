"""The pictures of a page about a profile: Vega-Lite, made by Altair, with their points in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slackwater.progress.instants import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.disorder.fitted import FittedBounds
    from slackwater.profiling.measures import PatienceOutcome
    from slackwater.profiling.profile import StreamProfile
    from slackwater.profiling.text import Words
    from slackwater.progress.instants import Duration

_UNITS: Final = ("us", "ms", "s", "m", "h", "d")
_WIDTH: Final = 640
_RED: Final = "#c1121f"
_BLUE: Final = "#2a6f97"
_GREY: Final = "#6c757d"
_NAMES_WITH_WORDS: Final = 10
"""In a picture of so many sources each cell has room for its words."""


class Scale:
    """The unit in which a picture has its lengths."""

    def __init__(self, unit: str, size: int) -> None:
        self.unit = unit
        self._size = size

    @classmethod
    def of(cls, greatest: Duration, *, calendar: bool) -> Scale:
        """The greatest unit that the longest length has one of."""
        if not calendar:
            return cls("units of time", 1)
        unit = [one for one in _UNITS if MICROSECONDS[one] <= max(greatest, 1)][-1]
        return cls({"m": "minutes", "h": "hours", "d": "days", "s": "seconds"}.get(unit, unit), MICROSECONDS[unit])

    def __call__(self, length: Duration) -> float:
        """A length in this unit."""
        return length / self._size


def completeness_picture(profile: StreamProfile, words: Words) -> dict[str, Any]:
    """The part of the rows that is in time by patience, and a slider that shows what a patience loses and costs."""
    import altair as alt

    points = [
        {"step": step, "patience": words.length(one.patience), "complete": one.complete, "words": _outcome(one, words)}
        for step, one in enumerate(profile.trade_offs)
    ]
    slider = alt.binding_range(min=0, max=len(points) - 1, step=1, name="patience ")
    chosen = alt.param(name="chosen", value=len(points) - 1, bind=slider)
    x = alt.X("patience:O", sort=None, title="patience", axis=alt.Axis(labelAngle=-45, labelOverlap=True))
    y = alt.Y("complete:Q", title="rows in time", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    line = _chart(points).mark_line(interpolate="step-after", color=_BLUE).encode(x=x, y=y)
    at = _chart(points).transform_filter("datum.step == chosen")
    rule = at.mark_rule(color=_RED).encode(x=x)
    text = at.mark_text(align="center", baseline="bottom", color=_RED).encode(
        x=alt.value(_WIDTH // 2), y=alt.value(-8), text="words:N"
    )
    return _sized(alt.layer(line, rule, text).add_params(chosen), 260)


def _outcome(one: PatienceOutcome, words: Words) -> str:
    """What a patience loses and costs, in a line."""
    parts = [f"{words.length(one.patience)}: {one.complete:.3%} in time", f"{one.late:,} rows late"]
    if one.median_delay is not None:
        median, long = (words.length(delay, by_clock=True) for delay in (one.median_delay, one.delay))
        parts.append(f"half wait {median}, 99 % {long}")
    if one.most_held is not None:
        parts.append(f"{one.most_held:,} held at most")
    return ", ".join(parts)


def within_picture(profile: StreamProfile, scale: Scale) -> dict[str, Any]:
    """Quantiles of lateness, of all rows and of those of a source among themselves."""
    import altair as alt

    assert profile.within is not None
    rows = [
        {"of": of, "share": "at most" if share == 1 else f"p{100 * share:g}", "lateness": scale(length)}
        for of, spread in (("all sources", profile.lateness), ("its own source", profile.within))
        for share, length in spread.at
    ]
    chart = (
        _chart(rows)
        .mark_bar()
        .encode(
            y=alt.Y("share:N", sort=None, title=None),
            yOffset=alt.YOffset("of:N", sort=None),
            x=alt.X("lateness:Q", title=f"behind the newest, {scale.unit}"),
            color=alt.Color("of:N", title="behind", sort=None, scale=alt.Scale(range=[_RED, _BLUE])),
        )
    )
    return _sized(chart, 220)


def over_time_picture(profile: StreamProfile, scale: Scale, words: Words) -> dict[str, Any]:
    """Lateness in parts of the recording; and below, where arrivals are known, the longest pause in each of them."""
    import altair as alt

    by_clock = profile.clock_calendar and profile.spans[0].arrived is not None
    places = [one.arrived / 1_000 if by_clock and one.arrived is not None else one.first for one in profile.spans]
    points = [
        {"at": at, "what": what, "lateness": scale(length)}
        for at, one in zip(places, profile.spans, strict=True)
        for what, length in (("greatest", one.greatest), ("median", one.median))
    ]
    x = alt.X("at:T", title="arrived") if by_clock else alt.X("at:Q", title="row")
    late = (
        _chart(points)
        .mark_line(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("lateness:Q", title=f"behind the newest, {scale.unit}"),
            color=alt.Color("what:N", title=None, sort=None, scale=alt.Scale(range=[_RED, _BLUE])),
        )
    )
    silences = [one.silence for one in profile.spans if one.silence is not None]
    if not silences:
        return _sized(late, 220)
    own = Scale.of(max(silences), calendar=profile.clock_calendar)
    pauses = [
        {"at": at, "pause": own(one.silence), "words": f"nothing for {words.length(one.silence, by_clock=True)}"}
        for at, one in zip(places, profile.spans, strict=True)
        if one.silence
    ]
    below = (
        _chart(pauses)
        .mark_bar(color=_GREY, width=2)
        .encode(x=x, y=alt.Y("pause:Q", title=f"longest pause, {own.unit}"), tooltip=["words:N"])
    )
    drawn: dict[str, Any] = (
        alt.vconcat(late.properties(width=_WIDTH, height=220), below.properties(width=_WIDTH, height=90))
        .resolve_scale(x="shared")
        .to_dict()
    )
    return drawn


def heat_picture(profile: StreamProfile, words: Words) -> dict[str, Any]:
    """How many rows of each source are how late."""
    import altair as alt

    cells = [
        {"source": str(one.name), "lateness": _class_named(number, words), "rows": rows}
        for one in profile.heat
        for number, rows in enumerate(one.rows)
        if rows
    ]
    classes = [_class_named(number, words) for number in range(max(len(one.rows) for one in profile.heat))]
    chart = (
        _chart(cells)
        .mark_rect()
        .encode(
            x=alt.X("lateness:O", sort=classes, title="late by at least"),
            y=alt.Y("source:N", sort=None, title=None),
            color=alt.Color("rows:Q", scale=alt.Scale(type="log", scheme="blues")),
            tooltip=["source:N", "lateness:O", "rows:Q"],
        )
    )
    return _sized(chart, 18 * len(profile.heat) + 20)


def _class_named(number: int, words: Words) -> str:
    return "in time" if number == 0 else words.length(1 << (number - 1))


def skews_picture(profile: StreamProfile, words: Words) -> dict[str, Any]:
    """How far each source is behind each other one."""
    import altair as alt

    cells = [
        {"ahead": str(one.ahead), "behind": str(one.behind), "by": one.by + 1, "words": words.length(one.by)}
        for one in profile.skews
    ]
    base = _chart(cells).encode(x=alt.X("behind:N", sort=None, title=None), y=alt.Y("ahead:N", sort=None, title=None))
    cell = base.mark_rect().encode(
        color=alt.Color("by:Q", scale=alt.Scale(type="log", scheme="oranges", domainMin=1), legend=None),
        tooltip=["ahead:N", "behind:N", "words:N"],
    )
    names = len({one.ahead for one in profile.skews})
    if names > _NAMES_WITH_WORDS:
        return _sized(cell, 24 * names + 20)
    dark = (max(one.by for one in profile.skews) + 1) ** 0.7  # the scale of colours is one of powers
    words_on = base.mark_text(fontSize=11).encode(
        text="words:N", color=alt.condition(f"datum.by > {dark}", alt.value("white"), alt.value("#1d2733"))
    )
    return _sized(alt.layer(cell, words_on), 24 * names + 20)


def clocks_picture(profile: StreamProfile, words: Words) -> dict[str, Any]:
    """How long rows of each source seem to be under way."""
    import altair as alt

    wrong = {one.name for one in profile.wrong_clocks}
    known = [(one, one.median_delay) for one in profile.sources if one.median_delay is not None]
    scale = Scale.of(max(abs(delay) for _, delay in known), calendar=profile.calendar)
    points = [
        {
            "source": str(one.name),
            "delay": scale(delay),
            "clock": "wrong" if one.name in wrong else "sound",
            "words": words.length(delay),
        }
        for one, delay in known[:100]
    ]
    chart = (
        _chart(points)
        .mark_tick(thickness=2)
        .encode(
            x=alt.X("delay:Q", title=f"median delay, {scale.unit}", scale=alt.Scale(type="symlog")),
            y=alt.Y("clock:N", title=None),
            color=alt.Color("clock:N", legend=None, scale=alt.Scale(domain=["sound", "wrong"], range=[_BLUE, _RED])),
            tooltip=["source:N", "words:N"],
        )
    )
    return _sized(chart, 90)


def bounds_picture(bounds: FittedBounds) -> dict[str, Any]:
    """What it costs to have bounds hold for nearly all rows instead of for all."""
    import altair as alt

    scale = Scale.of(max(one.outcome.mean_delay for one in bounds.curve), calendar=bounds.calendar)
    points = [
        {"lost": one.outcome.loss, "delay": scale(delay), "rows go": whose}
        for one in bounds.curve
        for whose, delay in (
            ("in one order", one.outcome.mean_delay),
            ("in that of their source", one.outcome.mean_delay_by_origin),
        )
    ]
    chart = (
        _chart(points)
        .mark_line(point=True)
        .encode(
            x=alt.X("lost:Q", title="rows late", axis=alt.Axis(format="%")),
            y=alt.Y("delay:Q", title=f"mean delay, {scale.unit}"),
            color=alt.Color("rows go:N", sort=None, scale=alt.Scale(range=[_RED, _BLUE])),
        )
    )
    return _sized(chart, 180)


def _chart(points: Sequence[dict[str, Any]]) -> Any:
    """A chart of these points, which stand in the page."""
    import altair as alt

    data: Any = alt.Data  # Altair has no types for it
    return alt.Chart(data(values=points))


def _sized(chart: Any, height: int) -> dict[str, Any]:
    drawn: dict[str, Any] = chart.properties(width=_WIDTH, height=height).to_dict()
    return drawn
