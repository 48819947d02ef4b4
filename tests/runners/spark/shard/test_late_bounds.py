"""Rows that cannot be late are summed up where they are read: whatever tasks know, what comes out is the same."""

from __future__ import annotations

from random import Random
from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from summing_up import KNOWN, SCHEMA, SUMS, arrivals_of, packed_with, rows_of, run_shards
from without_spark import cut, shard_plan

import slackwater as sw
from slackwater.errors import RunError
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.metrics import METRICS
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.wire.late_bounds import LateBounds


def _bands(stream: Any, late: sw.Late, **sums: Any) -> list[Any]:
    windows = stream.tumbling(5, offset=2).select("k", "v", x=nw.col("x") * 3).group_by("k")
    return list(windows.in_bands(2, 8, 20, every=sw.Every.batch(), late=late, **(sums or SUMS)))


_FATES = {"seen": sw.Late.divert(), "moved": sw.Late.adjust()}


@pytest.mark.parametrize("known", [name for name in KNOWN if name != "nothing"])
@pytest.mark.parametrize("fate", _FATES)
@FEWER
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 5))
def test_what_comes_out_does_not_depend_on_what_tasks_know(
    known: str, fate: str, seed: int, shards: int, cuts: int
) -> None:
    """The same rows in the same order, the same late rows, counters, totals and reasons: so a replay may know less."""
    rng = Random(seed)
    turns = cut(rows_of(rng, rng.randint(0, 70)), rng, cuts)
    plan = shard_plan(lambda s: _bands(s[0], _FATES[fate]), [SCHEMA], shards)
    with_bounds, without = (run_shards(plan, turns, how, rng) for how in (known, "nothing"))
    assert with_bounds.keys() == without.keys()
    for what, rows in with_bounds.items():
        assert repr(rows) == repr(without[what])  # which knows -0.0 and NaN


@pytest.mark.parametrize("calendar", [False, True])
def test_the_time_of_rows_may_be_a_key(*, calendar: bool) -> None:
    """Behind a window it is a column of another kind: as one of groups it would come to other shards than rows."""
    schema = SCHEMA.set(0, pa.field("at", pa.timestamp("us", "UTC"))) if calendar else SCHEMA
    length, second = (lambda n: f"{n}s", 1_000_000) if calendar else (lambda n: n, 1)

    def bands(streams: Any) -> list[Any]:
        windows = streams[0].tumbling(length(5)).group_by("at")
        return list(windows.in_bands(length(2), length(8), every=sw.Every.batch(), late=sw.Late.divert(), n=sw.count()))

    rows = rows_of(Random(1), 60)
    times = pa.array([at * second for at in rows["at"].to_pylist()], pa.int64()).cast(schema.field(0).type)
    turns = cut(rows.set_column(0, schema.field(0), times), Random(1), 4)
    plan = shard_plan(bands, [schema], 3)
    with_bounds, without = (run_shards(plan, turns, how, Random(1)) for how in ("what holds", "nothing"))
    assert repr(with_bounds) == repr(without)  # which knows NaN


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]))
def test_no_row_travels_that_cannot_be_late(seed: int, shards: int) -> None:
    """Those before the bound are rows, all others are in groups, and none is lost or there twice."""
    rng = Random(seed)
    plan = shard_plan(lambda s: _bands(s[0], sw.Late.divert()), [SCHEMA], shards)
    table, bound = rows_of(rng, 60), rng.randint(0, 60)
    packed = [row for row in packed_with(plan, table, lambda: bound, rng, chunk_rows=60) if row.number >= 0]
    before = sum(at < bound for at in table["at"].to_pylist())
    assert sum(row.rows for row in packed if row.since == FOREVER) == before
    assert sum(row.rows for row in packed if row.since < FOREVER) == table.num_rows - before
    assert all(row.since >= bound for row in packed)


def test_a_sum_that_may_have_late_rows_is_refused() -> None:
    """By its oldest row, though its window began later than others; before anything of it has come out."""
    plan = shard_plan(lambda s: _bands(s[0], sw.Late.divert()), [SCHEMA], 1)
    (key,), shard, rng = shard_keys(1), Shard(plan), Random(1)

    def table(*times: int) -> pa.Table:
        return pa.Table.from_pylist([{"at": at, "k": 1.0, "v": 1, "x": 1.0} for at in times], SCHEMA)

    list(shard.on_micro_batch(arrivals_of(packed_with(plan, table(3, 60), lambda: BEGINNING, rng), key)))
    assert shard.in_time_from() == [37]  # the start of the window that has 60 - 20
    list(shard.on_micro_batch(arrivals_of(packed_with(plan, table(37, 61), lambda: 37, rng), key)))
    stale = arrivals_of(packed_with(plan, table(36, 62), lambda: 36, rng), key)
    with pytest.raises(RunError, match=r"(?s)got a sum of rows that may be late.*37.*36.*start the query again"):
        list(shard.on_micro_batch(stale))


@pytest.mark.parametrize("known", [True, False])
def test_a_hot_key_is_one_group_of_each_task_and_window(known: bool) -> None:
    """Nine rows of ten have one key: its shard gets a few groups, and not all the rows; the answers are the same."""
    plan = shard_plan(lambda s: _bands(s[0], sw.Late.divert(), n=sw.count()), [SCHEMA], 8)
    rng = Random(3)
    made = [{"at": n // 1_000, "k": 7.0 if n % 10 else 100.0 + n % 97, "v": n, "x": 0.0} for n in range(10_000)]
    (pack,) = packs_of(plan)
    packed = [
        row
        for task, part in enumerate(cut(pa.Table.from_pylist(made, SCHEMA), rng, 4))
        for row in pack.packed(task, part.to_batches(), BEGINNING if known else FOREVER)
        if row.number >= 0
    ]
    sizes = {key: sum(len(row.body or b"") for row in packed if row.shard == key) for key in shard_keys(8)}
    assert sum(row.rows for row in packed) == 10_000
    assert max(row.rows for row in packed) > 1_000, "one shard has nine of ten"
    assert (max(sizes.values()) < 20_000) == known
    counted: list[int] = []
    for key in shard_keys(8):
        shard = Shard(plan)
        given = [*shard.on_micro_batch(arrivals_of(packed, key)), *shard.flush()]
        counted += [n for output, rows in given if output == "main 2" for n in rows.column("n").to_pylist()]
    assert sum(counted) == 10_000
    assert max(counted) == 4_500  # of a window with five thousand


# ---- what the driver knows -------------------------------------------------------------------------------------------


def test_a_bound_is_for_the_next_micro_batch_and_no_other() -> None:
    """Also where one was not seen: then nothing is known until all shards have spoken again."""
    bounds = LateBounds("example", shards=2, ways=2, is_new=True)
    assert bounds.known_in(0) == [BEGINNING] * 2
    assert bounds.known_in(1) is None
    bounds.learn(0, [(0, [5, 7]), (1, [5, 8])])
    assert (bounds.known_in(0), bounds.known_in(1), bounds.known_in(2)) == (None, [5, 8], None)
    bounds.learn(1, [])
    assert bounds.known_in(2) == [5, 8]
    bounds.learn(3, [(1, [9, 9])])
    assert bounds.known_in(4) is None
    bounds.learn(4, [(0, [9, 10]), (0, [9, 8])])
    assert bounds.known_in(5) is None
    bounds.learn(4, [(0, [9, 10]), (0, [9, 8]), (1, [9, 9])])
    assert bounds.known_in(5) == [9, 10]


def test_after_a_restart_nothing_is_known_until_all_shards_have_spoken() -> None:
    """Those that had nothing to do stand where nobody here has seen them."""
    bounds = LateBounds("example", shards=2, ways=1, is_new=False)
    assert bounds.known_in(0) is None
    bounds.learn(7, [(1, [3])])
    assert bounds.known_in(8) is None
    bounds.learn(8, [(0, [4]), (1, [3])])
    assert bounds.known_in(9) == [4]


def test_metrics_of_tables_have_no_bounds() -> None:
    """They are for the driver alone."""
    from slackwater.runners.spark.shard.metrics import METRIC_COLUMNS, METRIC_VALUES

    assert METRICS
    assert "in_time_from" not in METRIC_VALUES
    assert "in_time_from" not in METRIC_COLUMNS
