"""Replicas in one stream on Spark: all shards know all of them, and together they give what one process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import drive_by_column
import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, cut, in_process, in_shards, packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.events.elements import Insert
from slackwater.operators.replicas.by_column_state import ByColumnState
from slackwater.operators.replicas.left_out import NONE_LEFT_OUT
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.idle_sources import IdleTimeout
from slackwater.runners.spark.shard.shard import Shard
from slackwater.testing.by_column_cases import in_order_of_arrival, interleaved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "x": pa.float64(), "replica": pa.string()})
_PATIENCE = 6
_NAMES = ("blue", None, "green")
_BATCH = sw.Every.batch()

_Streams = list[sw.DisorderedStream]


def _merged(streams: _Streams) -> list[sw.OrderedStream]:
    return [streams[0].merge_replicas("replica", _PATIENCE, every=_BATCH)]


def _counted(streams: _Streams) -> list[Any]:
    return [_merged(streams)[0].tumbling(5).group_by("k").aggregate(n=sw.count(), most=sw.max("x"))]


def _joined(streams: _Streams) -> list[Any]:
    ordered = streams[1].sort(_PATIENCE, every=_BATCH).select("k", other="x")
    return [_merged(streams)[0].join(ordered, on="k", within=3)]


def _of_merges(streams: _Streams) -> list[Any]:
    return [sw.merge_replicas(*(_merged([stream])[0] for stream in streams))]


# ---- in shards, without Spark ---------------------------------------------------------------------------------------


def _consistent(rng: Random, rows: int, cuts: int, *, appearing: bool) -> list[pa.Table]:
    """Cuts of three replicas of one table; two may appear after the first cut, without what they had sent before."""
    events = [
        Insert((rng.choice(["a", "b", "", None]), rng.choice([0.0, -0.0, 1.5, float("nan"), None])), rng.randint(0, 40))
        for _ in range(rows)
    ]
    replicas: list[list[Any]] = []
    for name in _NAMES:
        arrived: Any = [(event.payload, event.start) for event in in_order_of_arrival(events, _PATIENCE, rng)]
        replicas.append([{"at": at, "k": k, "x": x, "replica": name} for (k, x), at in arrived])
    first: list[Any] = []
    if appearing and rows:
        alone = rng.randint(1, rows)
        first, replicas[0] = replicas[0][:alone], replicas[0][alone:]
        replicas[1:] = [replica[rng.randint(0, rows) :] for replica in replicas[1:]]
    later = pa.Table.from_pylist(interleaved(replicas, rng), _SCHEMA)
    return [pa.Table.from_pylist(first, _SCHEMA), *cut(later, rng, cuts)]


def _any_rows(rng: Random, rows: int) -> pa.Table:
    """Rows of replicas that agree on little; many are late."""
    return pa.Table.from_pylist(
        [
            {"at": max(0, at - rng.choice([0, 0, 3, 9, 20])), "k": rng.choice("ab"), "replica": rng.choice(_NAMES)}
            for at in range(rows)
        ],
        _SCHEMA,
    )


def _so_far(rounds: Iterable[dict[str, list[Any]]]) -> Iterator[Counter[str]]:
    """All rows that have come out after each round, with their outputs; both zeros are one."""
    given: Counter[str] = Counter()
    for outputs in rounds:
        given.update(f"{output}: {row}".replace("-0.0", "0.0") for output, rows in outputs.items() for row in rows)
        yield Counter(given)


_PLANS = {
    "events": (_merged, 1),
    "counts": (_counted, 1),
    "a join": (_joined, 2),
    "replicas of merges": (_of_merges, 2),
}


@pytest.mark.parametrize("name", _PLANS)
@given(
    seed=st.integers(0, 10**6),
    shards=st.sampled_from([1, 3, 8]),
    cuts=st.integers(1, 5),
    store=st.booleans(),
    appearing=st.booleans(),
)
def test_shards_together_give_what_one_process_gives(
    name: str, shards: int, seed: int, cuts: int, store: bool, appearing: bool
) -> None:
    """After every micro-batch the same late rows; after the last flush the same events.

    In between a shard may be ahead: what is complete waits for the last event before it, which another shard may have.
    """
    planned, sources = _PLANS[name]
    rng = Random(seed)
    first = _consistent(rng, rng.randint(0, 30), cuts, appearing=appearing)
    turns = [first, first if name == "replicas of merges" else cut(_any_rows(rng, 20), rng, cuts + 1)][:sources]
    plan = shard_plan(planned, [_SCHEMA] * sources, shards)
    got = list(_so_far(in_shards(plan, turns, Random(seed), store=store)))
    expected = list(_so_far(in_process(planned, turns)))
    assert got[-1] == expected[-1]
    for ours, theirs in zip(got, expected, strict=True):
        assert ours >= theirs
        assert _late(ours) == _late(theirs)


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 6), store=st.booleans())
def test_shards_find_the_late_rows_of_one_process_whatever_replicas_send(
    seed: int, shards: int, cuts: int, store: bool
) -> None:
    """The same rows are late, by the same bounds, after every micro-batch."""
    rng = Random(seed)
    turns = [cut(_any_rows(rng, 60), rng, cuts)]
    plan = shard_plan(_merged, [_SCHEMA], shards)
    got = _so_far(in_shards(plan, turns, Random(seed), store=store))
    for ours, theirs in zip(got, _so_far(in_process(_merged, turns)), strict=True):
        assert _late(ours) == _late(theirs)


@given(
    seed=st.integers(0, 10**6),
    shards=st.sampled_from([1, 3, 8]),
    overlap=st.integers(-3, 30),
    cuts=st.integers(1, 8),
    store=st.booleans(),
)
def test_in_shards_a_replica_takes_over_whatever_the_cuts(
    seed: int, shards: int, overlap: int, cuts: int, store: bool
) -> None:
    """All that anybody has sent goes out, while the query runs: up to two patiences behind the one that goes on."""
    rng, dies, ends = Random(seed), 40, 70
    rows = [{"at": at, "k": "abc"[at % 3], "x": None, "replica": "blue"} for at in range(dies + 1)]
    both = [{**row, "replica": "green"} for row in rows[dies + 1 - max(overlap, 0) :]]
    alone = [{"at": at, "k": "abc"[at % 3], "x": None, "replica": "green"} for at in range(dies + 1, ends + 1)]
    before = interleaved([rows[dies - overlap :], both], rng) if overlap > 0 else []
    first = pa.Table.from_pylist([*(rows[: dies - overlap] if overlap > 0 else rows), *before], _SCHEMA)
    turns = [[*cut(first, rng, cuts), *cut(pa.Table.from_pylist(alone, _SCHEMA), rng, cuts)]]
    plan = shard_plan(_merged, [_SCHEMA], shards)
    got = list(_so_far(in_shards(plan, turns, Random(seed), store=store)))
    in_one = list(_so_far(in_process(_merged, turns)))
    assert got[-1] == in_one[-1]
    assert set(got[-1].values()) == {1}
    assert len(got[-1]) == ends + 1
    for seen in (got[-2], in_one[-2]):
        assert len(seen) > ends - 2 * _PATIENCE


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 6), store=st.booleans())
def test_shards_divert_the_rows_that_they_count_as_left_out(seed: int, shards: int, cuts: int, store: bool) -> None:
    """Every row in is out, late, a duplicate, or diverted with its reason; stored and read in between or not."""
    rng = Random(seed)
    stream = sw.stream(sw.PushSource(_SCHEMA), time="at")
    merged = stream.merge_replicas("replica", _PATIENCE, every=_BATCH, left_out=sw.LeftOutRows.divert())
    outputs = {"main": merged.node, "late": merged.late.node, "left out": merged.left_out.node}
    plan = ShardPlan.of(outputs, shards)
    assert plan.shards == shards
    rows = _any_rows(rng, 80)
    made = {key: Shard(plan) for key in shard_keys(plan.shards)}
    segments = {key: Segments() for key in made}
    given: dict[str, list[Any]] = {output: [] for output in outputs}

    def take(released: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        for output, batch in released:
            given[output] += batch.to_pylist()

    for piece in cut(rows, rng, cuts):
        arrivals = {key: Arrivals() for key in made}
        for packed in packed_by_tasks(plan, [piece], rng):
            arrivals[packed.shard].add(packed)
        for key, shard in made.items():
            take(shard.on_micro_batch(arrivals[key]))
            if store:
                made[key] = Shard(plan, segments[key].stored(shard))
    for shard in made.values():
        take(shard.flush())
    left_out = sum((shard.left_out() for shard in made.values()), NONE_LEFT_OUT)
    reasons = Counter(row["left_out"] for row in given["left out"])
    assert reasons == Counter({"contradicted": left_out.contradicted, "passed over": left_out.passed_over})
    assert rows.num_rows == left_out.duplicates + sum(map(len, given.values()))
    sent = Counter(str(row) for row in rows.to_pylist())
    assert Counter(str({name: row[name] for name in _SCHEMA.names}) for row in given["left out"]) <= sent


def test_shards_count_replicas_that_wait_and_that_took_over() -> None:
    """All of them the same, also those that have no row of a replica."""
    plan = shard_plan(_merged, [_SCHEMA], 3)
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    seen = []
    for name, times in (("blue", range(20)), ("green", range(15, 18)), ("green", range(18, 40))):
        rows = [{"at": at, "k": "a", "x": None, "replica": name} for at in times]
        arrivals = {key: Arrivals() for key in shards}
        for packed in packed_by_tasks(plan, [pa.Table.from_pylist(rows, _SCHEMA)], Random(0)):
            arrivals[packed.shard].add(packed)
        for key, shard in shards.items():
            for _ in shard.on_micro_batch(arrivals[key]):
                pass
        (same,) = {shard.replicas() for shard in shards.values()}
        seen.append(same)
    assert seen == [(1, 0, 0), (2, 1, 0), (2, 0, 1)]


def _late(rows: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if not row.startswith("main")})


@given(seed=st.integers(0, 10**6), cuts=st.integers(1, 5))
def test_all_shards_know_the_same_of_all_replicas(seed: int, cuts: int) -> None:
    """Also those of which they have no row: how far each has come, and from when on it has everything."""
    rng = Random(seed)
    plan = shard_plan(_merged, [_SCHEMA], 8)
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    for rows in cut(_any_rows(rng, 25), rng, cuts):
        arrivals = {key: Arrivals() for key in shards}
        for packed in packed_by_tasks(plan, [rows], rng):
            arrivals[packed.shard].add(packed)
        known = set()
        for key, shard in shards.items():
            for _ in shard.on_micro_batch(arrivals[key]):
                pass
            state = shard.snapshot()["merge_replicas#1"]
            assert isinstance(state, ByColumnState)
            complete_from = tuple(replica.complete_from for replica in state.merge.replicas)
            high_waters = tuple((one.high_water, one.punctuated_high_water) for one in state.punctuators)
            known.add((state.names, high_waters, complete_from, state.alone_from, state.gaps))
        assert len(known) == 1


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), cuts=st.integers(1, 4))
def test_rows_without_a_time_are_late_in_every_shard(seed: int, shards: int, cuts: int) -> None:
    """They are counted, and a replica that has sent no others has not appeared."""
    rng = Random(seed)
    rows: list[dict[str, Any]] = [
        {"at": None if rng.random() < 0.4 else 5 * at, "k": str(at), "replica": rng.choice(_NAMES)} for at in range(15)
    ]
    merged = _merged([sw.stream(sw.PushSource(_SCHEMA), time="at", untimed_is_late=True)])[0]
    outputs = {"main": merged.node, "late": merged.late.node}
    plan = ShardPlan.of(outputs, shards)
    made = {key: Shard(plan) for key in shard_keys(plan.shards)}
    late: list[Any] = []
    appeared = set()
    for piece in cut(pa.Table.from_pylist(rows, _SCHEMA), rng, cuts):
        arrivals = {key: Arrivals() for key in made}
        for packed in packed_by_tasks(plan, [piece], rng):
            arrivals[packed.shard].add(packed)
        for key, shard in made.items():
            late += [
                row["k"]
                for output, out in shard.on_micro_batch(arrivals[key])
                if output == "late"
                for row in out.to_pylist()
            ]
        appeared |= {row["replica"] for row in piece.to_pylist() if row["at"] is not None}
        assert {len(shard.snapshot()["merge_replicas#1"].names) for shard in made.values()} == {len(appeared)}
    assert sorted(late) == sorted(row["k"] for row in rows if row["at"] is None)
    assert sum(shard.late() for shard in made.values()) == len(late)


def test_rows_that_meet_are_in_one_shard_whichever_replica_they_are_from() -> None:
    """All columns but that of the replica decide, or fewer where a later step needs more rows together."""
    plan = shard_plan(_merged, [_SCHEMA], 8)
    assert plan.columns is not None
    assert list(plan.columns.values()) == [("at", "k", "x")]
    (pack,) = packs_of(plan)
    rows = [{"at": at, "k": "a", "x": 1.0, "replica": name} for name in ("blue", "green") for at in range(100)]
    shards: dict[int, Counter[int]] = {}
    for packed in pack.packed(0, pa.Table.from_pylist(rows, _SCHEMA).to_batches()):
        if packed.number >= 0:
            times = pa.ipc.open_stream(packed.body).read_all().column(0).to_pylist()
            shards.setdefault(packed.shard, Counter()).update(times)
    assert len(shards) == 8
    assert all(set(times.values()) == {2} for times in shards.values())
    by_key = shard_plan(_counted, [_SCHEMA], 8).columns
    assert by_key is not None
    assert list(by_key.values()) == [("k",)]


def test_plans_without_replicas_pack_nothing_about_them() -> None:
    """Their statistics are as small as they were."""
    plan = shard_plan(lambda s: [s[0].sort(_PATIENCE, every=_BATCH)], [_SCHEMA], 2)
    (pack,) = packs_of(plan)
    rows = _any_rows(Random(0), 9)
    assert [packed.body for packed in pack.packed(0, rows.to_batches()) if packed.number < 0] == [None]


def test_a_merge_is_stored_and_read_with_its_names() -> None:
    """Null, the empty word and others come back as different replicas."""
    plan = shard_plan(_merged, [_SCHEMA], 1)
    shard, arrivals = Shard(plan), Arrivals()
    rows = [{"at": at, "k": "a", "x": 1.0, "replica": name} for at, name in enumerate(["", None, "a"])]
    for packed in packed_by_tasks(plan, [pa.Table.from_pylist(rows, _SCHEMA)], Random(0)):
        arrivals.add(packed)
    for _ in shard.on_micro_batch(arrivals):
        pass
    state, read = shard.snapshot()["merge_replicas#1"], Segments().stored(shard)["merge_replicas#1"]
    assert len(set(state.names)) == 3
    assert (read.names, read.punctuators) == (state.names, state.punctuators)


def test_a_timeout_is_refused() -> None:
    """A replica that has died would go on punctuating by the clock."""
    with pytest.raises(PlanError, match="a dead replica would keep advancing"):
        IdleTimeout.in_plan(shard_plan(_merged, [_SCHEMA], 2), 1_000)


def test_on_spark_the_rows_of_a_micro_batch_are_simultaneous() -> None:
    """Another cadence is refused, unless nobody chose it."""
    with pytest.raises(PlanError, match="once for each micro-batch"):
        shard_plan(lambda s: [s[0].merge_replicas("replica", 5, every=sw.Every.rows(3))], [_SCHEMA], 2)
    shard_plan(lambda s: [s[0].merge_replicas("replica", 5)], [_SCHEMA], 2)


# ---- on Spark -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """What a file gives, events and late rows."""

    main: pa.Table
    late: pa.Table


def _given_in_process(tables: Sequence[pa.Table]) -> list[_Given]:
    """What each file gives in process."""
    source = sw.PushSource(drive_by_column.SCHEMA)
    main: list[pa.RecordBatch] = []
    late: list[pa.RecordBatch] = []
    merged = drive_by_column.merged(sw.stream(source, time="at"))
    query = merged.open(main.append, clock=sw.ManualClock(), on_late=late.append)
    found = []
    for table in tables:
        source.push(table.combine_chunks())
        query.work()
        late_table = pa.Table.from_batches(late, merged.late.schema)
        found.append(_Given(pa.Table.from_batches(main, merged.schema), late_table))
        main.clear()
        late.clear()
    return found


def _assert_written(folder: Path, expected: list[_Given]) -> None:
    """Each micro-batch has written what its file gives: nothing is lost, nothing doubled."""
    assert all(one.late.num_rows for one in expected[1:]), "an example without late rows shows little"
    assert all(one.main.num_rows for one in expected), "nobody waits for those that have died"
    for output in ("main", "late"):
        folders = {f"batch_id={number}" for number in range(len(expected))}
        assert {path.name for path in (folder / output).iterdir()} == {*folders, "_slackwater"}
        for number, one in enumerate(expected):
            like: pa.Table = getattr(one, output)
            found = _read(folder / output / f"batch_id={number}", like)
            assert _as_counter(found) == _as_counter(like), (number, output)


def _read(folder: Path, like: pa.Table) -> pa.Table:
    """The rows of a folder, in the types of the table that they are compared with: Parquet has not all of them."""
    parts = [pq.read_table(file, partitioning=None) for file in folder.glob("*.parquet")]
    return pa.concat_tables(parts).select(like.column_names).cast(like.schema) if parts else like.slice(0, 0)


def _as_counter(rows: pa.Table) -> Counter[str]:
    return Counter(map(str, rows.to_pylist()))


def _assert_all_events(sent: pa.Table) -> None:
    """Each event once; those apart that are late in a stream: where all rows come at once they are not."""
    assert sent.column_names == ["at", "k"]
    times = [row["at"].microsecond for row in sent.to_pylist() if row["k"] != "late"]
    assert sorted(times) == list(range(0, 1_500, 10))


def test_a_query_gives_what_one_process_gives_while_replicas_come_and_go(session: SparkSession, tmp_path: Path) -> None:
    """The third file has a new replica, after two the second is dead, after four the first; stopped in between."""
    tables = drive_by_column.files(seed=5)
    drive_by_column.write(tmp_path / "in", tables[:3])
    drive_by_column.run(session, tmp_path)
    drive_by_column.write(tmp_path / "in", tables[3:], first=3)
    drive_by_column.run(session, tmp_path)
    _assert_written(tmp_path, _given_in_process(tables))


def test_a_frame_that_ends_gives_every_event_once(session: SparkSession, tmp_path: Path) -> None:
    """Though all replicas come at once, and the one that has come furthest lacks the first half."""
    drive_by_column.write(tmp_path / "in", drive_by_column.files(seed=5))
    _assert_all_events(drive_by_column.of_frame_that_ends(session, tmp_path).toArrow())


def test_a_query_writes_what_its_merge_leaves_out(session: SparkSession, tmp_path: Path) -> None:
    """Two replicas that share every tenth row, by column and as streams of their own: all are there, and it warns."""
    sent = [(at, "blue") for at in range(3_000) if at % 10 == 0 or at % 2]
    sent += [(at, "green") for at in range(3_000) if at % 2 == 0]
    rows = [{"at": datetime.fromtimestamp(at, UTC), "k": f"{at}", "replica": who} for at, who in sent]
    drive_by_column.write(tmp_path / "in", [pa.Table.from_pylist(rows, drive_by_column.SCHEMA)])
    columns = "at timestamp, k string, replica string"
    frame = session.readStream.schema(columns).parquet(str(tmp_path / "in"))
    stream, divert, drop = sw.stream(frame, time="at"), sw.LeftOutRows.divert(), sw.Late.drop()
    apart = [stream.where(nw.col("replica") == who).select("k").sort("10s", late=drop) for who in ("blue", "green")]
    merges = {"column": stream.merge_replicas("replica", "10s", late=drop, left_out=divert)}
    merges["streams"] = sw.merge_replicas(*apart, left_out=divert)
    for name, merged in merges.items():
        folder = tmp_path / name
        query = merged.start(
            checkpoint=str(folder / "checkpoint"),
            main=str(folder / "main"),
            left_out=str(folder / "left_out"),
            trigger={"availableNow": True},
            at_end="flush",
        )
        query.wait()
        main, left_out = (_all_rows(folder / output) for output in ("main", "left_out"))
        progress = query.last_micro_batch()
        assert len(left_out) == progress["contradicted_total"] + progress["passed_over_total"] > 0, name
        assert len(sent) == len(main) + len(left_out) + progress["duplicates_total"]
        assert "hardly share any rows" in progress["warning"]


def _all_rows(folder: Path) -> list[Any]:
    return [row for file in folder.rglob("*.parquet") for row in pq.read_table(file, partitioning=None).to_pylist()]


@pytest.mark.long
def test_over_connect_it_is_the_same(tmp_path: Path, surroundings: Any) -> None:
    """A query and a frame that ends, in a process of their own."""
    tables = drive_by_column.files(seed=6)
    drive_by_column.write(tmp_path / "in", tables)
    command = [sys.executable, str(Path(drive_by_column.__file__)), str(tmp_path)]
    environment = {**os.environ, **surroundings(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    _assert_written(tmp_path, _given_in_process(tables))
    _assert_all_events(pq.read_table(tmp_path / "batch.parquet"))
