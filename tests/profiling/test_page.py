"""The page of a profile opens in a browser without a network and without errors, and its slider moves."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from browser import needs_chromium, shown

import slackwater as sw
from slackwater.profiling.measures import PatienceOutcome
from slackwater.profiling.recording import Columns, Recording
from slackwater.profiling.series import heat_of, skews_of, spans_of
from slackwater.sources.stream import feed_of

if TYPE_CHECKING:
    from pathlib import Path

_ROWS: list[dict[str, Any]] = [
    {"at": n - 90 * (n % 50 == 7) - n % 2 * 20, "came": n + 1, "by": "ab"[n % 2]} for n in range(600)
]

_MOVED = """
  const slider = document.querySelector(".vega-bind input");
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
  document.querySelector("#copy").click();
"""


@needs_chromium
def test_the_slider_shows_what_a_patience_loses(tmp_path: Path) -> None:
    """Before it is moved all rows are in time; moved to no patience at all, it shows how many are late then."""
    profile = sw.profile(_ROWS, time="at", arrived="came", origin="by")
    page = tmp_path / "page.html"
    profile.write_html(page)
    still = shown(page, tmp_path / "still")
    assert "109: 100.000% in time, 0 rows late, half wait 91, 99 % 110, 101 held at most" in still
    moved = shown(page, tmp_path / "moved", then=_MOVED)
    late, least = profile.disorder.late, PatienceOutcome.of(_recording(), 0)
    expected = f"{late} rows late, half wait {least.median_delay}, 99 % {least.delay}, {least.most_held} held at most"
    assert f"0: {1 - late / 600:.3%} in time, {expected}" in moved
    assert "<title>Disorder of rows</title>" in moved
    assert len(re.findall(r'<svg[^>]* class="marks"', moved)) == 7
    assert "longest pause" in moved
    assert re.search('<button id="copy">(copied|selected)</button>', moved)  # nobody has clicked: it may not be copied


def test_what_is_to_be_written_comes_first_and_runs(tmp_path: Path) -> None:
    """The verdict, then Python for a stream of these rows: every line of it makes a plan."""
    profile = sw.profile(_ROWS, time="at", arrived="came", origin="by")
    profile.write_html(tmp_path / "page.html")
    text = html.unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    verdict, _, after = text.partition('<pre id="code">')
    assert "50.0% of the rows come after a newer one, by 109 at most." in verdict
    assert "A patience of 109 has all rows in time; up to 101 wait at a time, half of them for 91." in verdict
    given: dict[str, Any] = {"stream": sw.stream(_ROWS, time="at", arrived="came", origin="by")}
    exec(after.partition("</pre>")[0], given)  # noqa: S102 - our own text
    assert {"ordered", "bands", "bounds", "each"} <= set(given)
    assert profile.bounds is not None
    assert given["bounds"] == profile.bounds.bounds


def test_what_a_patience_costs_is_shown_for_each_that_the_slider_has() -> None:
    """The curve's patiences and the ones that are advised, each followed through all rows; none that gains nothing."""
    profile = sw.profile(_ROWS, time="at", arrived="came", origin="by")
    of_curve, advised = (dict(profile.curve), {one.patience for one in profile.patiences})
    gaining = {at for at in of_curve if all(of_curve[less] < of_curve[at] for less in of_curve if less < at)}
    assert [one.patience for one in profile.trade_offs] == sorted({*gaining, *advised})
    assert len(gaining) < len(of_curve)
    assert all(one.complete == of_curve.get(one.patience, one.complete) for one in profile.trade_offs)
    assert list(profile.trade_offs) == [PatienceOutcome.of(_recording(), one.patience) for one in profile.trade_offs]


def _recording() -> Recording:
    return Columns("at", "came", "by").read(feed_of(pa.Table.from_pylist(_ROWS)), contents=False, on_rows=None)


def test_the_page_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    """No script, style or picture has an address."""
    sw.profile(_ROWS, time="at").write_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        text = text.replace(script, "")
    assert not re.search(r"(src|href|url|http)", text)


def test_names_of_sources_are_no_html(tmp_path: Path) -> None:
    """Whatever a source is called, it is text."""
    rows = [{**row, "by": "</script><b>x" if row["by"] == "a" else "b"} for row in _ROWS]
    sw.profile(rows, time="at", arrived="came", origin="by").write_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "</script><b>x" not in text
    assert text.count("</script>") == 2


def test_what_is_drawn_is_what_a_look_at_each_row_gives() -> None:
    """Spans, classes of lateness, and skews of each source to each."""
    recording = _recording()
    spans = spans_of(recording)
    assert sum(one.rows for one in spans) == 600
    late = recording.lateness.tolist()
    for one in spans:
        its = sorted(late[one.first : one.first + one.rows])
        assert (one.greatest, one.median, one.arrived) == (its[-1], its[(len(its) - 1) // 2], one.first + 1)
    heat = {one.name: one.rows for one in heat_of(recording)}
    for name in "ab":
        its = [late[n] for n, row in enumerate(_ROWS) if row["by"] == name]
        classes = [sum(one == 0 for one in its)]
        classes += [sum(2 ** (n - 1) <= one < 2**n for one in its) for n in range(1, len(heat[name]))]
        assert list(heat[name]) == classes
    skews = {(one.ahead, one.behind): one.by for one in skews_of(recording)}
    for ahead in "ab":
        for behind in "ab":
            newest, greatest = -(2**63), 0
            for row in _ROWS:
                if row["by"] == behind and newest > row["at"]:
                    greatest = max(greatest, newest - int(row["at"]))
                newest = max(newest, int(row["at"])) if row["by"] == ahead else newest
            assert skews[ahead, behind] == greatest
