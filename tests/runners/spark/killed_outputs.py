"""What a query that was killed has written, what it should have written, and whether that is the same."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_postgresql import dbapi
from deltalake import DeltaTable
from drive_kills import SHARDS, table_of
from killed_rows import SCHEMA
from what_was_read import logged
from without_spark import in_process, in_shards, packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.idle_sources import as_timeout
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from killed_plans import Plan
    from without_spark import Round

Rows: TypeAlias = "list[dict[str, Any]]"

ALL = None
"""In the place of a micro-batch's number, where a table does not say which rows are whose."""


# ---- written ---------------------------------------------------------------------------------------------------------


def written(folder: Path, place: str, kind: str, server: str) -> dict[int | None, Rows]:
    """The rows of an output, by micro-batch if it can be known."""
    match kind:
        case "delta":
            return {ALL: DeltaTable(folder / place).to_pyarrow_table().to_pylist()}
        case "postgres":
            with dbapi.connect(server) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table_of(folder, place)}")
                names = [column[0] for column in cursor.description]
                return {ALL: [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]}
        case "function":
            files = (folder / place).glob("[0-9]*.json")
            return {int(file.stem): json.loads(file.read_text()) for file in files}
    found: dict[int | None, Rows] = {}
    for file in (folder / place).glob("batch_id=*/*.parquet"):
        number = int(file.parent.name.partition("=")[2])
        found.setdefault(number, []).extend(pq.read_table(file, partitioning=None).to_pylist())
    return found


# ---- expected --------------------------------------------------------------------------------------------------------


def expected(plan: Plan, folder: Path, tables: Sequence[Sequence[pa.Table]]) -> list[dict[str, Rows]]:
    """What each micro-batch gives, by place: of the rows that it read, as Spark's log has it."""
    log = logged(folder / "checkpoint", plan.sources)
    turns = [
        [_together(of_source, numbers) for of_source, numbers in zip(tables, one.tables, strict=True)] for one in log
    ]
    for number, of_source in enumerate(tables):
        assert sorted(table for one in log for table in one.tables[number]) == list(range(len(of_source)))
    if plan.timed:
        return [_by_place(plan, given) for given in _with_timers(plan, turns, [one.now for one in log])]
    if plan.flushed:
        assert not any(log[-1].tables)
        turns.pop()
    cuts = list(zip(*turns, strict=True))
    if plan.by_shards:
        by_hand = shard_plan(plan.planned, [SCHEMA] * len(plan.sources), SHARDS)
        rounds = in_shards(by_hand, cuts, Random(1), store=False)
    else:
        rounds = in_process(plan.planned, cuts, **plan.columns)
    return [_by_place(plan, given) for given, _ in zip(rounds, log, strict=False)]


def _together(tables: Sequence[pa.Table], numbers: Sequence[int]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *(tables[number] for number in numbers)])


def _by_place(plan: Plan, given: Round) -> dict[str, Rows]:
    main = [row for output, rows in given.items() if output.startswith("main") for row in rows]
    left_out = [row for output, rows in given.items() if output.startswith("left out") for row in rows]
    late = [rows for output, rows in given.items() if not output.startswith(("main", "left out"))]
    places = [place for place in plan.outputs if place.startswith("late")]
    by_place = {"main": main, **dict(zip(places, late, strict=True)), "left out": left_out}
    return {place: by_place[place] for place in plan.outputs}


def _with_timers(plan: Plan, turns: Sequence[Sequence[pa.Table]], instants: Sequence[int]) -> Iterator[Round]:
    """One shard, fed by hand, that is woken as Spark wakes it: without rows, by timers that are due."""
    by_hand = shard_plan(plan.planned, [SCHEMA] * len(plan.sources), 1)
    shard, random, due = Shard(by_hand, timeout=as_timeout(plan.options["timeout"])), Random(1), None
    for turn, now in zip(turns, instants, strict=True):
        given: Round = {output: [] for output in by_hand.outputs}
        packed = packed_by_tasks(by_hand, turn, random) if any(table.num_rows for table in turn) else []
        released: Any = ()
        if packed:
            arrivals = Arrivals()
            for row in packed:
                arrivals.add(row)
            released = shard.on_micro_batch(arrivals, now)
        elif due is not None and due <= now:
            released = shard.on_timer(due)
        for output, rows in released:
            given[output] += rows.to_pylist()
        if packed or (due is not None and due <= now):
            due = None if shard.look_again_at is None else -(-shard.look_again_at // 1_000) * 1_000
        yield given


# ---- compared --------------------------------------------------------------------------------------------------------


def assert_nothing_lost_or_doubled(plan: Plan, folder: Path, tables: Sequence[Sequence[pa.Table]], server: str) -> int:
    """Compare every output, and each of its micro-batches where they are apart; return how many rows there are."""
    wanted, compared = expected(plan, folder, tables), 0
    for place, kind in plan.outputs.items():
        found = written(folder, place, kind, server)
        of_all = [row for given in wanted for row in given[place]]
        rows = [row for given in found.values() for row in given]
        if place == "main" and any(isinstance(stream, sw.RevisedStream) for stream in _streams(plan)):
            _assert_changes_come_to_the_same(plan, rows, of_all)
        else:
            assert _counted(rows) == _counted(of_all), place
            for number, given in enumerate(wanted):
                if ALL not in found:
                    assert _counted(found.get(number, [])) == _counted(given[place]), (place, number)
        assert set(found) <= {ALL, *range(len(wanted))}
        compared += len(rows)
    return compared


def _counted(rows: Rows) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def _streams(plan: Plan) -> Sequence[Any]:
    return plan.planned([sw.stream(SCHEMA.empty_table(), time="at", **plan.columns) for _ in plan.sources])


def _assert_changes_come_to_the_same(plan: Plan, found: Rows, wanted: Rows) -> None:
    """How often answers are revised depends on shards, which number what they give out: no row comes twice."""
    (stream,) = _streams(plan)
    assert set(_counted(found).values()) == {1}
    assert _counted(_settled(stream, found)) == _counted(_settled(stream, wanted))


def _settled(stream: Any, rows: Rows) -> Rows:
    """The answers that changes come to; in process they are in order, and have no numbers."""
    events = stream.node.schema
    schema = pa.schema([*stream.schema, pa.field("sequence", pa.int64())])
    numbered = [{"sequence": number, **row} for number, row in enumerate(rows)]
    log = pa.Table.from_pylist(sorted(numbered, key=lambda row: row["sequence"]), schema)
    until = None if events.until is None else events.until.name
    changes = sw.changes(log, time=events.time.name, until=until, sequence="sequence", punctuated=False)
    return changes.settle().run().table.to_pylist()


def assert_counters_add_up(
    plan: Plan,
    folder: Path,
    tables: Sequence[Sequence[pa.Table]],
    wanted: Sequence[dict[str, Rows]],
    counters: dict[str, Any] | None,
) -> None:
    """The metrics of all micro-batches, and what the last of them says in all."""
    totals = {
        "rows_in": sum(table.num_rows for of_source in tables for table in of_source),
        "late": sum(len(rows) for given in wanted for place, rows in given.items() if place.startswith("late")),
    }
    if "left out" in plan.outputs:
        totals["left_out"] = sum(len(given["left out"]) for given in wanted)
    metrics = [json.loads(file.read_text()) for file in sorted((folder / "metrics").glob("[0-9]*.json"), key=_number)]
    assert all(len({row["shard"] for row in rows}) == len(rows) <= SHARDS for rows in metrics)
    last = {row["shard"]: row for rows in metrics for row in rows}
    for name in ("rows_in", "rows_out", "late", "duplicates"):
        added = sum(row[name] for rows in metrics for row in rows)
        assert added == sum(row[f"{name}_total"] for row in last.values()) == totals.get(name, added), name
        assert counters is None or counters[name] == added, name
    if "left_out" in totals:
        names = ("contradicted", "passed_over")
        assert totals["left_out"] == sum(row[f"{name}_total"] for row in last.values() for name in names)


def _number(file: Path) -> int:
    return int(file.stem)
