"""Rows that are spilled come back in order, ties as they came, a few blocks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.spilled_blocks import SpilledBlocks, TimedRows, in_order
from slackwater.testing.spilling import SpillwayInMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = pa.schema({"n": pa.int64(), "word": pa.string()})


def _part(times: Sequence[int], first: int) -> TimedRows:
    """Rows in order of time, numbered on from the first."""
    numbers = range(first, first + len(times))
    columns = [pa.array(numbers, pa.int64()), pa.array([f"row {number}" for number in numbers])]
    return TimedRows(np.array(sorted(times), dtype=np.int64), pa.record_batch(columns, schema=_SCHEMA))


def _spilled(parts: Sequence[Sequence[int]], spillway: SpillwayInMemory) -> tuple[SpilledBlocks, list[tuple[int, int]]]:
    """Parts that are spilled one after the other, and all pairs of time and number."""
    blocks, pairs = SpilledBlocks(_SCHEMA), list[tuple[int, int]]()
    for times in parts:
        part = _part(times, len(pairs))
        pairs += list(zip(part.times.tolist(), part.rows["n"].to_pylist(), strict=True))
        blocks.put(part, spillway)
    return blocks, pairs


_PARTS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=40), min_size=1, max_size=8)


@given(parts=_PARTS, bounds=st.lists(st.integers(0, 21), max_size=4), block=st.sampled_from([1, 100, 1_000]))
def test_what_is_spilled_comes_back_in_order_and_ties_as_they_came(
    parts: list[list[int]], bounds: list[int], block: int
) -> None:
    """At each bound all that is older, in steps; and however often what waits is taken up by another."""
    blocks, pairs = _spilled(parts, SpillwayInMemory(block))
    expected = sorted(pairs, key=lambda pair: pair[0])  # which is stable
    got: list[tuple[int, int]] = []
    for bound in [*sorted(bounds), 100]:
        more = blocks.due(bound)
        while more:
            due = blocks.take(bound)
            times, rows = in_order(_SCHEMA, due.parts)
            assert rows["word"].to_pylist() == [f"row {number}" for number in rows["n"].to_pylist()]
            got += list(zip(times.tolist(), rows["n"].to_pylist(), strict=True))
            blocks.check()
            blocks, more = SpilledBlocks(_SCHEMA, blocks.snapshot()), due.more
        assert got == expected[: len(got)]
        assert len(got) == sum(time < bound for time, _ in pairs)
        assert len(blocks) == len(pairs) - len(got)
        assert not blocks.due(bound)


def test_a_step_opens_few_blocks() -> None:
    """However much is due, and where all of it has one time; what has been taken is not kept in memory."""
    for parts in ([[7] * 40] * 5, [list(range(40))] * 5):
        blocks, pairs = _spilled(parts, SpillwayInMemory(200))
        spilled = [block.rows for block in blocks.snapshot()]  # as who stores a state has them while it is worked on
        opened, taken, more = 0, 0, True
        while more:
            due = blocks.take(1_000)
            in_memory = sum(rows.in_memory is not None for rows in spilled)
            let_go = len(spilled) - len(blocks.snapshot())
            assert in_memory <= len(parts)
            assert let_go + in_memory <= opened + 4 or not due.more
            opened, more = let_go + in_memory, due.more
            taken += sum(len(part.times) for part in due.parts)
        assert taken == len(pairs) == 200
        assert opened == len(spilled) > 20


def test_blocks_that_are_not_due_are_not_read() -> None:
    """And one that is read once is not read again while the first of its rows are taken."""
    spillway = SpillwayInMemory(200)
    blocks, _ = _spilled([list(range(100))], spillway)
    spillway.stored[1:] = [b"nobody reads this"] * (len(spillway.stored) - 1)
    (part,) = blocks.take(2).parts
    spillway.stored.clear()
    (other,) = blocks.take(4).parts
    assert [*part.times.tolist(), *other.times.tolist()] == [0, 1, 2, 3]


def test_blocks_are_as_large_as_they_should_be() -> None:
    """Wide rows among narrow ones are in blocks of their own."""
    spillway = SpillwayInMemory(1_000)
    words = ["x", "y" * 5_000, "z", *["w" * 100] * 40]
    rows = pa.record_batch([pa.array(range(43)), pa.array(words)], schema=_SCHEMA)
    SpilledBlocks(_SCHEMA).put(TimedRows(np.arange(43), rows), spillway)
    read = [pa.ipc.open_stream(stored).read_all() for stored in spillway.stored]
    assert pa.concat_tables(read)["word"].to_pylist() == words
    assert all(block.nbytes <= 1_250 or block.num_rows == 1 for block in read)
    assert len(read) < 20


def test_a_large_dictionary_does_not_make_blocks_of_single_rows() -> None:
    """It goes with every block, so that these are as large as it is."""
    schema = pa.schema({"word": pa.dictionary(pa.int32(), pa.string())})
    words = pa.array([f"word {number:05}" for number in range(2_000)])
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(1_000, dtype=np.int32)), words)
    spillway, blocks = SpillwayInMemory(1_000), SpilledBlocks(schema)
    blocks.put(TimedRows(np.arange(1_000), pa.record_batch([column], schema=schema)), spillway)
    assert len(spillway.stored) == 1
    (part,) = blocks.take(1_000).parts
    assert part.rows["word"].to_pylist() == words.to_pylist()[:1_000]
