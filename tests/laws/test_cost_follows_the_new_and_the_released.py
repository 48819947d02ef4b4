"""Law 7: the work of a step follows what comes in and what goes out, never what is held."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.schema import EventSchema
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.sort import SortOperator
from slackwater.operators.union import UnionOperator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

_NO_ROWS = pa.RecordBatch.from_pylist([], schema=pa.schema({"v": pa.int64()}))


def _points(starts: Sequence[int]) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"v": pa.array(starts, pa.int64())}), list(starts))


def _rows_copied_per_step(held: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a union hold many rows, then feed it one row at a time on the other port, and count rows that are copied."""
    union = UnionOperator(2, _NO_ROWS)
    for first in range(0, held, 100):
        union.on_batch(0, _points(range(1_000 + first, 1_100 + first)))
    copied = 0
    concat = EventBatch.concat

    def counted(batches: Sequence[EventBatch]) -> EventBatch:
        nonlocal copied
        copied += sum(batch.rows for batch in batches) if len(batches) > 1 else 0
        return concat(batches)

    monkeypatch.setattr(EventBatch, "concat", staticmethod(counted))
    for start in range(1_000):
        union.on_batch(1, _points([start]))
    assert union.buffered() == held
    monkeypatch.setattr(EventBatch, "concat", concat)
    return copied


def test_a_union_that_holds_ten_times_as_much_works_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows copied while the other input moves on do not depend on how much waits."""
    assert _rows_copied_per_step(20_000, monkeypatch) == _rows_copied_per_step(2_000, monkeypatch) == 0


def test_a_snapshot_of_a_waiting_union_copies_no_row() -> None:
    """What waits is handed out as the batches it came in."""
    union = UnionOperator(2, _NO_ROWS)
    came = [_points(range(first, first + 100)) for first in range(100, 1_000, 100)]
    for batch in came:
        union.on_batch(0, batch)
    held = union.snapshot().room.held[0]
    assert len(held) == len(came)
    assert all(kept is batch for kept, batch in zip(held, came, strict=True))


_BLOCK = 65_536
_POINTS = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")


def _parts(state: object) -> Iterator[Any]:
    """Every column and batch of a state, wherever it lies."""
    if isinstance(state, np.ndarray | pa.RecordBatch):
        yield state
    elif dataclasses.is_dataclass(state):
        yield from _parts(tuple(getattr(state, field.name) for field in dataclasses.fields(state)))
    elif isinstance(state, tuple | list):
        for part in state:
            yield from _parts(part)


def _rows_made_by_a_sort(blocks: int) -> int:
    """Let a sort hold many rows that are far ahead, then stream rows through it, and count those in new columns."""
    sort = SortOperator(_POINTS)
    for block in range(blocks):
        first = 10**6 + block * _BLOCK
        sort.on_batch(0, _points(range(first, first + _BLOCK)))
    made = 0
    held = {id(part): part for part in _parts(sort.snapshot())}
    for start in range(300):
        sort.on_batch(0, _points([start + 50, start]))
        sort.on_batch(0, punctuation_like(_NO_ROWS, start))
        now = {id(part): part for part in _parts(sort.snapshot())}
        made += sum(len(part) for key, part in now.items() if key not in held)
        held = now
    assert sort.buffered() == blocks * _BLOCK + 52
    return made


def test_a_sort_that_holds_ten_times_as_much_works_no_more() -> None:
    """Rows that wait are neither moved nor copied while others come and go."""
    assert _rows_made_by_a_sort(10) == _rows_made_by_a_sort(1)


def _bytes_used_for_ten_ties(known: int) -> int:
    """Let a merge know many rows of one time from two replicas, and count what ten more make it allocate."""
    merge = MergeOrderedWithKey(2, _NO_ROWS)
    for port in (0, 1):
        merge.on_batch(port, EventBatch.inserts(pa.record_batch({"v": np.arange(known)}), np.zeros(known, np.int64)))
    more = EventBatch.inserts(pa.record_batch({"v": np.arange(known, known + 10)}), np.zeros(10, np.int64))
    merge.on_batch(0, more)  # which may make a set grow: the next ten find room
    tracemalloc.start()
    emitted = merge.on_batch(1, more)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not sum(batch.rows for batch in emitted.batches)
    return most


def test_a_merge_that_knows_fifty_times_as_many_ties_works_no_more() -> None:
    """The sets of rows that replicas have sent are looked into, not united or copied."""
    assert _bytes_used_for_ten_ties(50_500) < 2 * _bytes_used_for_ten_ties(1_000)
