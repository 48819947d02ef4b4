"""A profile as one page that opens without a network: what to write first, then pictures of what was measured.

Pictures are Vega-Lite, made by Altair; the scripts that draw them come with vl-convert and stand in the page once.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.profiling.text import Words, lines_of
from slackwater.progress.instants import MICROSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.profiling.profile import StreamProfile
    from slackwater.progress.instants import Duration

_UNITS: Final = ("us", "ms", "s", "m", "h", "d")
_WIDTH: Final = 640

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1d2733; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }}
h2 {{ font-size: 1.1rem; margin: 2.2rem 0 0.3rem; }}
pre {{ background: #f3f6f8; padding: 0.8rem 1rem; overflow-x: auto; font-size: 13px; line-height: 1.4; }}
p {{ margin: 0.3rem 0; max-width: 46rem; }}
.vega-bind {{ margin-top: 0.6rem; }}
.vega-bind input {{ width: 28rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
<script>
{scripts}
</script>
<script>
const pictures = {pictures};
for (const [name, picture] of Object.entries(pictures)) {{
  vegaEmbed("#" + name, picture, {{ actions: false, renderer: "svg" }});
}}
</script>
</body>
</html>
"""


def page_of(profile: StreamProfile) -> str:
    """The page as HTML."""
    try:
        import altair  # noqa: F401, ICN001 - to be refused here, and not in the middle
        import vl_convert
    except ImportError as cause:
        hint = "pip install 'slackwater[report]'"
        raise PlanError(message("a page needs Altair and vl-convert", {"missing": cause.name}, hint)) from cause
    parts = list(_parts(profile))
    pictures = {f"picture-{number}": chart for number, (_, _, chart) in enumerate(parts) if chart is not None}
    body = [_pre("\n".join(lines_of(profile)))]
    for number, (title, words, chart) in enumerate(parts):
        place = f'<div id="picture-{number}"></div>' if chart is not None else ""
        body.append(f"<h2>{escape(title)}</h2>\n<p>{escape(words)}</p>\n{place}")
    return _PAGE.format(
        title=escape(f"Disorder of {profile.name}"),
        body="\n".join(body),
        scripts=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"),
        pictures=json.dumps(pictures).replace("</", "<\\/"),
    )


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _parts(profile: StreamProfile) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """Titles, what they say, and the pictures."""
    words = Words(calendar=profile.calendar, clock_calendar=profile.clock_calendar)
    scale = _Scale.of(profile.lateness.greatest, calendar=profile.calendar)
    yield (
        "Completeness by patience",
        "Move the patience: rows that are later than it would be late, all others wait for it.",
        _completeness(profile, words),
    )
    if profile.within is not None:
        yield (
            "Within a source and between sources",
            _WITHIN,
            _within(profile, scale),
        )
    yield (
        "Lateness over time",
        "The greatest lateness, and that of half of the rows, in parts of the recording with as many rows each.",
        _over_time(profile, scale),
    )
    if profile.heat:
        yield (
            "Sources by lateness",
            "How many rows of a source are how late; each column is twice as late as the one before it.",
            _heat(profile, words),
        )
    if profile.skews:
        yield (
            "Skew between sources",
            "How far rows of the source below are behind the newest row of the one at the left, at most.",
            _skews(profile, words),
        )
    if any(one.median_delay is not None for one in profile.sources):
        yield (
            "Clocks",
            "How long half of the rows of a source seem to be under way. Far from the others: a clock that is wrong.",
            _clocks(profile, words),
        )
    yield "Tried on rows that did not choose it", _held_out(profile), None
    yield "How it was measured", _method(profile), None


_WITHIN: Final = (
    "How far rows are behind the newest of all, and behind the newest of their own source. What stands between the two"
    " is skew between sources: bounds can speak of it, and an order within origins need not wait for it."
)


class _Scale:
    """The unit in which a picture has its lengths."""

    def __init__(self, unit: str, size: int) -> None:
        self.unit = unit
        self._size = size

    @classmethod
    def of(cls, greatest: Duration, *, calendar: bool) -> _Scale:
        if not calendar:
            return cls("units of time", 1)
        unit = [one for one in _UNITS if MICROSECONDS[one] <= max(greatest, 1)][-1]
        return cls({"m": "minutes", "h": "hours", "d": "days", "s": "seconds"}.get(unit, unit), MICROSECONDS[unit])

    def __call__(self, length: Duration) -> float:
        return length / self._size


def _completeness(profile: StreamProfile, words: Words) -> dict[str, Any]:
    import altair as alt

    late = [round(profile.sound_rows * (1 - complete)) for _, complete in profile.curve]
    points = [
        {
            "step": step,
            "patience": words.length(patience),
            "complete": complete,
            "words": f"{words.length(patience)}: {complete:.3%} in time, {late[step]:,} rows late",
        }
        for step, (patience, complete) in enumerate(profile.curve)
    ]
    slider = alt.binding_range(min=0, max=len(points) - 1, step=1, name="patience ")
    chosen = alt.param(name="chosen", value=max(len(points) - 1, 0), bind=slider)
    x = alt.X("patience:O", sort=None, title="patience", axis=alt.Axis(labelAngle=-45, labelOverlap=True))
    y = alt.Y("complete:Q", title="rows in time", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    line = _chart(points).mark_line(interpolate="step-after", color="#2a6f97").encode(x=x, y=y)
    at = _chart(points).transform_filter("datum.step == chosen")
    rule = at.mark_rule(color="#c1121f").encode(x=x)
    text = at.mark_text(align="left", dx=-_WIDTH // 2, y=-8, color="#c1121f").encode(
        x=alt.value(_WIDTH // 2), text="words:N"
    )
    return _sized(alt.layer(line, rule, text).add_params(chosen), 260)


def _within(profile: StreamProfile, scale: _Scale) -> dict[str, Any]:
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
            color=alt.Color("of:N", title="behind", sort=None, scale=alt.Scale(range=["#c1121f", "#2a6f97"])),
        )
    )
    return _sized(chart, 220)


def _over_time(profile: StreamProfile, scale: _Scale) -> dict[str, Any]:
    import altair as alt

    by_clock = profile.clock_calendar and profile.spans[0].arrived is not None
    points = [
        {
            "at": one.arrived / 1_000 if by_clock and one.arrived is not None else one.first,
            "what": what,
            "lateness": scale(length),
        }
        for one in profile.spans
        for what, length in (("greatest", one.greatest), ("median", one.median))
    ]
    x = alt.X("at:T", title="arrived") if by_clock else alt.X("at:Q", title="row")
    chart = (
        _chart(points)
        .mark_line(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("lateness:Q", title=f"behind the newest, {scale.unit}"),
            color=alt.Color("what:N", title=None, sort=None, scale=alt.Scale(range=["#c1121f", "#2a6f97"])),
        )
    )
    return _sized(chart, 220)


def _heat(profile: StreamProfile, words: Words) -> dict[str, Any]:
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


def _skews(profile: StreamProfile, words: Words) -> dict[str, Any]:
    import altair as alt

    cells = [
        {"ahead": str(one.ahead), "behind": str(one.behind), "by": one.by + 1, "words": words.length(one.by)}
        for one in profile.skews
    ]
    base = _chart(cells).encode(x=alt.X("behind:N", sort=None, title=None), y=alt.Y("ahead:N", sort=None, title=None))
    cell = base.mark_rect().encode(
        color=alt.Color("by:Q", scale=alt.Scale(type="log", scheme="oranges"), legend=None),
        tooltip=["ahead:N", "behind:N", "words:N"],
    )
    names = len({one.ahead for one in profile.skews})
    return _sized(cell, 24 * names + 20)


def _clocks(profile: StreamProfile, words: Words) -> dict[str, Any]:
    import altair as alt

    wrong = {one.name for one in profile.wrong_clocks}
    known = [(one, one.median_delay) for one in profile.sources if one.median_delay is not None]
    scale = _Scale.of(max(abs(delay) for _, delay in known), calendar=profile.calendar)
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
            color=alt.Color(
                "clock:N", legend=None, scale=alt.Scale(domain=["sound", "wrong"], range=["#2a6f97", "#c1121f"])
            ),
            tooltip=["source:N", "words:N"],
        )
    )
    return _sized(chart, 90)


def _chart(points: Sequence[dict[str, Any]]) -> Any:
    """A chart of these points, which stand in the page."""
    import altair as alt

    data: Any = alt.Data  # Altair has no types for it
    return alt.Chart(data(values=points))


def _sized(chart: Any, height: int) -> dict[str, Any]:
    drawn: dict[str, Any] = chart.properties(width=_WIDTH, height=height).to_dict()
    return drawn


def _held_out(profile: StreamProfile) -> str:
    tried: Sequence[str] = [
        f"asked for {one.share:.1%}, {one.held_out.complete:.3%} in time"
        for one in profile.patiences
        if one.held_out is not None
    ]
    if not tried:
        return "Nothing was tried: all rows chose."
    return "Chosen from the first part of the rows, counted on the rest: " + "; ".join(tried) + "."


def _method(profile: StreamProfile) -> str:
    order = "in order of arrival" if profile.spans[0].arrived is not None else "in the order in which they stand"
    return (
        f"All {profile.rows:,} rows were looked at, {order}. A row is late by a patience if a row came before it that"
        " is newer by more than that. Quantiles are lengths that some row had; nothing was sampled or smoothed."
        " Bounds are fitted to the first million rows."
    )
