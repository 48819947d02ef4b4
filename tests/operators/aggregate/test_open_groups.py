"""Open groups: few partials, each row merged a logarithm of times, and releases that leave the rest alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.operators.aggregate.open_groups import OpenGroups
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.policies import aggregates as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GROUPING = Grouping.of(pa.schema({"x": pa.int64()}), ["x"], {"n": sw.count()}, "test")
DISTINCT = Grouping.of(pa.schema({"x": pa.int64()}), [], {"n": sw.count_distinct("x")}, "test")


def _partial(starts: Sequence[int], values: Sequence[int], grouping: Grouping = GROUPING) -> Partial:
    payload = pa.record_batch({"x": pa.array(values, pa.int64())})
    return Partial.of(EventBatch.inserts(payload, starts, [start + 10 for start in starts]), grouping)


@pytest.fixture
def merged_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each merge had to read."""
    rows: list[int] = []
    merge: Callable[[Sequence[Partial]], Partial] = Partial.merge

    def counted(partials: Sequence[Partial]) -> Partial:
        rows.append(sum(partial.rows for partial in partials))
        return merge(partials)

    monkeypatch.setattr(Partial, "merge", staticmethod(counted))
    return rows


@pytest.mark.parametrize("grouping", [GROUPING, DISTINCT], ids=["many groups", "many members"])
def test_single_row_batches_into_one_open_window_cost_n_log_n(grouping: Grouping, merged_rows: list[int]) -> None:
    """Different keys, or different values of one key, in one window that stays open."""
    n = 1_024
    held = OpenGroups()
    for i in range(n):
        held.add(_partial([0], [i], grouping))
    held.check()
    assert sum(merged_rows) <= 4 * n * math.log2(n)
    assert len(held.snapshot()) <= math.log2(n) + 1


def test_a_sliding_set_of_windows_costs_n_log_n_with_all_its_releases(merged_rows: list[int]) -> None:
    """Each step opens a window far ahead and closes an old one: what waits between them is hardly touched."""
    n, ahead = 1_024, 512
    held = OpenGroups()
    released = 0
    for i in range(n):
        released += sum(len(partial) for partial in held.release(i))
        held.add(_partial([i + ahead], [i]))
        held.check()
    assert released == n - ahead - 1
    assert sum(merged_rows) <= 4 * n * math.log2(n)


def test_rows_of_one_group_are_held_once(merged_rows: list[int]) -> None:
    """A partial result does not grow with its rows."""
    held = OpenGroups()
    for _ in range(100):
        held.add(_partial([0], [7]))
    assert len(held) < 8
    assert sum(merged_rows) < 2 * 99


def test_a_release_before_the_least_start_touches_nothing() -> None:
    """The partials stay the very same values."""
    held = OpenGroups([_partial([5, 6, 7], [1, 2, 3]), _partial([5], [9])])
    before = held.snapshot()
    assert held.release(5) == []
    assert all(one is other for one, other in zip(before, held.snapshot(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.booleans()), max_size=40))
def test_every_row_is_released_once_or_still_held(steps: list[tuple[int, int, bool]]) -> None:
    """Rows behind the bound are moved up to it, as the operator refuses them; the counts add up at any time."""
    held, bound, given_in, out = OpenGroups(), 0, 0, 0
    for start, value, release in steps:
        if release:
            bound = max(bound, start)
            for partial in held.release(bound):
                assert (partial.starts < bound).all()
                out += sum(partial.finish().payload.column("n").to_pylist())
        else:
            held.add(_partial([max(start, bound)], [value]))
            given_in += 1
        held.check()
        assert all((partial.starts >= bound).all() for partial in held.snapshot())
        waiting = [n for partial in held.snapshot() for n in partial.finish().payload.column("n").to_pylist()]
        assert given_in == out + sum(waiting)
