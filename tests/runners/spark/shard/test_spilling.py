"""Shards that spill, called as Spark calls them: the same comes out, and memory and the state's traffic stay small."""

from __future__ import annotations

import gc
from collections import defaultdict
from copy import copy
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from without_spark import cut, packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.host import ShardHost
from slackwater.runners.spark.shard.metrics import _COUNTS, METRICS
from slackwater.runners.spark.state import segment_cache
from slackwater.runners.spark.wire.arrow_bytes import from_buffer
from slackwater.runners.spark.wire.packed_rows import FLUSH, PackedRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slackwater.runners.spark.planning.shard_plan import ShardPlan

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "n": pa.int64()})
_BATCH = sw.Every.batch()
_UNLIMITED = 1 << 40
(_KEY,) = shard_keys(1)

_Streams = list[sw.DisorderedStream]


def _sorted(stream: sw.DisorderedStream, patience: int = 9) -> sw.OrderedStream:
    return stream.sort(patience=patience, every=_BATCH)


_PLANS: dict[str, Callable[[_Streams], Sequence[Any]]] = {
    "sort": lambda s: [_sorted(s[0])],
    "sort of windows that overlap": lambda s: [_sorted(s[0].hopping(12, 4))],
    "two outputs": lambda s: [(rows := _sorted(s[0])), rows.sliding(4).group_by("k").aggregate(n=sw.count())],
    "union": lambda s: [sw.union(_sorted(s[0]), _sorted(s[1], 3))],
    "join": lambda s: [_sorted(s[0]).select("k", "n").join(_sorted(s[1]).select("k", other="n"), on="k", within=3)],
    "followed_by": lambda s: [
        _sorted(s[0]).select("k", "n").followed_by(_sorted(s[1]).select("k", other="n"), on="k", within=4)
    ],
}


class _Store:
    """What Spark keeps of a shard, and what was read of it and written to it since somebody looked."""

    def __init__(self, stored: dict[tuple[Any, ...], tuple[Any, ...]] | None = None) -> None:
        self.stored = dict(stored or {})
        self.read = self.written = 0

    def getMapState(self, *_: str) -> _Store:  # noqa: N802 - Spark's name
        return self

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 - Spark's name
        value = self.stored.get(key)
        self.read += len(value[0]) if value is not None and key != (0,) else 0
        return value

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        self.stored[key] = value
        self.written += len(value[0]) if key != (0,) else 0

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        del self.stored[key]


class _Query:
    """A query with one shard, which has so much memory for rows that wait."""

    def __init__(self, plan: ShardPlan, memory: int, store: _Store | None = None) -> None:
        self.host, self.store = ShardHost(plan, memory=memory), store or _Store()
        self.host.init(self.store)  # type: ignore[arg-type]
        self.metrics: dict[str, int] = {}
        self.largest = 0
        """The rows of the largest piece that came out."""

    def take(self, rows: Sequence[PackedRow]) -> dict[str, list[dict[str, Any]]]:
        """What a micro-batch gives, by output, in order."""
        given: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for frame in self.host.handleInputRows((_KEY,), iter([pd.DataFrame(rows)]), None):  # type: ignore[arg-type]
            for row in frame.itertuples(index=False):
                if row.output == METRICS:
                    self.metrics = dict(zip(_COUNTS, row.counts, strict=False))  # more than these may follow
                else:
                    body = from_buffer(row.body)
                    self.largest = max(self.largest, body.num_rows)
                    given[row.output] += body.to_pylist()
        return given


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """No columns are in memory before, nor stay there."""
    segment_cache._resident.clear()
    yield
    segment_cache._resident.clear()


def _plan(make: Callable[[_Streams], Sequence[Any]], schema: pa.Schema = _SCHEMA) -> ShardPlan:
    plan: ShardPlan = shard_plan(make, [schema] * 2, 1)
    return plan


def _rows(rng: Random, rows: int) -> pa.Table:
    """Times that go back, and tie."""
    at, made = 0, []
    for number in range(rows):
        at += rng.choice([0, 0, 1, 2])
        time = max(0, at - rng.choice([0, 0, 0, 3, 9, 15]))
        made.append({"at": time, "k": rng.choice(["a", "b", None]), "n": number})
    return pa.Table.from_pylist(made, _SCHEMA)


_FLUSH = PackedRow(_KEY, 0, 0, FLUSH, 0, 0, None)


@pytest.mark.parametrize("name", _PLANS)
@FEWER
@given(seed=st.integers(0, 10**6), cuts=st.integers(1, 6), memory=st.sampled_from([1, 400, 2_000]))
def test_a_shard_that_spills_gives_the_same(name: str, seed: int, cuts: int, memory: int) -> None:
    """After every micro-batch, by output; of a sort in the same order, ties included. Memory may be forgotten between.

    Each micro-batch is done twice, by a worker that has columns in memory and by one that has none: both store the
    same bytes.
    """
    segment_cache._resident.clear()
    rng, plan = Random(seed), _plan(_PLANS[name])
    tables = [_rows(rng, rng.randint(0, 80)) for _ in range(2)]
    turns = [cut(table, rng, cuts) for table in tables][: len(plan.pipelines)]
    rounds = [packed_by_tasks(plan, turn, rng) for turn in zip(*turns, strict=True)]
    spilling, whole = _Query(plan, memory), _Query(plan, _UNLIMITED)
    for rows in [*rounds, [_FLUSH]]:
        other = _Query(plan, memory, _Store(spilling.store.stored))
        kept = {place: copy(leaves) for place, leaves in segment_cache._resident.items()}
        segment_cache._resident.clear()
        expected = whole.take(rows)
        segment_cache._resident.clear()
        again = other.take(rows)
        segment_cache._resident.clear()
        if rng.random() < 0.5:
            segment_cache._resident.update(kept)
        got = spilling.take(rows)
        assert again == got
        assert other.store.stored == spilling.store.stored
        if "sort" in name:
            assert got == expected
        else:
            assert {output: sorted(map(repr, rows)) for output, rows in got.items()} == {
                output: sorted(map(repr, rows)) for output, rows in expected.items()
            }
        assert spilling.metrics["held"] == whole.metrics["held"]
        assert whole.metrics["spilled"] == 0
        spilled = spilling.metrics["spilled"]
        assert (
            spilled == spilling.metrics["held"]
            if memory == 1 and "sort" in name
            else spilled <= spilling.metrics["held"]
        )
    assert len(spilling.store.stored) == 1, "nothing is stored but the head when nothing waits"


_NUMBERS = pa.schema({"at": pa.int64(), "n": pa.int64()})


def _large(number: int, rows: int, *, wild: bool) -> list[PackedRow]:
    """A micro-batch of many rows, nearly in order or at any times of all micro-batches."""
    random = np.random.default_rng(number)
    at = random.integers(0, 40 * rows, rows) if wild else number * rows + np.arange(rows) - random.integers(0, 50, rows)
    table = pa.table([pa.array(at + 50), pa.array(np.arange(number * rows, (number + 1) * rows))], schema=_NUMBERS)
    (pack, *_) = packs_of(_LARGE)
    return list(pack.packed(0, table.to_batches()))


_LARGE = _plan(lambda s: [s[0].sort(patience=10**6, every=_BATCH)], _NUMBERS)
_ROWS = 20_000


@pytest.mark.parametrize("wild", [False, True], ids=["nearly in order", "in no order"])
def test_memory_and_traffic_are_as_small_however_much_waits(*, wild: bool) -> None:
    """Of what is spilled nothing is in memory; it is written once more than it came, and read once, when it is due."""
    memory = 1 << 20
    query = _Query(_LARGE, memory)
    written = []
    for number in range(40):
        query.store.read = query.store.written = 0
        assert not any(query.take(_large(number, _ROWS, wild=wild)).values())
        written.append(query.store.written)
        assert query.store.read == 0, "the columns are in memory, and what is spilled is not wanted"
        (kept,) = segment_cache._resident.values()
        assert sum(leaf.nbytes for leaf in kept.values()) <= memory + 4 * 16 * _ROWS
    assert query.metrics["held"] == 40 * _ROWS
    assert query.metrics["spilled"] > 36 * _ROWS
    size = 24 * _ROWS  # of a micro-batch, with its times
    assert sum(written) < 2.5 * 40 * size
    assert max(written[20:]) < 1.5 * max(written[:20])
    segment_cache._resident.clear()  # as after a restart
    query.store.read = query.store.written = 0
    query.take(_large(40, 10, wild=wild))
    assert query.store.read < memory
    query.store.read = 0
    end = packs_of(_LARGE)[0].packed(0, pa.table({"at": [10**6 + 30 * _ROWS], "n": [-1]}, schema=_NUMBERS).to_batches())
    (out,) = query.take(list(end)).values()
    times = [row["at"] for row in out]
    assert len(times) > 20 * _ROWS
    assert all(before <= after for before, after in pairwise(times))
    assert query.store.read < 1.2 * 24 * len(times)
    assert query.largest <= 65_536


def test_many_rows_of_one_time_come_in_the_order_in_which_they_arrived() -> None:
    """And block after block: they are never all in memory."""
    query = _Query(_LARGE, 200_000)
    (pack, *_) = packs_of(_LARGE)
    for number in range(10):
        rows = pa.table({"at": [5] * _ROWS, "n": range(number * _ROWS, (number + 1) * _ROWS)}, schema=_NUMBERS)
        query.take(list(pack.packed(0, rows.to_batches())))
    assert query.metrics["spilled"] == 10 * _ROWS
    segment_cache._resident.clear()
    gc.collect()
    before = pa.total_allocated_bytes()
    most = 0
    out: list[int] = []
    for frame in query.host.handleInputRows((_KEY,), iter([pd.DataFrame([_FLUSH])]), None):  # type: ignore[arg-type]
        most = max(most, pa.total_allocated_bytes() - before)
        for row in frame.itertuples(index=False):
            if row.body is not None:
                out += from_buffer(row.body).column("n").to_pylist()
    assert out == list(range(10 * _ROWS))
    assert most < 24 * 10 * _ROWS


def test_memory_may_be_another_one_after_a_restart() -> None:
    """More, or less: what is spilled stays so, and the rest is spilled or not."""
    stored: _Store | None = None
    for number, memory in enumerate([_UNLIMITED, 1, _UNLIMITED, 400]):
        query = _Query(_LARGE, memory, stored)
        query.take(_large(number, 100, wild=True))
        assert query.metrics["held"] == (number + 1) * 100
        assert query.metrics["spilled"] == [0, 200, 200, 400][number]
        segment_cache._resident.clear()
        stored = query.store
    assert stored is not None
    (out,) = _Query(_LARGE, 1, stored).take([_FLUSH]).values()
    assert sorted(row["n"] for row in out) == list(range(400))
