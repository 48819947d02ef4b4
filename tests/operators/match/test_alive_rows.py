"""The rows of one side of a join: storing, gathering and sweeping."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slackwater.events.batch import EventBatch
from slackwater.operators.match.alive_rows import AliveRows, first_instant_beyond
from slackwater.progress.instants import BEGINNING, FOREVER


def stored(*sizes: int) -> AliveRows:
    """Batches of the given sizes, rows numbered from 0; row i lives at [i, i + 10) and has key i % 3."""
    alive = AliveRows(pa.record_batch({"x": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))
    for size in sizes:
        numbers = np.arange(alive.rows, alive.rows + size)
        payload = pa.record_batch({"x": numbers, "s": pa.array(numbers).cast(pa.string())})
        alive.add(EventBatch(payload, numbers, numbers + 10), numbers % 3, known=3)
    alive.link_all(np.arange(3), known=3)
    return alive


@pytest.mark.parametrize("sizes", [(1,) * 37, (20, 1, 16), (64, 32, 8, 3, 1), (3, 64), (0, 5, 0, 2)], ids=str)
def test_rows_are_gathered_from_all_chunks_in_the_order_asked_for(sizes: tuple[int, ...]) -> None:
    """Rows may be asked for twice, backward, and across the chunks they were stored in."""
    alive = stored(*sizes)
    alive.check(now=0, swept_at=BEGINNING)
    rows = np.array([alive.rows - 1, 0, alive.rows // 2, 0])
    assert alive.gather(rows).to_pylist() == [{"x": row, "s": str(row)} for row in rows.tolist()]
    assert alive.gather(rows, ["s"]).column_names == ["s"]


def test_one_row_at_a_time_still_makes_few_chunks() -> None:
    """1,000 batches of one row are kept in at most log2(1,000) chunks."""
    assert len(stored(*(1,) * 1_000)._chunks) <= 10


def test_a_sweep_keeps_what_a_partner_may_still_match() -> None:
    """At time 25 the rows that live on are those that end after 25."""
    alive = stored(30)
    alive.drop_expired(25)
    alive.link_all(np.arange(3), known=3)
    alive.check(now=25, swept_at=25)
    assert alive.gather(np.arange(alive.rows), ["x"]).column("x").to_pylist() == list(range(16, 30))
    assert alive.linked == 14


def test_alive_rows_are_whole_and_in_order() -> None:
    """A snapshot of one side has payload, starts and reaches of what lives."""
    rows = stored(3, 9).alive(now=19)
    assert rows.payload.column("x").to_pylist() == rows.start.tolist() == [10, 11]
    assert rows.ends().tolist() == [20, 21]


@pytest.mark.parametrize(
    ("start", "distance", "until"),
    [
        (5, 0, 6),
        (BEGINNING, FOREVER, 0),
        (0, FOREVER - 1, FOREVER),
        (0, FOREVER, FOREVER),
        (FOREVER - 1, 0, FOREVER),
        (FOREVER - 1, FOREVER, FOREVER),
    ],
)
def test_reach_stops_at_forever(start: int, distance: int, until: int) -> None:
    """Adding never wraps around."""
    assert first_instant_beyond(np.array([start]), distance).tolist() == [until]
