"""Tables, frames, readers and Python rows as sources."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SlackwaterError, SourceFailed
from slackwater.sources.tables import ROWS_PER_CHUNK, from_pandas, from_reader, from_rows, from_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.sources.readers import ReadFeed

_TABLE = pa.table({"at": [3, 1, 2], "x": ["a", "b", None]})


def _read(feed: ReadFeed, max_rows: int = 2) -> list[dict[str, Any]]:
    reader = feed.open(sw.ManualClock(7), lambda: None)
    rows: list[dict[str, Any]] = []
    while (polled := reader.poll(max_rows)) is not None:
        assert not reader.ended
        batch, arrived = polled
        assert 0 < batch.num_rows <= max_rows
        assert arrived == 7
        rows += batch.to_pylist()
    assert reader.ended
    assert reader.poll(max_rows) is None
    return rows


def test_a_table_is_read_in_its_order_in_small_pieces_again_and_again() -> None:
    """No piece is larger than asked for."""
    feed = from_table(_TABLE, "orders")
    assert (feed.name, feed.schema, feed.live) == ("orders", _TABLE.schema, False)
    assert _read(feed) == _read(feed) == _TABLE.to_pylist()


def test_a_table_of_no_rows_ends_at_once() -> None:
    """Empty chunks in between are no rows either."""
    assert _read(from_table(_TABLE.slice(0, 0), "t")) == []
    assert _read(from_table(pa.concat_tables([_TABLE, _TABLE.slice(0, 0), _TABLE]), "t")) == _TABLE.to_pylist() * 2


def test_rows_of_a_table_are_not_copied() -> None:
    """The first piece is the table's own memory."""
    polled = from_table(_TABLE, "t").open(sw.ManualClock(), lambda: None).poll(2)
    assert polled is not None
    column = polled[0].column("at")
    assert column.buffers()[1].address == _TABLE.column("at").chunk(0).buffers()[1].address


def test_a_closed_reading_has_ended() -> None:
    """What was not read is dropped."""
    reader = from_table(_TABLE, "t").open(sw.ManualClock(), lambda: None)
    reader.poll(1)
    reader.close()
    assert reader.ended
    assert reader.poll(1) is None


def test_a_frame_is_read_without_its_index() -> None:
    """Columns as they are, in their order; pandas' own notes about itself are left out."""
    frame = pd.DataFrame({"at": [3, 1], "x": ["a", None]}, index=[10, 11])
    feed = from_pandas(frame, "frame")
    assert feed.schema.names == ["at", "x"]
    assert feed.schema.metadata is None
    assert [row["at"] for row in _read(feed)] == [3, 1]


def test_a_reader_can_be_read_once() -> None:
    """The second reading is refused, with what to do instead."""
    feed = from_reader(_TABLE.to_reader(), "orders")
    assert _read(feed) == _TABLE.to_pylist()
    with pytest.raises(PlanError, match=r"(?s)only once.*orders.*hint: make a new stream"):
        feed.open(sw.ManualClock(), lambda: None)


def _generated(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield {"at": i, "x": str(i)}


def test_rows_of_a_list_can_be_read_again_and_those_of_a_generator_once() -> None:
    """More rows than are looked at to learn the types."""
    rows = list(_generated(2 * ROWS_PER_CHUNK + 1))
    feed = from_rows(rows, "rows")
    assert _read(feed, 500) == _read(feed, 500) == rows
    once = from_rows(_generated(ROWS_PER_CHUNK + 1), "rows")
    assert _read(once, 5_000) == rows[: ROWS_PER_CHUNK + 1]
    with pytest.raises(PlanError, match="only once"):
        once.open(sw.ManualClock(), lambda: None)


def test_a_generator_is_not_exhausted_before_it_is_read() -> None:
    """Only the rows that decide the types are taken beforehand."""
    taken = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for row in _generated(10 * ROWS_PER_CHUNK):
            taken += 1
            yield row

    from_rows(counted(), "rows")
    assert taken == ROWS_PER_CHUNK


def test_no_rows_and_no_schema_are_refused_with_a_hint() -> None:
    """There is nothing to learn the columns from."""
    with pytest.raises(PlanError, match=r"(?s)no rows and no schema.*hint: pass schema="):
        from_rows([], "rows")
    assert _read(from_rows([], "rows", pa.schema({"at": pa.int64()}))) == []


def test_a_schema_decides_the_types_of_rows() -> None:
    """Whatever the values look like; a key that is missing is null."""
    feed = from_rows([{"at": 1}, {"at": 2, "x": 5}], "rows", pa.schema({"at": pa.int16(), "x": pa.float32()}))
    assert feed.schema.field("x").type == pa.float32()
    assert _read(feed) == [{"at": 1, "x": None}, {"at": 2, "x": 5.0}]


def test_a_column_that_only_later_rows_have_is_not_lost() -> None:
    """Nothing is lost silently: the first thousand rows decide the columns together, not the first row alone."""
    feed = from_rows([{"at": 1}, {"at": 2, "x": 5}], "rows")
    assert _read(feed) == [{"at": 1, "x": None}, {"at": 2, "x": 5}]


def test_a_column_that_appears_after_the_types_are_decided_is_an_error() -> None:
    """It cannot be kept any more, so it must not be dropped in silence."""
    rows = [{"at": i} for i in range(ROWS_PER_CHUNK)] + [{"at": ROWS_PER_CHUNK, "x": 5}]
    with pytest.raises(SlackwaterError, match="x"):
        _read(from_rows(rows, "rows"), 5_000)


def test_a_row_that_does_not_fit_the_types_is_an_error_that_names_the_source() -> None:
    """Arrow's own words are the cause, not the whole message."""
    rows = [{"at": i, "x": i} for i in range(ROWS_PER_CHUNK)] + [{"at": 1, "x": "seven"}]
    with pytest.raises(SlackwaterError, match="orders"):
        _read(from_rows(rows, "orders"), 5_000)


@pytest.mark.parametrize("rows", [[1, 2], ["at", "x"], [("at", 1)], [{"at": 1}, None]], ids=str)
def test_rows_that_are_no_mappings_are_refused_with_a_hint(rows: list[Any]) -> None:
    """They have no columns."""
    with pytest.raises(SlackwaterError, match="hint"):
        _read(from_rows(rows, "rows"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), Decimal("1.7")),
        (pa.int64(), np.float64(2.9)),
        (pa.float32(), 1e300),
        (pa.timestamp("s"), datetime(2026, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001 - a naive column
    ],
    ids=["a float", "a decimal", "a NumPy float", "too large a float", "microseconds"],
)
def test_a_value_that_would_be_cut_to_its_column_is_refused(kind: pa.DataType, value: Any) -> None:
    """Nothing is lost silently: Arrow would make 1 of 1.5."""
    schema = pa.schema({"at": pa.int64(), "x": kind})
    with pytest.raises(SourceFailed, match=r"(?s)without loss.*orders.*hint"):
        _read(from_rows([{"at": 1, "x": value}], "orders", schema))


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        (pa.int64(), 2.0, 2),
        (pa.float32(), 0.1, pytest.approx(0.1)),
        (pa.float64(), 3, 3.0),
        (pa.decimal128(5, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001
        (pa.int64(), None, None),
    ],
    ids=["a whole float", "the nearest float", "an int as float", "a decimal", "a naive time", "null"],
)
def test_a_value_that_fits_its_column_is_taken(kind: pa.DataType, value: Any, kept: Any) -> None:
    """Another Python type of the same value is no loss."""
    schema = pa.schema({"at": pa.int64(), "x": kind})
    assert _read(from_rows([{"at": 1, "x": value}], "orders", schema)) == [{"at": 1, "x": kept}]
