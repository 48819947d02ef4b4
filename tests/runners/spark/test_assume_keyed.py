"""assume_keyed() of plain streams on Spark: the same rows as in process, over shards, and the same refusal."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import cut, in_process, in_shards, shard_plan

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.int64(), "x": pa.string()})
_ONCE = [(at, x) for at in range(40) for x in "abcd"[: 1 + at % 4]]


def _merged(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    keyed = [stream.sort(patience=6, every=sw.Every.batch(), late=sw.Late.drop()).assume_keyed() for stream in streams]
    return [sw.merge_replicas(*keyed)]


def _arrived(rng: Random, rows: Sequence[tuple[int, str]]) -> pa.Table:
    arrived = sorted(rows, key=lambda row: (row[0] + rng.randrange(5), rng.random()))
    return pa.table([[at for at, _ in arrived], [x for _, x in arrived]], schema=_SCHEMA)


def _rows(rounds: Sequence[Any]) -> list[tuple[int, str]]:
    return sorted((row["at"], row["x"]) for one in rounds for rows in one.values() for row in rows)


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), store=st.booleans())
def test_shards_merge_replicas_with_a_key_as_one_process_does(seed: int, shards: int, store: bool) -> None:
    """Rows of one time and payload meet in one shard, and what is known of them outlives a restart."""
    rng = Random(seed)
    cuts = [cut(_arrived(rng, _ONCE), rng, 3) for _ in range(2)]
    plan = shard_plan(_merged, [_SCHEMA] * 2, shards)
    assert plan.shards == shards
    assert _rows(list(in_shards(plan, cuts, rng, store=store))) == _ONCE == _rows(list(in_process(_merged, cuts)))


@given(seed=st.integers(0, 10**6), twice=st.sampled_from(_ONCE), store=st.booleans())
def test_shards_find_a_row_that_comes_twice(seed: int, twice: tuple[int, str], store: bool) -> None:
    """However far apart the two are, as long as their time is not complete."""
    rng = Random(seed)
    cuts = [cut(_arrived(rng, rows), rng, 3) for rows in (_ONCE, [*_ONCE, twice])]
    plan = shard_plan(_merged, [_SCHEMA] * 2, 3)
    with pytest.raises(sw.errors.SlackwaterError, match="got an event twice"):
        list(in_shards(plan, cuts, rng, store=store))


def test_frames_with_a_key_are_merged_on_spark(session: SparkSession, tmp_path: Path) -> None:
    """A real query: case R2 over several shards; a live frame without an order is refused, with the reason."""
    rng = Random(14)
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        pq.write_table(_arrived(rng, _ONCE), tmp_path / name / "0.parquet")
    frames = [session.readStream.schema("at long, x string").parquet(str(tmp_path / n)) for n in ("blue", "green")]
    with pytest.raises(sw.errors.NeedsOrder, match="live stream that has no punctuations"):
        sw.stream(frames[0], time="at").assume_keyed()
    (merged,) = _merged([sw.stream(frame, time="at") for frame in frames])
    assert "merge_replicas#1 of 2, case R2" in merged.explain()
    query = merged.start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=str(tmp_path / "main"),
        trigger={"availableNow": True},
        shards=3,
    )
    query.wait()
    complete = _ONCE[-1][0] - 6
    found = pq.read_table(tmp_path / "main").select(["at", "x"])
    assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == [
        row for row in _ONCE if row[0] < complete
    ]
