"""A profile as one page that opens without a network: what to write first, then pictures of what was measured.

Pictures (`pictures.py`) are Vega-Lite, made by Altair; the scripts that draw them come with vl-convert and stand in the
page once. How sections become HTML, `sections.py` says.
"""

from __future__ import annotations

import json
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.profiling.pictures import (
    Scale,
    bounds_picture,
    clocks_picture,
    completeness_picture,
    heat_picture,
    over_time_picture,
    skews_picture,
    within_picture,
)
from slackwater.profiling.sections import Section, html_of, sections_of
from slackwater.profiling.text import Words, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slackwater.profiling.advice import PatienceAdvice
    from slackwater.profiling.profile import StreamProfile

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
summary {{ cursor: pointer; margin-top: 1rem; }}
table {{ border-collapse: collapse; margin: 0.6rem 0; font-size: 14px; }}
th, td {{ padding: 0.15rem 0.9rem 0.15rem 0; text-align: left; border-bottom: 1px solid #dde4ea; }}
.number {{ text-align: right; }}
button {{ font: inherit; font-size: 13px; padding: 0.1rem 0.8rem; }}
.vega-bind {{ margin-top: 0.6rem; }}
.vega-bind input {{ width: 28rem; }}
.vega-bind input + * {{ display: none; }} /* which place of the slider it is; the picture says what that means */
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
document.querySelector("#copy").onclick = (event) => {{
  getSelection().selectAllChildren(document.querySelector("#code"));
  event.target.textContent = document.execCommand("copy") ? "copied" : "selected";
}};
for (const [name, picture] of Object.entries(pictures)) {{
  vegaEmbed("#" + name, picture, {{ actions: false, renderer: "svg" }});
}}
</script>
</body>
</html>
"""


def page_of(profile: StreamProfile, title: str | None = None, more: Mapping[str, Sequence[Any]] | None = None) -> str:
    """The page as HTML; `more` are sections of somebody else, which come before those of the profile."""
    try:
        import altair  # noqa: F401, ICN001 - to be refused here, and not in the middle
        import vl_convert
    except ImportError as cause:
        hint = "pip install 'slackwater[report]'"
        raise PlanError(message("a page needs Altair and vl-convert", {"missing": cause.name}, hint)) from cause
    pictures: dict[str, Mapping[str, Any]] = {}
    numbers = count()

    def place_of(picture: Mapping[str, Any]) -> str:
        name = f"picture-{next(numbers)}"
        pictures[name] = picture
        return name

    body = [
        *(html_of(section, place_of) for section in sections_of(more or {})),
        *(["<h2>How disordered it is</h2>"] if more else []),
        *(f"<p>{escape(line)}</p>" for line in verdict_of(profile)),
        f'<h2>What to write</h2>\n<pre id="code">{escape(code_of(profile))}</pre>\n<button id="copy">copy</button>',
        f"<details><summary>All measures as text</summary>{_pre(chr(10).join(lines_of(profile)))}</details>",
        *(html_of(section, place_of) for section in _sections(profile)),
    ]
    return _PAGE.format(
        title=escape(f"Disorder of {profile.name}" if title is None else title),
        body="\n".join(body),
        scripts=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script"),
        pictures=json.dumps(pictures).replace("</", "<\\/"),
    )


def verdict_of(profile: StreamProfile) -> Iterator[str]:
    """How bad it is and what to do, in a few sentences."""
    words = Words(calendar=profile.calendar, clock_calendar=profile.clock_calendar)
    late = profile.disorder.late_fraction
    if not profile.disorder.late:
        yield "Rows come in order: there is nothing to wait for."
        return
    yield f"{late:.1%} of the rows come after a newer one, by {words.length(profile.lateness.greatest)} at most."
    if profile.within is not None and 2 * profile.within[0.99] < profile.lateness[0.99]:
        own, of_all = words.length(profile.within[0.99]), words.length(profile.lateness[0.99])
        yield f"Most of that is between sources: 99 % of the rows are within {own} in their own, and {of_all} in all."
    for one in _advised(profile):
        outcome, share = one.outcome, "all" if one.share == 1 else f"{100 * one.share:g} % of the"
        held = "" if outcome.most_held is None else f"; up to {outcome.most_held:,} wait at a time"
        half = words.length(outcome.median_delay, by_clock=True)
        waits = f", half of them for {half}" if half else ""
        tried = "" if one.held_out is None else f" Tried on rows that did not choose it: {one.held_out.complete:.3%}."
        yield f"A patience of {words.length(one.patience)} has {share} rows in time{held}{waits}.{tried}"


def _advised(profile: StreamProfile) -> tuple[PatienceAdvice, ...]:
    """The patience for nearly all rows, and that for all, if it is another one."""
    *_, nearly, everything = profile.patiences
    return (everything,) if nearly.patience == everything.patience else (nearly, everything)


def code_of(profile: StreamProfile) -> str:
    """What is advised, as Python for a stream called `stream`."""
    words = Words(calendar=profile.calendar, clock_calendar=profile.clock_calendar)
    lines = ["import slackwater as sw", ""]
    for one in _advised(profile):
        share = "all" if one.share == 1 else f"{100 * one.share:g} %"
        lines.append(f"ordered = stream.sort(patience={words.given(one.patience)})  # {share} in time")
    if profile.bands:
        lines.append(f"bands = stream.in_bands({', '.join(map(words.given, profile.bands))})  # soon, and right later")
    if profile.bounds is not None:
        lines += ["", f"bounds = {profile.bounds.text}", "ordered = stream.sort(bounds=bounds)"]
        lines.append("each = stream.sort_within_origins(bounds=bounds)  # no source waits for another")
    return "\n".join(lines)


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _sections(profile: StreamProfile) -> Iterator[Section]:
    """What was measured: what each section says, and its picture."""
    words = Words(calendar=profile.calendar, clock_calendar=profile.clock_calendar)
    scale = Scale.of(profile.lateness.greatest, calendar=profile.calendar)
    yield Section(
        "Completeness by patience",
        "Move the patience: rows that are later than it are late, all others wait for it.",
        completeness_picture(profile, words),
    )
    if profile.within is not None:
        yield Section("Within a source and between sources", _WITHIN, within_picture(profile, scale))
    yield Section("Lateness over time", _OVER_TIME, over_time_picture(profile, scale, words))
    if profile.heat:
        yield Section(
            "Sources by lateness",
            "How many rows of a source are how late; each column is twice as late as the one before it.",
            heat_picture(profile, words),
        )
    if profile.skews:
        yield Section(
            "Skew between sources",
            "How far rows of the source below are behind the newest row of the one at the left, at most.",
            skews_picture(profile, words),
        )
    if any(one.median_delay is not None for one in profile.sources):
        yield Section(
            "Clocks",
            "How long half of the rows of a source seem to be under way. Far from the others: a clock that is wrong.",
            clocks_picture(profile, words),
        )
    if profile.bounds is not None and profile.bounds.curve:
        yield Section("Bounds: delay against loss", _BOUNDS, bounds_picture(profile.bounds))
    yield Section("Tried on rows that did not choose it", _held_out(profile))
    yield Section("How it was measured", _method(profile))


_OVER_TIME: Final = (
    "The greatest lateness, and that of half of the rows, in parts of the recording with as many rows each; below,"
    " where arrivals are known, the longest time without any row."
)

_BOUNDS: Final = (
    "How long rows wait on average, where bounds hold for all rows of the first part, and where they leave some out."
)

_WITHIN: Final = (
    "How far rows are behind the newest of all, and behind the newest of their own source. What stands between the two"
    " is skew between sources: bounds can speak of it, and an order within origins need not wait for it."
)


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
    if profile.resolution:
        return (
            f"All {profile.rows:,} rows were looked at by Spark, in order of arrival, each compared with all before it."
            " A row is late by a patience if a row came before it that is newer by more than that. Lengths were counted"
            f" in buckets: quantiles and patiences are at most {profile.resolution:.1%} too long, never too short."
            " Bounds are fitted to the first million rows."
        )
    order = "in order of arrival" if profile.spans[0].arrived is not None else "in the order in which they stand"
    return (
        f"All {profile.rows:,} rows were looked at, {order}. A row is late by a patience if a row came before it that"
        " is newer by more than that. Quantiles are lengths that some row had; nothing was sampled or smoothed."
        " Bounds are fitted to the first million rows."
    )
