"""Streams, results and profiles say in a line what they are, and in a notebook a little more."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.plan.node import Node, walk

_HOSTILE = "<script>alert('tide')</script> & \"low\""
_WINDOWS = "<OrderedStream of 5 columns, time=window_start, until=window_end"
_CALENDAR = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC")), "symbol": ["a"], "price": [1.0], "n": [1]})


def _trades() -> sw.DisorderedStream:
    return sw.stream(_CALENDAR, time="at", name="trades")


def _hourly() -> sw.PatienceBands:
    return _trades().tumbling("1h").group_by("symbol").in_bands("1m", "1h", "1d", n=sw.count())


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (_trades(), "<DisorderedStream of 4 columns, time=at>"),
        (_trades().sort(patience="5s"), "<OrderedStream of 4 columns, time=at, patience 5s>"),
        (_trades().sort("5s").late, "<DisorderedStream of 6 columns, time=at>"),
        (_trades().select().assume_ordered(), "<OrderedStream of 1 column, time=at>"),
        (_trades().sort("5s").union(_trades().sort("1m")), "<OrderedStream of 4 columns, time=at, patience 1m>"),
        (_trades().in_bands("1s", "1m")[0], "<OrderedStream of 4 columns, time=at, patience 1s>"),
        (_trades().in_bands("1s", "1m")[1], "<OrderedStream of 4 columns, time=at, patience 1m>"),
        (_hourly()[0], f"{_WINDOWS}, patience 1m>"),
        (_hourly()[1].where(nw.col("n") > 1), f"{_WINDOWS}, patience 1h>"),
        (_hourly(), "<PatienceBands of 3, patience 1m, 1h, 1d>"),
        (_trades().group_by("symbol", "n"), "<GroupedStream by symbol, n, time=at>"),
        (_trades().group_by(), "<GroupedStream, time=at>"),
        (sw.changes([{"change": "insert", "at": 1}], time="at"), "<RevisedStream of 2 columns, time=at>"),
        (_trades().run(), "<Result of 1 row, 4 columns>"),
        (_trades().disorder(), "<DisorderProfile of 1 events, 0 late (0.0%)>"),
        (_trades().open(print), "<Query of 1 output, active>"),
    ],
    ids=str,
)  # fmt: skip
def test_a_line_says_what_it_is(shown: object, text: str) -> None:
    """The columns, the times, and how long late rows are waited for: the patience of the stream's own band."""
    assert repr(shown) == text


def test_guarantees_of_a_source_are_no_patience() -> None:
    """Nobody waits there."""
    source = sw.PushSource({"at": pa.timestamp("us", "UTC")})
    stream = sw.stream(source, time="at", punctuations=sw.Punctuations.on_demand(skew="2s"))
    assert repr(stream) == "<DisorderedStream of 1 column, time=at>"


def test_a_query_says_how_it_stands() -> None:
    """Active, finished, stopped or failed."""
    finished, stopped = (_trades().open(lambda _: None) for _ in range(2))
    finished.close()
    stopped.stop()
    assert (repr(finished), repr(stopped)) == ("<Query of 1 output, finished>", "<Query of 1 output, stopped>")
    assert (
        repr(_trades().sort("5s").open(print, on_late=print).snapshot()) == "<Snapshot of 2 steps: punctuate#1, sort#1>"
    )


def _all_nodes() -> list[Node]:
    ordered = _trades().sort("5s")
    joined = ordered.join(ordered.where(nw.col("n") > 0), on="symbol", within="1m")
    replicas = sw.merge_replicas(ordered, ordered, left_out=sw.LeftOutRows.divert())
    leases = sw.changes([{"change": "insert", "at": 1}], time="at").settle()
    roots = [
        *_hourly(),
        joined,
        replicas.left_out,
        leases,
        _trades().hopping("1m", "10s").sort("1s").top_rows(3, by="n"),
    ]
    return list(walk(*(stream.node for stream in roots)))


@pytest.mark.parametrize("node", _all_nodes(), ids=repr)
def test_a_node_says_what_it_does_and_not_what_is_above_it(node: Node) -> None:
    """Its line in explain(); a plan of a hundred steps has nodes of a line each."""
    assert repr(node) == f"<{node.line}>"
    assert "\n" not in repr(node)


class _Texts(HTMLParser):
    """What a browser would show, and the tags it would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _read(shown: Any) -> _Texts:
    page = _Texts()
    page.feed(shown._repr_html_())
    page.close()
    assert page.open == [], "a tag was left open"
    return page


def _hostile() -> sw.DisorderedStream:
    table = pa.table({"at": [1, 9, 2], _HOSTILE: [_HOSTILE, "b", "c"]})
    return sw.stream(table, time="at", name=_HOSTILE)


@pytest.mark.parametrize(
    "shown",
    [_hostile(), _hostile().sort(5), _hostile().in_bands(1, 5), _hostile().sort(5).run(), _hostile().disorder()],
    ids=lambda shown: type(shown).__name__,
)
def test_notebooks_show_texts_and_never_run_them(shown: Any) -> None:
    """Names of columns and sources, and what rows hold, are other people's."""
    page = _read(shown)
    assert "script" not in page.tags
    assert repr(shown) in page.texts
    if not isinstance(shown, sw.DisorderProfile):
        assert any(_HOSTILE in text for text in page.texts)


def test_a_notebook_shows_the_first_rows_of_a_result_whatever_they_hold() -> None:
    """Times that Python has not, too; and how many more there are."""
    far = pa.array(np.full(12, sw.FOREVER - 1)).view(pa.timestamp("us", "UTC"))
    result = sw.stream(pa.table({"at": far, "x": range(12)}), time="at").run()
    page = _read(result)
    assert "9" in page.texts
    assert "10" not in page.texts
    assert "and 2 more rows" in page.texts
    assert any(text.startswith("12 rows\n") for text in page.texts)


def test_a_notebook_shows_the_columns_and_the_plan_of_a_stream() -> None:
    """The plan is folded away."""
    page = _read(_trades().sort("5s"))
    assert {"symbol", "string", "price", "double"} <= set(page.texts)
    assert _trades().sort("5s").explain() in page.texts
    assert "details" in page.tags
