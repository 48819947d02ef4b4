"""top_rows() in shards: what one process gives, row for row, in the same order."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from without_spark import cut, in_process, in_shards, shard_plan

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "who": pa.string(), "v": pa.int64()})


def _planned(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    in_windows = streams[0].tumbling(10).sort(patience=5, every=sw.Every.batch(), late=sw.Late.drop())
    return [in_windows.top_rows(3, by="v")]


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), store=st.booleans())
def test_shards_rank_rows_as_one_process_does(seed: int, shards: int, store: bool) -> None:
    """A window needs all its rows, so there is one shard; a restart changes nothing."""
    rng = Random(seed)
    times = sorted((rng.randrange(60) for _ in range(80)), key=lambda at: at + rng.randrange(5))
    columns = [times, [rng.choice("abc") for _ in times], [rng.randrange(4) for _ in times]]
    cuts = [cut(pa.table(columns, schema=_SCHEMA), rng, 3)]
    plan = shard_plan(_planned, [_SCHEMA], shards)
    assert plan.shards == 1
    assert list(in_shards(plan, cuts, rng, store=store)) == list(in_process(_planned, cuts))
