"""Rows held by number: any are taken in any order, and what is held and stored follows those that are left."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.operators.upserts import live_rows
from slackwater.operators.upserts.live_rows import LiveRows


def _rows(first: int, count: int) -> EventBatch:
    values = np.arange(first, first + count)
    return EventBatch.inserts(pa.record_batch({"x": values}), values)


@pytest.mark.parametrize("small", [4, 65_536])
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 30), restored=st.booleans())
def test_each_row_is_handed_over_as_it_came_and_once(small: int, seed: int, steps: int, restored: bool) -> None:
    """Against a dictionary; pieces of every size, restored after each step or not."""
    rng, held, known = Random(seed), LiveRows(), dict[int, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_rows, "_SMALL", small)
        for step in range(steps):
            if known and rng.random() < 0.5:
                asked = rng.sample(sorted(known), rng.randint(1, len(known)))
                taken = held.take(np.array(asked))
                assert taken.start.tolist() == taken.payload.column(0).to_pylist() == [known.pop(one) for one in asked]
            else:
                rows = _rows(100 * step, rng.randint(0, 9))
                known |= dict(zip(held.add(rows).tolist(), rows.start.tolist(), strict=True))
            held = LiveRows(held.snapshot()) if restored else held
            held.check()
            assert len(held) == len(known)
            found = {n: x for rows, numbers in held.rows() for n, x in zip(numbers.tolist(), rows.start, strict=True)}
            assert found == known


def test_what_is_stored_of_a_piece_stays_the_same_while_others_come_and_go() -> None:
    """So that a runner that stores what is new stores little."""
    held = LiveRows()
    held.add(_rows(0, 50_000))
    (first,) = held.snapshot().pieces
    for step in range(40):
        held.take(held.add(_rows(50_000 + 1_000 * step, 1_000))[:900])
    again = held.snapshot().pieces
    assert again[0].rows is first.rows
    assert again[0].left is first.left
    assert sum(piece.rows.rows for piece in again[1:]) <= 2 * 40 * 100
    assert len(again) < 12


def test_rows_that_are_gone_are_forgotten_though_one_of_their_piece_is_left() -> None:
    """Memory follows what is left, not what came together."""
    held = LiveRows()
    numbers = held.add(_rows(0, 10_000))
    held.take(numbers[1:])
    assert [piece.rows.rows for piece in held.snapshot().pieces] == [1]
