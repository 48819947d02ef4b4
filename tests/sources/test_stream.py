"""The three ways in: stream(), arrivals() and unstamped(), over every kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch, SlackwaterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ROWS = [{"at": 3, "x": "a"}, {"at": 1, "x": "b"}]
_SCHEMA = pa.schema({"at": pa.int64(), "x": pa.string()})


class _Exporter:
    """Anything that speaks Arrow's C stream: a frame of another library."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.Table.from_pylist(_ROWS, schema=_SCHEMA).__arrow_c_stream__(requested_schema)


def _pushed() -> sw.PushSource:
    source = sw.PushSource(_SCHEMA)
    source.push(_ROWS)
    source.close()
    return source


_SOURCES: dict[str, Callable[[], Any]] = {
    "table": lambda: pa.Table.from_pylist(_ROWS, schema=_SCHEMA),
    "batch": lambda: pa.RecordBatch.from_pylist(_ROWS, schema=_SCHEMA),
    "reader": lambda: pa.Table.from_pylist(_ROWS, schema=_SCHEMA).to_reader(),
    "frame": lambda: pd.DataFrame(_ROWS),
    "C stream": _Exporter,
    "list": lambda: _ROWS,
    "tuple": lambda: tuple(_ROWS),
    "generator": lambda: (row for row in _ROWS),
    "push": _pushed,
}


@pytest.mark.parametrize("kind", _SOURCES)
def test_every_kind_of_source_gives_its_rows_in_their_order_of_arrival(kind: str) -> None:
    """Times are the rows' own."""
    assert sw.stream(_SOURCES[kind](), time="at").run().table.to_pylist() == _ROWS


@pytest.mark.parametrize("kind", _SOURCES)
def test_every_kind_of_source_can_be_stamped_on_arrival(kind: str) -> None:
    """The stamp stands in front."""
    table = sw.arrivals(_SOURCES[kind]()).run(clock=sw.ManualClock(5)).table
    assert table.column_names == ["arrived_at", "at", "x"]
    assert table.column("arrived_at").cast(pa.int64()).to_pylist() == [5, 5]
    assert table.column("x").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("kind", _SOURCES)
def test_every_kind_of_source_can_be_left_unstamped(kind: str) -> None:
    """Rows pass as they come."""
    assert sw.unstamped(_SOURCES[kind]()).run(clock=sw.ManualClock()).table.column("x").to_pylist() == ["a", "b"]


def test_a_path_is_a_source(tmp_path: Path) -> None:
    """Text or Path."""
    pa.parquet.write_table(pa.Table.from_pylist(_ROWS), tmp_path / "a.parquet")
    assert sw.stream(str(tmp_path / "a.parquet"), time="at").run().table.to_pylist() == _ROWS
    assert sw.arrivals(tmp_path).run(clock=sw.ManualClock()).table.num_rows == 2


@pytest.mark.parametrize("kind", [kind for kind in _SOURCES if kind != "push"])
def test_a_source_is_called_by_the_name_it_was_given(kind: str) -> None:
    """In explain() and in messages, whatever it is made of."""
    assert "source#1 orders time=at" in sw.stream(_SOURCES[kind](), time="at", name="orders").explain()


def test_a_path_is_called_by_the_name_it_was_given(tmp_path: Path) -> None:
    """Else by the name of the file."""
    pa.parquet.write_table(pa.Table.from_pylist(_ROWS), tmp_path / "a.parquet")
    assert "a.parquet" in sw.stream(tmp_path / "a.parquet", time="at").explain()
    assert "orders" in sw.stream(tmp_path / "a.parquet", time="at", name="orders").explain()


@pytest.mark.parametrize("kind", ["reader", "generator", "C stream"])
def test_a_one_way_source_is_read_once_and_says_so_the_second_time(kind: str) -> None:
    """With what to do instead."""
    stream = sw.stream(_SOURCES[kind](), time="at")
    stream.run()
    with pytest.raises(PlanError, match=r"(?s)only once.*hint: make a new stream from a fresh reader, or from a table"):
        stream.run()


@pytest.mark.parametrize("kind", ["table", "batch", "frame", "list", "tuple"])
def test_a_source_at_rest_can_be_read_again(kind: str) -> None:
    """Two runs give the same."""
    stream = sw.stream(_SOURCES[kind](), time="at")
    assert stream.run().table.equals(stream.run().table)


@pytest.mark.parametrize(
    "source", [7, None, {"at": [1, 2], "x": ["a", "b"]}, [1, 2], "no such file", b"bytes", pd.Series([1, 2])], ids=repr
)
def test_what_is_no_source_is_refused_with_a_hint(source: Any) -> None:
    """Never with an error from somewhere inside."""
    with pytest.raises(SlackwaterError):
        sw.stream(source, time="at")


def test_a_time_column_that_is_not_there_is_refused_at_once() -> None:
    """The columns that are there are listed."""
    with pytest.raises(SchemaMismatch, match=r"(?s)asked for  when.*there are  at, x"):
        sw.stream(_ROWS, time="when")


@pytest.mark.parametrize("make", [sw.arrivals, sw.unstamped])
def test_a_column_called_as_the_stamp_is_refused(make: Callable[[Any], sw.OrderedStream]) -> None:
    """With what to do."""
    with pytest.raises(SchemaMismatch, match=r"(?s)arrived_at.*hint: rename the column"):
        make([{"arrived_at": 1}])


_SKEWED = sw.Punctuations.on_demand(skew="1s")


def test_only_a_live_source_punctuates_by_the_clock() -> None:
    """A table knows its end already."""
    table = pa.table({"at": pa.array([1], pa.timestamp("us"))})
    with pytest.raises(PlanError, match=r"(?s)only a live source punctuates.*hint: leave punctuations out"):
        sw.stream(table, time="at", punctuations=_SKEWED)


def test_a_source_with_times_of_its_own_needs_a_skew() -> None:
    """Otherwise it could guarantee nothing."""
    source = sw.PushSource({"at": pa.timestamp("us")})
    for punctuations in (sw.Punctuations.on_demand(), sw.Punctuations.periodic("1s")):
        with pytest.raises(PlanError, match=r"(?s)needs a skew.*hint: say the greatest skew"):
            sw.stream(source, time="at", punctuations=punctuations)


def test_sequence_numbers_do_not_pass_with_the_clock() -> None:
    """A number is not microseconds."""
    source = sw.PushSource({"at": pa.int64()})
    with pytest.raises(PlanError, match=r"(?s)needs calendar time.*hint: use a timestamp column"):
        sw.stream(source, time="at", punctuations=_SKEWED)


def test_a_live_source_with_a_skew_is_punctuated() -> None:
    """The plan knows, and says how."""
    source = sw.PushSource({"at": pa.timestamp("us")}, name="clicks")
    stream = sw.stream(source, time="at", punctuations=_SKEWED)
    assert stream.properties.punctuated
    assert "punctuations on demand, skew 1s" in stream.explain()


@pytest.mark.parametrize("every", ["0s", "-1s"])
def test_a_beat_needs_a_length_above_zero(every: str) -> None:
    """A punctuation every zero seconds is none or infinitely many."""
    with pytest.raises(PlanError):
        sw.Punctuations.periodic(every)
