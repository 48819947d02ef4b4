"""Streams that hardly share any rows are probably no replicas: the merge says so, with the counts and a way out."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators.replicas import overlap
from slackwater.operators.replicas.overlap import LEAST_COMPARED, Overlap, OverlapSample

_ROWS = pa.schema({"at": pa.int64(), "x": pa.int64()})
_KINDS = ["R0", "R1", "R2", "R3", "R4"]


def _replica(kind: str, rows: list[int]) -> Any:
    """A stream of rows at these times, as the case of the merge needs it."""
    table = pa.table({"at": pa.array(rows, pa.int64()), "x": pa.array(rows, pa.int64())})
    stream = sw.stream(table, time="at")
    match kind:
        case "R0" | "R3":
            return stream.assume_ordered(strictly=True)
        case "R2":
            return stream.assume_ordered().tumbling(1).group_by("x").aggregate(n=sw.count())
    return stream.sort(patience=50) if kind == "R4" else stream.assume_ordered()


def _merged(kind: str, streams: list[list[int]]) -> Any:
    replicas = [_replica(kind, rows) for rows in streams]
    return sw.merge_replicas(*replicas, same_tie_order=kind == "R1", attachable=kind in {"R3", "R4"})


def _heard(share: float, seed: int = 0, rows: int = 12_000, replicas: int = 3) -> list[list[int]]:
    """Rows that each of some replicas has with this probability."""
    rng = Random(seed)
    return [[at for at in range(rows) if rng.random() < share] for _ in range(replicas)]


def _warned(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("kind", _KINDS)
def test_streams_that_share_few_rows_are_named_once(kind: str) -> None:
    """Whatever the merge remembers; each has a fifth of the rows."""
    assert f"case {kind}" in _merged(kind, [[1], [1]]).explain()
    (warned,) = _warned(lambda: _merged(kind, _heard(0.2)).run())
    assert warned.startswith("merge_replicas#1 merges streams that hardly share any rows")
    assert "sw.union(a, b).deduplicate(on=..., within=...)" in warned
    assert "LeftOutRows.divert()" in warned


@pytest.mark.parametrize("kind", _KINDS)
def test_replicas_with_gaps_are_not_named(kind: str) -> None:
    """Each lacks a tenth of the rows, or nothing: `error` is what the tests make of any warning."""
    for share in (0.9, 1.0):
        _merged(kind, _heard(share)).run()


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_replicas_in_a_column_are_named_likewise(share: float) -> None:
    """All rows of all replicas in order of time; the hint can be followed, and then nothing is missing."""
    rows = [{"at": at, "x": at, "who": who} for who, times in enumerate(_heard(share)) for at in times]
    rows.sort(key=lambda row: row["at"])
    stream = sw.stream(pa.Table.from_pylist(rows), time="at")
    warned = _warned(lambda: stream.merge_replicas("who", patience=20).run())
    assert len(warned) == (share < 0.5)
    if warned:
        assert "stream.deduplicate(on=..., within=..., patience=...)" in warned[0]
        once = stream.deduplicate(on="x", within=0, patience=20).run()
        assert once.table["at"].to_pylist() == sorted({row["at"] for row in rows})


def test_the_hint_for_streams_can_be_followed() -> None:
    """Every row of every stream, once."""
    heard = _heard(0.2, rows=3_000)
    united = sw.union(*(_replica("R1", rows) for rows in heard)).deduplicate(on="x", within=0)
    assert united.run().table["x"].to_pylist() == sorted({at for rows in heard for at in rows})


def test_few_rows_say_nothing() -> None:
    """Two replicas that share nothing at all."""
    half = LEAST_COMPARED // 4
    _merged("R4", [list(range(0, half, 2)), list(range(1, half, 2))]).run()


def test_one_replica_that_goes_on_for_another_is_none_of_these() -> None:
    """They share what both were there for; what only one was there for is not compared."""
    _merged("R4", [list(range(8_000)), list(range(6_000, 14_000))]).run()
    rows = [{"at": at, "who": who} for who, times in enumerate([range(8_000), range(6_000, 14_000)]) for at in times]
    rows.sort(key=lambda row: row["at"])
    sw.stream(pa.Table.from_pylist(rows), time="at").merge_replicas("who", patience=20).run()


def test_it_is_emitted_while_the_query_runs() -> None:
    """And once only."""
    sources = [sw.PushSource(_ROWS, name=name) for name in ("blue", "green")]
    streams = [sw.stream(source, time="at").sort(patience=5, late=sw.Late.drop()) for source in sources]
    query = sw.merge_replicas(*streams).open(lambda _: None)
    warned = []
    for first in range(0, 8_000, 1_000):
        for own, source in enumerate(sources):
            source.push(pa.table({"at": range(first + own, first + 1_000, 2), "x": range(500)}))
        warned += _warned(query.work)
    assert len(warned) == 1
    query.close()


@given(data=st.data(), seed=st.integers(0, 10**6))
def test_a_sample_counts_what_a_set_of_all_that_went_out_would(data: st.DataObject, seed: int) -> None:
    """Of few rows each is compared; no row counts as one that others lack if something went out at its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_WORTH_LOOKING", 1)
        _compare_a_sample_with_a_set(Random(seed), data.draw(st.integers(1, 8)))


def _compare_a_sample_with_a_set(rng: Random, rounds: int) -> None:
    sample = OverlapSample()
    emitted: set[int] = set()
    expected, complete = Overlap(), 0
    for _ in range(rounds):
        passed = [rng.randint(0, complete + 5) for _ in range(rng.randint(0, 10))]
        known = [at for at in passed if emitted and min(emitted) <= at < complete]
        shared = sum(at in emitted for at in known)
        expected += Overlap(shared, len(known) - shared)
        sample.compare(np.array(passed, dtype=np.int64), complete)
        step = rng.randint(1, 9)
        now = [at for at in range(complete, complete + step) if rng.random() < 0.5]
        rng.shuffle(now)
        sample.remember(np.array(now, dtype=np.int64))
        emitted.update(now)
        complete += step
        assert sample.found == expected


def test_a_sample_forgets_what_is_long_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not take rows of that time for such that others lack."""
    monkeypatch.setattr(overlap, "_WORTH_LOOKING", 1)
    sample = OverlapSample()
    for first in range(0, 500_000, 1_000):
        sample.remember(np.arange(first, first + 1_000))
    sample.compare(np.arange(-100, 430_000, 1_000), before=500_000)
    assert sample.found == Overlap()
    sample.compare(np.arange(499_000, 499_060), before=500_000)
    assert sample.found == Overlap(shared=60)
    sample.remember(np.random.default_rng(0).permutation(np.arange(500_000, 600_000)))
    sample.compare(np.array([520_000, 590_000, 599_999, 700_000]), before=600_000)
    assert sample.found == Overlap(shared=62)


@pytest.mark.parametrize("word", ["shared", "only some"])
def test_the_counts_are_in_the_warning(word: str) -> None:
    """As facts."""
    assert word in Overlap(10, 2_000).warning("merge_replicas#1")


def test_revised_replicas_are_compared_by_what_is_held() -> None:
    """Nothing is sampled of them."""
    merged = [_replica("R1", rows).where(nw.col("x") >= 0) for rows in _heard(0.9, rows=100)]
    assert isinstance(sw.merge_replicas(*merged, agreement=sw.Agreement.first(), attachable=True), sw.RevisedStream)
