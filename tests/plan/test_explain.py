"""explain() as text that a human can review: one snapshot file per plan, under snapshots/."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Parting

    from slackwater.streams.stream import Stream

    Explained = Stream | sw.PatienceBands

_SNAPSHOTS = Path(__file__).parent / "snapshots"
_CLICKS = {"user": pa.string(), "amount": pa.int64()}


def _arrivals(name: str) -> sw.OrderedStream:
    return sw.arrivals(sw.PushSource(_CLICKS, name=name))


def _disordered_trades() -> sw.DisorderedStream:
    table = pa.table(
        {
            "at": pa.array([], pa.timestamp("us", "UTC")),
            "symbol": pa.array([], pa.string()),
            "price": pa.array([], pa.float64()),
        }
    )
    return sw.stream(table, time="at", name="trades")


def _trades() -> sw.OrderedStream:
    return _disordered_trades().assume_ordered()


def _union_of_filtered_arrivals() -> Stream:
    return sw.union(_arrivals("web").where(nw.col("amount") > 0), _arrivals("app").where(nw.col("amount") > 0))


def _tumbling_aggregate() -> Stream:
    return _trades().tumbling("1h", offset="15m").group_by("symbol").aggregate(n=sw.count(), mean=sw.mean("price"))


def _sliding_aggregate() -> Stream:
    return _trades().sliding("5m").group_by("symbol").aggregate(top=sw.top_k("price", 3))


def _hopping_aggregate() -> Stream:
    return _trades().hopping("10m", "5m").aggregate(n=sw.count())


def spread(rows: pa.RecordBatch) -> pa.RecordBatch:
    """How far the prices of a window lie apart."""
    prices = rows.column("price").to_pylist()
    return pa.record_batch({"spread": [max(prices) - min(prices)]})


def _map_windows() -> Stream:
    return _trades().tumbling("1h").map_windows(spread)


def _join() -> Stream:
    return _trades().join(_trades().select("symbol", quote="price"), on="symbol", within="2s")


def _join_of_lifetimes() -> Stream:
    schema = pa.schema({"from": pa.int64(), "to": pa.int64(), "site": pa.string()})
    outages, orders = (
        sw.stream([], time="from", until="to", schema=schema, name=name).assume_ordered()
        for name in ("outages", "orders")
    )
    return outages.join(orders, on="site")


def _followed_by() -> Stream:
    return _trades().followed_by(_trades(), on="symbol", within="1m")


def _diamond() -> Stream:
    both = sw.union(_arrivals("web"), _arrivals("app"))
    return sw.union(both.where(nw.col("amount") > 100), both.where(nw.col("amount") < 0))


def _latent() -> Stream:
    latent = [sw.unstamped(sw.PushSource(_CLICKS, name=name)) for name in ("web", "app")]
    return sw.union(*latent).tumbling("1s").aggregate(n=sw.count())


def _live_with_skew() -> Stream:
    source = sw.PushSource({"at": pa.timestamp("us", "UTC"), "v": pa.int64()}, name="sensor")
    punctuations = sw.Punctuations.periodic("10s", skew="2s")
    return sw.stream(source, time="at", punctuations=punctuations).where(nw.col("v") > 0).select(double=nw.col("v") * 2)


def _sort() -> Stream:
    return _disordered_trades().sort(patience="5s")


def _sort_without_patience() -> Stream:
    return _disordered_trades().sort()


def _sort_as_needed() -> Stream:
    large = _disordered_trades().sort(patience="5s", late=sw.Late.drop()).where(nw.col("price") > 100)
    return large.select("symbol", cents=nw.col("price") * 100).tumbling("1m").group_by("symbol").aggregate(n=sw.count())


def _sort_that_is_read_twice() -> Stream:
    ordered = _disordered_trades().sort(patience="5s")
    return ordered.where(nw.col("price") > 100).union(ordered.where(nw.col("price") < 1))


def _sort_of_windows() -> Stream:
    return _disordered_trades().where(nw.col("price") > 100).hopping("10m", "5m").sort("5s", every=sw.Every.rows(1_000))


def _sorted_late_rows() -> Stream:
    return _disordered_trades().sort(patience="5s").late.sort()


def _events_in_bands() -> Explained:
    return _disordered_trades().in_bands("1s", "1m", "1h")


def _aggregates_in_bands() -> Explained:
    hourly = _disordered_trades().select("symbol").tumbling("1h").group_by("symbol")
    return hourly.in_bands("1m", "1d", every=sw.Every.batch(), n=sw.count())


def _query_in_bands() -> Explained:
    def dearest(part: sw.OrderedStream) -> sw.OrderedStream:
        return part.aggregate(price=sw.max("price"))

    return _disordered_trades().tumbling("1h").in_bands("1m", "1d", partial=dearest, merge=dearest)


def _pattern_in_bands() -> Stream:
    trades = _disordered_trades().in_bands("1s", "1m")[1]
    cheap, dear = trades.where(nw.col("price") < 1), trades.where(nw.col("price") > 100)
    return cheap.followed_by(dear, on="symbol", within="1m")


_PLANS: dict[str, Callable[[], Explained]] = {
    "union_of_filtered_arrivals": _union_of_filtered_arrivals,
    "tumbling_aggregate": _tumbling_aggregate,
    "sliding_aggregate": _sliding_aggregate,
    "hopping_aggregate": _hopping_aggregate,
    "map_windows": _map_windows,
    "join": _join,
    "join_of_lifetimes": _join_of_lifetimes,
    "followed_by": _followed_by,
    "diamond": _diamond,
    "latent": _latent,
    "live_with_skew": _live_with_skew,
    "sort": _sort,
    "sort_without_patience": _sort_without_patience,
    "sort_as_needed": _sort_as_needed,
    "sort_that_is_read_twice": _sort_that_is_read_twice,
    "sort_of_windows": _sort_of_windows,
    "sorted_late_rows": _sorted_late_rows,
    "events_in_bands": _events_in_bands,
    "aggregates_in_bands": _aggregates_in_bands,
    "query_in_bands": _query_in_bands,
    "pattern_in_bands": _pattern_in_bands,
}


@pytest.mark.parametrize("name", _PLANS)
def test_a_plan_is_explained_as_in_its_snapshot(name: str) -> None:
    """What each step does, what is known of its output, and why."""
    assert _PLANS[name]().explain() + "\n" == (_SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_snapshot_belongs_to_a_plan() -> None:
    """Files that nobody compares with are misleading."""
    assert {file.stem for file in _SNAPSHOTS.glob("*.txt")} == set(_PLANS)


def test_a_step_that_is_used_twice_is_shown_once() -> None:
    """The second time it only says so."""
    text = _diamond().explain()
    assert text.count("shown above; runs once") == 1
    assert text.count("source#1 web") == 1


@pytest.mark.parametrize("name", _PLANS)
def test_every_line_has_a_reason(name: str) -> None:
    """No step goes without saying why it is there."""
    for line in _PLANS[name]().explain().splitlines():
        assert len([part for part in line.split("  ") if part.strip()]) >= 2, line
        assert line == line.rstrip()


def test_a_step_with_several_outputs_is_shown_once(part: Parting) -> None:
    """Below the first of them; what the rows of each are is shown."""
    main, band = part(sw.stream(pa.table({"at": [1], "v": [2]}), time="at", name="numbers").assume_ordered())
    text = sw.union(main, band).explain()
    lines = [[part.strip() for part in line.split("  ") if part.strip(" │")] for line in text.splitlines()]
    assert lines[1:] == [
        ["├─ part#1 late=diverted", "ordered, points", "parts rows by their number"],
        ["└─ assume_ordered#1", "ordered, points", "declared ordered; the first event out of order is an error"],
        ["└─ source#1 numbers time=at", "disordered, points", "times are the source's own"],
        [
            "└─ output#1 band 1",
            "ordered, points",
            "one output for each patience; this one waits longer than those before it",
        ],
        ["└─ part#1", "shown above; runs once"],
    ]


def test_the_late_output_is_explained(part: Parting) -> None:
    """What its rows are, what is known of them, and which step they come from."""
    main, _ = part(sw.stream(pa.table({"at": [1], "v": [2]}), time="at", name="numbers"))
    assert (
        main.late.explain()
        == """\
output#1 late                   disordered, points  the rows that came after their time was complete
└─ part#1 late=diverted         disordered, points  parts rows by their number
   └─ source#1 numbers time=at  disordered, points  times are the source's own"""
    )
