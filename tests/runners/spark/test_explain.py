"""explain(runner="spark") as text that a human can review: one snapshot file per plan, under snapshots/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_SNAPSHOTS = Path(__file__).parent / "snapshots"
_COLUMNS = "at timestamp, symbol string, price double"
_TRADES = pa.schema({"at": pa.timestamp("us", "UTC"), "symbol": pa.string(), "price": pa.float64()})
_LANDED = _TRADES.append(pa.field("landed", pa.timestamp("us", "UTC")))

MASTER = "local[3]"


def _priced(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([True] * rows.num_rows)


def _counts_on_the_map_side(trades: sw.DisorderedStream) -> sw.Streams:
    """Where late rows are dropped, windows are summed up where rows are read."""
    priced = trades.where(nw.col("price") > 1).select("symbol").tumbling("1h").group_by("symbol")
    return priced.in_bands("1m", "1d", late=sw.Late.drop(), n=sw.count())


def _counts_in_shards(trades: sw.DisorderedStream) -> sw.Streams:
    """Where late rows are diverted, they must come as rows."""
    return trades.tumbling("1h").group_by("symbol").in_bands("1m", "1d", n=sw.count())


def _total_order(trades: sw.DisorderedStream) -> sw.OrderedStream:
    return trades.sort("5s")


def _keys_of_two_names(trades: sw.DisorderedStream) -> sw.OrderedStream:
    """A join on columns that shards can go by, though one of them gets its name on the way."""
    dear = trades.where(nw.col("price") > 100).sort("5s", late=sw.Late.drop())
    quoted = trades.select(ticker="symbol", cost="price").sort("1m", late=sw.Late.drop())
    return dear.join(quoted.select("cost", symbol="ticker"), on="symbol", within="1m")


def _function_of_python(trades: sw.DisorderedStream) -> sw.OrderedStream:
    """What Spark cannot do, and all that comes behind it, is left to Python."""
    kept = trades.where(nw.col("price") > 1).where(_priced).select("symbol")
    return kept.sort("5s").group_by("symbol").aggregate(n=sw.count())


def _bounds(trades: sw.DisorderedStream) -> sw.OrderedStream:
    """Statistics are taken before the filter, which Spark itself must not do."""
    bounds = sw.Bounds.in_order() & sw.Bounds.sensors("5s", latency="2s")
    named = sw.stream(_LANDED.empty_table(), time="at", name="trades", origin="symbol", arrived="landed")
    del trades  # which do not say whose they are
    kept = named.where(nw.col("price") > 1)
    return kept.sort(bounds=bounds, patience="1h").group_by("symbol").aggregate(n=sw.count())


_PLANS: dict[str, Callable[[sw.DisorderedStream], Any]] = {
    "counts_on_the_map_side": _counts_on_the_map_side,
    "counts_in_shards": _counts_in_shards,
    "total_order": _total_order,
    "keys_of_two_names": _keys_of_two_names,
    "function_of_python": _function_of_python,
    "bounds": _bounds,
}


def _snapshot(name: str) -> str:
    return (_SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def _table() -> sw.DisorderedStream:
    return sw.stream(_TRADES.empty_table(), time="at", name="trades")


@pytest.mark.parametrize("name", _PLANS)
def test_a_plan_is_explained_without_a_session(name: str) -> None:
    """Shards, the columns that decide and why; which steps Spark would take over, only a DataFrame shows."""
    assert _PLANS[name](_table()).explain("spark", shards=4) + "\n" == _snapshot(name)


def test_neither_a_session_nor_java_is_needed() -> None:
    """In a process of its own, in which there has been none."""
    code = """
import sys, slackwater as sw
text = sw.stream([{"at": 1}], time="at").sort(5).explain("spark")
from pyspark.sql import SparkSession
print(text.startswith("shards     1: a total order"), SparkSession._instantiatedSession)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)  # noqa: S603
    assert done.stdout.strip() == "True None", done.stderr


@pytest.mark.parametrize("name", ["counts_on_the_map_side", "function_of_python"])
def test_a_plan_on_frames_says_what_spark_takes_over(session: SparkSession, tmp_path: Path, name: str) -> None:
    """And explain() alone says it, too, where nobody else could run it. No query is started, and no row is read."""
    frame = session.readStream.schema(_COLUMNS).parquet(str(tmp_path))
    stream = _PLANS[name](sw.stream(frame, time="at", name="trades"))
    (tmp_path / "0.parquet").write_bytes(b"no Parquet at all, so that to read it would fail")
    text = stream.explain("spark")
    assert session.streams.active == []
    assert text + "\n" == _snapshot(f"{name}_on_frames")
    assert stream.explain() == text
    assert stream.explain(shards=5) == text.replace("shards     3, by", "shards     5, by")


def test_files_that_python_reads_are_not_rows_of_spark(session: SparkSession, tmp_path: Path) -> None:
    """So that no step is pushed down."""
    pq.write_table(_TRADES.empty_table(), tmp_path / "0.parquet")
    files = sw.stream(sw.parquet_files(session, str(tmp_path), schema=_COLUMNS), time="at", name="trades")
    text = _function_of_python(files).explain()
    assert "to Python  2 passes: files are read and packed in map tasks" in text
    places = {line.split("#")[0].strip(" └─"): line for line in text.splitlines() if "#" in line}
    assert " map tasks " in places["source"]
    assert " map tasks " in places["where"]


def test_a_plan_that_is_not_finished_is_shown_with_what_is_missing(session: SparkSession, tmp_path: Path) -> None:
    """explain() helps on the way; asked for Spark's plan, it says why there is none."""
    rows = sw.stream(session.readStream.schema(_COLUMNS).parquet(str(tmp_path)), time="at", name="trades")
    *tree, last = rows.where(nw.col("price") > 1).explain().splitlines()
    assert tree[0].startswith("where#1 price > 1")
    assert last.startswith("Spark  on Spark")
    with pytest.raises(PlanError, match="patience"):
        rows.explain("spark")


def test_what_is_no_runner_is_refused() -> None:
    """And so are shards where there are none."""
    with pytest.raises(PlanError, match=r"(?s)no such runner.*'sparc'.*runner=\"spark\""):
        _table().explain("sparc")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"(?s)shards on Spark only.*runner="):
        _table().explain(shards=2)
    with pytest.raises(PlanError, match="shards is a whole number above zero"):
        _table().sort("5s").explain("spark", shards=0)
    assert _table().sort("5s").explain("in_process") == _table().sort("5s").explain()


def test_one_shard_that_was_asked_for_needs_no_reason() -> None:
    """It is what the user wants."""
    assert _counts_in_shards(_table()).explain("spark", shards=1).startswith("shards     1, as asked for\n")


def test_every_snapshot_belongs_to_a_plan() -> None:
    """Files that nobody compares with are misleading."""
    frames = {"counts_on_the_map_side_on_frames", "function_of_python_on_frames"}
    assert {file.stem for file in _SNAPSHOTS.glob("*.txt")} == set(_PLANS) | frames
