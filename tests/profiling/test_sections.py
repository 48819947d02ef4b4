"""Sections of a page: what a user puts before those of a profile stands there as it is, and nothing of it is HTML."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

import altair as alt
import pytest

import slackwater as sw
from slackwater.errors import PlanError

if TYPE_CHECKING:
    from pathlib import Path

_PROFILE = sw.profile([{"at": at} for at in (1, 3, 2, 4)], time="at")


def _page(folder: Path, more: dict[str, Any]) -> str:
    _PROFILE.write_html(folder / "page.html", more=more)
    return (folder / "page.html").read_text(encoding="utf-8")


def test_sections_come_first_and_in_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    """Texts, tables with every column that a row has, and pictures, each with its place and its points."""
    data: Any = alt.Data  # Altair has no types for it
    chart = alt.Chart(data(values=[{"day": 1, "lost": 4_321}])).mark_bar().encode(x="day:O", y="lost:Q")
    rows = [{"who": "blue", "late": 12_345}, {"who": "green", "ahead": True}]
    page = _page(tmp_path, {"Found": ["Two collectors.", rows, chart], "And then": ["The end."]})
    body = page.partition("<body>")[2]
    titles = re.findall(r"<h2>(.*?)</h2>", body)
    assert titles[:4] == ["Found", "And then", "How disordered it is", "What to write"]
    head = '<tr><th>who</th><th class="number">late</th><th>ahead</th></tr>'
    first = '<tr><td>blue</td><td class="number">12,345</td><td></td></tr>'
    second = '<tr><td>green</td><td class="number"></td><td>True</td></tr>'
    assert f"<p>Two collectors.</p>\n<table>\n{head}\n{first}\n{second}\n</table>" in body
    places = re.findall(r'<div id="(picture-\d+)"></div>', body)
    drawn = json.loads(re.findall(r"^const pictures = (.*);$", page, flags=re.MULTILINE)[0])
    assert list(drawn) == places
    assert drawn[places[0]]["data"]["values"] == [{"day": 1, "lost": 4_321}]


def test_what_is_given_is_no_html(tmp_path: Path) -> None:
    """Neither titles nor texts nor cells nor points of pictures."""
    bad = "</script><b>&x"
    picture = {"data": {"values": [{"who": bad}]}, "mark": "bar"}
    page = _page(tmp_path, {bad: [bad, [{bad: bad}], picture]})
    scripts = re.findall(r"<script>.*?</script>", page, flags=re.DOTALL)
    assert len(scripts) == page.count("</script>") == 2
    for script in scripts:
        page = page.replace(script, "")
    assert "<b>" not in page
    assert html.unescape(page).count(bad) == 4


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"Found": "a text"}, r"(?s)a section of a page is a list.*Found.*write a list of its parts"),
        ({"Found": {"mark": "bar"}}, "a section of a page is a list"),
        ({"Found": [7]}, r"(?s)this cannot stand on a page.*got +'int'.*a list of mappings"),
        ({"Found": [[{"at": 1}, 7]]}, "this cannot stand on a page"),
    ],
)
def test_what_cannot_stand_on_a_page_is_refused(tmp_path: Path, more: dict[str, Any], match: str) -> None:
    """With what it takes instead, and before anything is written."""
    with pytest.raises(PlanError, match=match):
        _page(tmp_path, more)
    assert not (tmp_path / "page.html").exists()
