"""Shards that become more or fewer between two micro-batches: together they give what one process gives."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from without_spark import cut, in_process, in_shards, shard_plan

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.shard.resharding import refuse_unless_divisible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "x": pa.float64(), "n": pa.int64()})
_BATCH = sw.Every.batch()
_Streams = list[sw.DisorderedStream]


def _sorted(stream: sw.DisorderedStream, patience: int = 6) -> sw.OrderedStream:
    return stream.sort(patience=patience, every=_BATCH)


def _counted(stream: Any, *keys: str, size: int = 5) -> Any:
    return stream.tumbling(size).group_by(*keys).aggregate(rows=sw.count(), least=sw.min("x"))


def _both(ordered: sw.OrderedStream) -> list[Any]:
    return [ordered.where(nw.col("n") > 0), _counted(ordered, "k")]


_SUMS: dict[str, Any] = {"m": sw.sum("x"), "different": sw.count_distinct("x"), "top": sw.top_k("n", 2)}

_PLANS: dict[str, Callable[[_Streams], Sequence[Any]]] = {
    "groups of rows in order": lambda s: [_counted(_sorted(s[0]), "k")],
    "groups of late windows": lambda s: [
        s[0].tumbling(5).sort(patience=6, every=_BATCH).group_by("x").aggregate(**_SUMS)
    ],
    "hopping windows": lambda s: [_sorted(s[0]).hopping(8, 4).group_by("k").aggregate(n=sw.sum("n"))],
    "windows with gaps": lambda s: [_sorted(s[0]).hopping(3, 5).group_by("k", "n").aggregate(rows=sw.count())],
    "fewer keys": lambda s: [
        _counted(_sorted(s[0]), "k", "n", size=4).tumbling(8).group_by("k").aggregate(rows=sw.sum("rows"))
    ],
    "a key of another name": lambda s: [_counted(_sorted(s[0]).select("x", key="k"), "key")],
    "rows and groups": lambda s: _both(_sorted(s[0])),
    "bands of counts": lambda s: list(s[0].tumbling(5).group_by("k").in_bands(2, 6, 12, every=_BATCH, n=sw.count())),
    "bands of groups that were summed up": lambda s: list(
        s[0].tumbling(5).group_by("k", "n").in_bands(2, 6, every=_BATCH, late=sw.Late.drop(), **_SUMS)
    ),
    "each event once": lambda s: [s[0].deduplicate("k", within=9, patience=6, every=_BATCH)],
    "the last row of each event": lambda s: [
        s[0].deduplicate(["x", "k"], within=9, keep="last", patience=6, every=_BATCH)
    ],
    "each event of two sources once": lambda s: [
        _counted(sw.union(_sorted(s[0]), _sorted(s[1], 3)).deduplicate(["k", "n"], within=8), "k")
    ],
    "union": lambda s: [_counted(sw.union(_sorted(s[0]), _sorted(s[1], 3)), "k")],
    "what is left of a union": lambda s: [
        _counted(sw.union(_sorted(s[0]), _sorted(s[1], 3)).where(nw.col("n") > 0), "k")
    ],
    "join": lambda s: [_sorted(s[0]).select("k", "n").join(_sorted(s[1]).select("k", other="n"), on="k", within=9)],
    "join while both last": lambda s: [
        _sorted(s[0]).sliding(4).select("k", "n").join(_sorted(s[1]).tumbling(5).select("k", other="n"), on="k")
    ],
    "followed_by": lambda s: [
        _sorted(s[0]).select("k", "n").followed_by(_sorted(s[1], 15).select("k", other="n"), on=["k"], within=9)
    ],
}


def _rows(rng: Random, rows: int) -> pa.Table:
    """Times that go back and tie, keys that are missing, zeros of both signs and NaNs."""
    at, made = 0, []
    for _ in range(rows):
        at += rng.choice([0, 0, 1, 2])
        time = max(0, at - rng.choice([0, 0, 0, 3, 9, 15]))
        k, x = rng.choice(["a", "b", "c", "d", "", None]), rng.choice([0.0, -0.0, 1.5, 2.5, float("nan"), None])
        made.append({"at": time, "k": k, "x": x, "n": rng.randint(-3, 3)})
    return pa.Table.from_pylist(made, _SCHEMA)


def _so_far(rounds: Iterable[dict[str, list[Any]]]) -> Iterator[Counter[str]]:
    """All rows that have come out after each round, with their outputs."""
    given: Counter[str] = Counter()
    for outputs in rounds:
        given.update(f"{output}: {row}" for output, rows in outputs.items() for row in rows)
        yield Counter(given)


_FOR_NIGHTS = {"windows with gaps", "rows and groups"}  # by day others have what is in them


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.long] * (one in _FOR_NIGHTS)) for one in _PLANS])
@FEWER
@given(seed=st.integers(0, 10**6), numbers=st.lists(st.sampled_from([1, 2, 3, 8]), min_size=3, max_size=4))
def test_nothing_is_lost_or_doubled_when_shards_become_others(name: str, seed: int, numbers: list[int]) -> None:
    """After every micro-batch, and the flush, the same rows and late rows as from one process, stored in between.

    Where a union is filtered a row that is left out may have stood for a punctuation: groups may come one batch later.
    """
    rng = Random(seed)
    first, *later = (shard_plan(_PLANS[name], [_SCHEMA] * 2, shards) for shards in numbers)
    tables = [_rows(rng, rng.randint(20, 90)) for _ in first.pipelines]
    turns = [cut(table, rng, len(numbers)) for table in tables]
    refuse_unless_divisible(first)
    *expected, whole = _so_far(in_process(_PLANS[name], turns))
    *got, flushed = _so_far(in_shards(first, turns, Random(seed), store=True, later=later))
    for ours, theirs in zip(got, expected, strict=True):
        assert ours <= whole if name == "what is left of a union" else ours == theirs
    assert flushed == whole


_NOT_YET: dict[str, Callable[[_Streams], Sequence[Any]]] = {
    "related": lambda s: [sw.union(*(one.sort() for one in sw.related(*s, bounds=sw.Bounds.in_order())))],
    "upserts": lambda s: [sw.upserts(s[0], key="k", patience=6, every=_BATCH).settle()],
    "aggregate_early": lambda s: [_sorted(s[0]).tumbling(5).group_by("k").aggregate_early(rows=sw.count())],
    "merge_replicas": lambda s: [sw.merge_replicas(*map(_sorted, s))],
}


@pytest.mark.filterwarnings("ignore:when all is silent")
@pytest.mark.parametrize("step", _NOT_YET)
def test_a_step_that_cannot_be_parted_yet_is_named(step: str) -> None:
    """Related streams build upon heartbeats, which can be parted; what they add to it cannot."""
    with pytest.raises(PlanError, match=rf"(?s)cannot be taken to another number of shards.*step .*\b{step}"):
        refuse_unless_divisible(shard_plan(_NOT_YET[step], [_SCHEMA] * 2, 2))
