"""Delta tables as sinks: a micro-batch is there once and whole, whoever writes it and however often."""

from __future__ import annotations

import json
import os
import pickle
import runpy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as some
from owned_runs import NOBODY, begin, claimed, started
from pyspark import cloudpickle
from pyspark.sql import types as st

import slackwater as sw
from slackwater.errors import PlanError, RunError, Superseded
from slackwater.runners.spark.output.delta_files import ColumnStats, parts_of
from slackwater.runners.spark.output.delta_sink import DeltaSink, DeltaWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "small_query.py")))

_COLUMNS = st.StructType([st.StructField("n", st.LongType()), st.StructField("word", st.StringType())])


def _rows(*numbers: int, word: str | None = "tide") -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "word": pa.array([word] * len(numbers), pa.string())})


def _write(writer: DeltaWriter, batch_id: int, rows: pa.Table) -> None:
    assert writer.write_few([rows], _COLUMNS, NOBODY, batch_id)


def _numbers(table: Path | DeltaTable) -> list[int]:
    opened = table if isinstance(table, DeltaTable) else DeltaTable(table)
    return sorted(opened.to_pyarrow_table()["n"].to_pylist())


def _started(folder: Path, checkpoint: str = "checkpoint", **options: Any) -> DeltaWriter:
    """A start that writes to the table of a folder."""
    sink = sw.DeltaSink((folder / "table").as_uri(), **options)
    writer = started(sink, _COLUMNS, folder / checkpoint)
    assert isinstance(writer, DeltaWriter)
    return writer


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_a_number_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    """Neither in the same run nor in the next one, and whatever the rows are; the next number is written."""
    writer = _started(tmp_path)
    for _ in range(2):
        _write(writer, 0, _rows(1, 2))
    assert writer.has(NOBODY, 0)
    assert not writer.has(NOBODY, 1)
    begin(tmp_path / "checkpoint", 0)
    again = _started(tmp_path)
    _write(again, 0, _rows(1, 2))
    _write(again, 1, _rows(3))
    assert _numbers(tmp_path / "table") == [1, 2, 3]


def test_a_writer_that_travels_writes_the_same(tmp_path: Path) -> None:
    """Over Spark Connect micro-batches are written by another process."""
    dumps: Any = cloudpickle.dumps
    writer = pickle.loads(dumps(_started(tmp_path)))  # noqa: S301 - our own
    _write(writer, 0, _rows(1))
    assert _numbers(tmp_path / "table") == [1]


def test_every_version_has_whole_micro_batches(tmp_path: Path) -> None:
    """One without rows leaves no version."""
    writer = _started(tmp_path)
    for batch_id, numbers in enumerate([(1, 2), (), (3,), (4, 5, 6)]):
        _write(writer, batch_id, _rows(*numbers))
    newest = DeltaTable(tmp_path / "table").version()
    versions = [_numbers(DeltaTable(tmp_path / "table", version=version)) for version in range(newest + 1)]
    assert versions == [[], [], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6]]


def test_of_two_drivers_in_one_micro_batch_one_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have found that the table lacks it; the second to commit is refused by the table, and finds it there."""
    writer, commits = _started(tmp_path), []
    asked = DeltaWriter._has

    def asked_too_soon(self: DeltaWriter, found: Any, batch_id: int) -> bool:
        answer = asked(self, found, batch_id)
        commits.append(answer)
        if len(commits) == 1:
            mine = CommitProperties(app_transactions=[Transaction(self.table.app, batch_id)])
            write_deltalake(tmp_path / "table", _rows(1, 2), mode="append", commit_properties=mine)
        return answer

    monkeypatch.setattr(DeltaWriter, "_has", asked_too_soon)
    _write(writer, 0, _rows(1, 2))
    assert commits == [False, True]
    assert _numbers(tmp_path / "table") == [1, 2]


def test_others_may_write_to_the_table_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By other ways than this library, also when they change what the table is while a micro-batch is committed."""
    writer, asked = _started(tmp_path), DeltaWriter._has
    done: list[int] = []

    def meanwhile(self: DeltaWriter, found: Any, batch_id: int) -> bool:
        if not done:
            done.append(batch_id)
            write_deltalake(tmp_path / "table", _rows(9), mode="append")
            DeltaTable(tmp_path / "table").alter.set_table_description("theirs")
        return asked(self, found, batch_id)

    monkeypatch.setattr(DeltaWriter, "_has", meanwhile)
    _write(writer, 0, _rows(1))
    assert _numbers(tmp_path / "table") == [1, 9]


# ---- owners ----------------------------------------------------------------------------------------------------------


def test_another_query_is_refused_unless_it_adopts_or_has_a_name_of_its_own(tmp_path: Path) -> None:
    """With a new checkpoint it would write everything again. The one whose table is taken stops when it writes next."""
    first = _started(tmp_path)
    _write(first, 0, _rows(1))
    query = first.table.run.query
    with pytest.raises(PlanError, match=rf"(?s)belongs to another query.*{query}.*writer='a name'.*adopt='{query}'"):
        _started(tmp_path, "anew")
    assert not (tmp_path / "anew").exists()

    beside = _started(tmp_path, "beside", writer="other")
    _write(beside, 0, _rows(10))
    _write(first, 1, _rows(2))
    with pytest.raises(PlanError, match=r"(?s)belongs to another query.*writer +other"):
        _started(tmp_path, "anew", writer="other")

    second = _started(tmp_path, "anew", adopt=query)
    _write(second, 0, _rows(3))
    for write in (lambda: first.has(NOBODY, 2), lambda: _write(first, 2, _rows(4))):
        with pytest.raises(Superseded, match="the table of a sink was taken over"):
            write()
    _write(beside, 1, _rows(11))
    assert _numbers(tmp_path / "table") == [1, 2, 3, 10, 11]
    with pytest.raises(PlanError, match="nothing to adopt"):
        _started(tmp_path, "third", adopt=query, writer="new")

    begin(tmp_path / "checkpoint", 2)  # taken back, it goes on where it was
    back = _started(tmp_path, adopt=second.table.run.query)
    _write(back, 1, _rows(2))
    _write(back, 2, _rows(5))
    assert _numbers(tmp_path / "table") == [1, 2, 3, 5, 10, 11]


def test_of_two_queries_that_start_at_once_one_has_the_table(tmp_path: Path) -> None:
    """Both have seen that nobody has it, or whom they may take it from."""
    adopt = None
    for names in ("ab", "cd"):
        sink = sw.DeltaSink((tmp_path / "table").as_uri(), adopt=adopt)
        claims = [claimed(sink, _COLUMNS, tmp_path / name) for name in names]
        adopt = claims[0].table.run.query
        claims[0].take(NOBODY)
        with pytest.raises(PlanError, match="belongs to another query"):
            claims[1].take(NOBODY)


def test_a_table_that_is_adopted_is_lost_in_the_middle_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former owner had asked whose it is, and is refused all the same."""
    first = _started(tmp_path)
    asked = DeltaWriter._has

    def adopted_meanwhile(self: DeltaWriter, found: Any, batch_id: int) -> bool:
        monkeypatch.setattr(DeltaWriter, "_has", asked)
        _started(tmp_path, "anew", adopt=first.table.run.query)
        return asked(self, found, batch_id)

    monkeypatch.setattr(DeltaWriter, "_has", adopted_meanwhile)
    with pytest.raises(Superseded, match="taken over"):
        _write(first, 0, _rows(1))
    assert _numbers(tmp_path / "table") == []


def test_a_checkpoint_that_is_older_than_its_table_is_refused(tmp_path: Path) -> None:
    """Its next micro-batches would have numbers that the table has already, and would be skipped without a word."""
    writer = _started(tmp_path)
    for batch_id in range(3):
        begin(tmp_path / "checkpoint", batch_id)
        _write(writer, batch_id, _rows(batch_id))
    _started(tmp_path)
    (tmp_path / "checkpoint/offsets/2").unlink()
    with pytest.raises(PlanError, match=r"(?s)further than the checkpoint.*micro-batch 2.*micro-batch 1"):
        _started(tmp_path)


def test_a_table_that_is_gone_stops_the_query(tmp_path: Path) -> None:
    """It is not made anew without the rows that it had."""
    writer = _started(tmp_path)
    (tmp_path / "table").rename(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"(?s)^the Delta table of a running query is gone\n.*restore"):
        _write(writer, 0, _rows(1))


def test_lengths_of_time_are_whole_microseconds(session: SparkSession, tmp_path: Path) -> None:
    """Of few rows and of many; Delta has no type for them, and late rows have a column of them."""
    columns = st.StructType().add("n", st.LongType()).add("late_by", st.DayTimeIntervalType())
    writer = started(sw.DeltaSink((tmp_path / "table").as_uri()), columns, tmp_path / "checkpoint")
    lengths = [timedelta(days=-3, microseconds=1), None, timedelta(days=40_000)]
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "late_by": pa.array(lengths, pa.duration("us"))})
    assert writer.write_few([rows], columns, NOBODY, 0)
    writer.write(session.createDataFrame([(4, timedelta(milliseconds=5))], columns), 1)
    found = DeltaTable(tmp_path / "table").to_pyarrow_table().sort_by("n")
    assert found.schema.field("late_by").type == pa.int64()
    micros = [-3 * 86_400_000_000 + 1, None, 40_000 * 86_400_000_000, 5_000]
    assert found.to_pydict() == {"n": [1, 2, 3, 4], "late_by": micros}


def test_late_rows_come_to_a_delta_table(session: SparkSession, tmp_path: Path) -> None:
    """With the bound that they missed, and by how much in microseconds."""
    (tmp_path / "in").mkdir()
    for number, minute in enumerate((0, 30, 5)):
        at = pa.array([datetime(2026, 1, 1, 0, minute, tzinfo=UTC)])
        pq.write_table(pa.table({"at": at}), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (number, number))
    frame = session.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1)
    ordered = sw.stream(frame.parquet(str(tmp_path / "in")), time="at").sort(patience="10m")
    query = ordered.start(
        main=sw.DeltaSink(tmp_path / "main"),
        late=sw.DeltaSink(tmp_path / "late"),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
        shards=1,
    )
    assert query.wait()
    (late,) = DeltaTable(tmp_path / "late").to_pyarrow_table().to_pylist()
    assert (late["at"].minute, late["late_bound"].minute, late["late_by"]) == (5, 20, 15 * 60_000_000)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (st.ArrayType(st.DayTimeIntervalType()), "array<interval"),
        (st.NullType(), "void"),
        (st.ArrayType(st.NullType()), "array<void>"),
    ],
)
def test_columns_that_delta_has_no_type_for_are_refused(tmp_path: Path, kind: st.DataType, shown: str) -> None:
    """When the query starts, by name and type."""
    columns = st.StructType([*_COLUMNS, st.StructField("odd", kind)])
    with pytest.raises(PlanError, match=rf"(?s)Delta has no type for a column.*odd +{shown}"):
        started(sw.DeltaSink((tmp_path / "table").as_uri()), columns, tmp_path / "checkpoint")
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_there_must_have_the_same_columns(tmp_path: Path) -> None:
    """By names and types, in any order, each with nulls; also those of partitions, which need not be named again."""
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"word": ["a"], "n": [1]}), partition_by=["word"])
    writer = _started(tmp_path)
    _write(writer, 0, _rows(2, word="b"))
    assert DeltaTable(table).to_pyarrow_table().sort_by("n").to_pylist() == [
        {"word": "a", "n": 1},
        {"word": "b", "n": 2},
    ]
    with pytest.raises(PlanError, match=r"(?s)other partition columns.*its +word.*partition_by +n"):
        _started(tmp_path, "anew", writer="other", partition_by="n")
    never_null = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("word", pa.string())])
    for name, schema in {
        "more": pa.schema([("n", pa.int64()), ("word", pa.string()), ("x", pa.int64())]),
        "fewer": pa.schema([("n", pa.int64())]),
        "narrower": pa.schema([("n", pa.int32()), ("word", pa.string())]),
        "never_null": never_null,
    }.items():
        DeltaTable.create(tmp_path / name, schema)
        with pytest.raises(PlanError, match=r"(?s)Delta table that is there has other columns.*the rows' +n .*word "):
            started(sw.DeltaSink((tmp_path / name).as_uri()), _COLUMNS, tmp_path / "third")
    forgetful = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    DeltaTable.create(tmp_path / "forgetful", _rows().schema, configuration=forgetful)
    with pytest.raises(PlanError, match=r"(?s)rules that this sink cannot keep.*setTransactionRetentionDuration"):
        started(sw.DeltaSink((tmp_path / "forgetful").as_uri()), _COLUMNS, tmp_path / "third")
    DeltaTable.create(tmp_path / "rules", _rows().schema)
    DeltaTable(tmp_path / "rules").alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(PlanError, match=r"(?s)rules that this sink cannot keep.*delta.constraints.positive"):
        started(sw.DeltaSink((tmp_path / "rules").as_uri()), _COLUMNS, tmp_path / "third")


def test_partitions_must_be_of_columns_that_name_them_well(tmp_path: Path) -> None:
    """An empty text would come back as null."""
    at = st.StructType([*_COLUMNS, st.StructField("at", st.TimestampType())])
    for columns, by, words in (
        (_COLUMNS, "m", "partition_by= of a sink names columns"),
        (_COLUMNS, ("n", "n"), "partition_by= of a sink names columns"),
        (_COLUMNS, ("n", "word"), "cannot be partitioned so"),
        (at, "at", "cannot be partitioned so"),
    ):
        with pytest.raises(PlanError, match=words):
            started(sw.DeltaSink((tmp_path / "table").as_uri(), partition_by=by), columns, tmp_path / "checkpoint")
    times = pa.schema([("n", pa.int64()), ("word", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    DeltaTable.create(tmp_path / "times", times, partition_by=["at"])
    with pytest.raises(PlanError, match="cannot be partitioned so"):
        started(sw.DeltaSink((tmp_path / "times").as_uri()), at, tmp_path / "checkpoint")
    writer = _started(tmp_path, partition_by="word")
    with pytest.raises(RunError, match=r"(?s)empty text in a partition column would be read as null.*word"):
        _write(writer, 0, _rows(1, word=""))
    _write(writer, 0, _rows(1, word=None))
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist() == [{"n": 1, "word": None}]


def test_a_folder_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """Files of others are not ours to stand among; nor can deltalake read every path."""
    (tmp_path / "table").mkdir()
    (tmp_path / "table/notes.txt").write_text("mine")
    with pytest.raises(PlanError, match=r"(?s)something in it and no table.*notes.txt"):
        _started(tmp_path)
    with pytest.raises(PlanError, match=r"(?s)cannot write to this path.*without %"):
        started(sw.DeltaSink((tmp_path / "a%20b").as_uri().replace("%25", "%")), _COLUMNS, tmp_path / "checkpoint")
    with pytest.raises(PlanError, match=r"(?s)cannot be the name of a writer.*'a b'"):
        sw.DeltaSink("table", writer="a b")
    odd = tmp_path / "an odd #name"
    _write(started(sw.DeltaSink(f"file://{odd}"), _COLUMNS, tmp_path / "checkpoint"), 0, _rows(1))
    assert _numbers(odd) == [1]


def test_a_store_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    """In one sentence, and without the keys of the user."""
    options = {
        "aws_access_key_id": "me",
        "aws_secret_access_key": "hidden",
        "aws_region": "x",
        "allow_http": "true",
        "endpoint_url": "http://127.0.0.1:1",
        "retry_timeout": "10ms",
        "max_retries": "0",
        "timeout": "1s",
    }
    sink = sw.DeltaSink("s3://bucket/table", storage_options=options)
    with pytest.raises(RunError, match=r"(?s)^a Delta table cannot be written\n.*s3://bucket/table") as failure:
        started(sink, _COLUMNS, tmp_path / "checkpoint")
    assert "hidden" not in f"{failure.value}{sink!r}"


# ---- files of tasks --------------------------------------------------------------------------------------------------


@given(
    rows=some.lists(some.tuples(some.sampled_from([None, 0, 1, 7]), some.sampled_from([None, "a", "b"])), max_size=30),
    by=some.sampled_from([(), ("x",), ("x", "y")]),
)
@settings(max_examples=40, deadline=None)
def test_parts_are_the_rows_of_each_value_in_their_order(
    rows: list[tuple[int | None, str | None]], by: tuple[str, ...]
) -> None:
    """Grouped by hand, the same."""
    columns = {"x": [x for x, _ in rows], "y": [y for _, y in rows], "n": list(range(len(rows)))}
    types = {"x": pa.int64(), "y": pa.string(), "n": pa.int64()}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    expected: dict[str, list[int]] = {}
    for row in table.to_pylist():
        value = {name: None if row[name] is None else str(row[name]) for name in by}
        expected.setdefault(json.dumps(value), []).append(row["n"])
    found = {json.dumps(value): part["n"].to_pylist() for value, part in parts_of(table, by)}
    assert found == expected


@given(
    batches=some.lists(some.lists(some.none() | some.integers(-(2**63), 2**63 - 1), max_size=5), min_size=1, max_size=4)
)
@example(batches=[[-62_167_219_200_000_001]])  # a microsecond before the year 0
@settings(max_examples=60, deadline=None)
def test_bounds_of_a_file_hold_for_all_its_rows(batches: list[list[int | None]]) -> None:
    """Whole numbers exactly, times to the millisecond; of times whose year has not four digits none are written."""
    stats = ColumnStats()
    for batch in batches:
        numbers = pa.array(batch, pa.int64())
        stats.add(pa.table({"n": numbers, "at": numbers.cast(pa.timestamp("us", "UTC"))}))
    facts, values = json.loads(stats.as_json()), [one for batch in batches for one in batch if one is not None]
    count = sum(map(len, batches))
    assert (facts["numRecords"], facts["nullCount"]["n"]) == (count, count - len(values))
    if values:
        assert (facts["minValues"]["n"], facts["maxValues"]["n"]) == (min(values), max(values))
    if "at" in facts["minValues"]:
        written = pa.array([facts["minValues"]["at"], facts["maxValues"]["at"]]).cast(pa.timestamp("ms", "UTC"))
        least, most = written.cast(pa.int64()).to_pylist()
        assert 1_000 * least <= min(values) < 1_000 * least + 1_000
        assert 1_000 * most - 1_000 < max(values) <= 1_000 * most


_OF_ALL_TYPES: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, None]),
    "tiny": ("tinyint", [-128, None]),
    "short": ("smallint", [2**15 - 1, None]),
    "whole": ("int", [-(2**31), None]),
    "long": ("long", [2**63 - 1, None]),
    "single": ("float", [1.5, None]),
    "double": ("double", [-1e300, None]),
    "word": ("string", ["ä\n", None]),
    "bytes": ("binary", [b"\x00", None]),
    "day": ("date", [date(2024, 2, 29), None]),
    "money": ("decimal(9,2)", [Decimal("-1.10"), None]),
    "at": ("timestamp", [datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), None]),
    "local": ("timestamp_ntz", [datetime(2024, 1, 2, 3, 4, 5, 678_901), None]),  # noqa: DTZ001 - that is the point
    "list": ("array<timestamp>", [[datetime(2024, 1, 2, tzinfo=UTC), None], None]),
    "map": ("map<string,long>", [[("a", 1)], None]),
    "struct": ("struct<a:long,b:struct<c:string>>", [{"a": 1, "b": {"c": "x"}}, None]),
}


@pytest.mark.parametrize("by", [(), ("k", "day", "flag")])
def test_what_tasks_write_is_what_was_given(session: SparkSession, tmp_path: Path, by: tuple[str, ...]) -> None:
    """Of every type, in the zone of whoever computes it; and once more under the same number."""
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    schema: Any = st.StructType.fromDDL(
        ", ".join(["k int", *(f"{name} {kind}" for name, (kind, _) in _OF_ALL_TYPES.items())])
    )
    given_rows = [{"k": k, **{name: values[k % 2] for name, (_, values) in _OF_ALL_TYPES.items()}} for k in range(6)]
    as_spark = [{**row, "map": None if row["map"] is None else dict(row["map"])} for row in given_rows]
    frame = session.createDataFrame(as_spark, schema).repartition(3)
    writer = started(sw.DeltaSink((tmp_path / "table").as_uri(), partition_by=by), schema, tmp_path / "checkpoint")
    for _ in range(2):
        writer.write(frame, 0)
    table = DeltaTable(tmp_path / "table")
    assert table.to_pyarrow_table().select(schema.names).sort_by("k").to_pylist() == given_rows
    actions = pa.table(table.get_add_actions(flatten=True))
    assert sum(actions["num_records"].to_pylist()) == 6
    files = {path.name for path in (tmp_path / "table").glob("*.parquet")}
    assert len(files) == 2 * actions.num_rows  # those of the second time are in no version


# ---- whole queries ---------------------------------------------------------------------------------------------------


def test_a_query_writes_each_row_once_whatever_is_replayed(session: SparkSession, tmp_path: Path) -> None:
    """Main rows, late rows and metrics, each to a table; a second checkpoint is refused, and so is a shared folder."""
    sinks: dict[str, Any] = {name: sw.DeltaSink(tmp_path / name) for name in ("main", "late", "metrics")}
    _SMALL.bring(tmp_path, range(2))
    _SMALL.run(session, tmp_path, **sinks)
    versions = {name: DeltaTable(tmp_path / name).version() for name in sinks}
    _SMALL.replay_last(tmp_path)
    _SMALL.bring(tmp_path, [2])
    _SMALL.run(session, tmp_path, **sinks)
    assert {name: DeltaTable(tmp_path / name).version() for name in sinks} == {
        name: version + 1 for name, version in versions.items()
    }
    assert _numbers(tmp_path / "main") == _SMALL.expected(3)
    assert _numbers(tmp_path / "late") == _SMALL.late(3)
    metrics = DeltaTable(tmp_path / "metrics").to_pyarrow_table()
    assert metrics["rows_in"].to_pylist() == [100] * 3
    assert {reason["step"] for text in metrics["why"].to_pylist() for reason in json.loads(text)} == {"punctuate#1"}
    with pytest.raises(PlanError, match="belongs to another query"):
        _SMALL.run(session, tmp_path, "anew", **sinks)
    for others, words in (
        ({"late": sw.DeltaSink(f"{tmp_path}/x/../main")}, "one sink cannot take rows of different columns"),
        ({"late": str(tmp_path / "main/late")}, "inside that of another"),
        ({"late": sw.DeltaSink(tmp_path / "in/late")}, "would read what it writes itself"),
    ):
        with pytest.raises(PlanError, match=words):
            _SMALL.run(session, tmp_path, "anew", **{**sinks, **others})


@pytest.mark.long
def test_bands_with_one_table_are_one_transaction(session: SparkSession, tmp_path: Path) -> None:
    """Streams with the same columns share it, and a micro-batch of both is one version."""
    _SMALL.bring(tmp_path, range(2))
    frame = session.readStream.schema(_SMALL.COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    bands = sw.stream(frame, time="at").tumbling(20).in_bands(5, 40, n=sw.count(), late=sw.Late.drop())
    sink = DeltaSink(str(tmp_path / "table"), partition_by=["band"])
    options: dict[str, Any] = {"trigger": {"availableNow": True}, "shards": 1}
    query = bands.start(main=[sink, sink], checkpoint=str(tmp_path / "checkpoint"), **options)
    query.wait()
    table = DeltaTable(tmp_path / "table")
    assert table.version() == 1 + 2
    found = table.to_pyarrow_table().to_pylist()
    assert {row["band"] for row in found} == {0, 1}
    assert sum(row["n"] for row in found if row["band"] == 0) == 99 + 80 + 1


@pytest.mark.long
def test_many_rows_are_written_by_tasks(session: SparkSession, tmp_path: Path) -> None:
    """More than the driver takes; with gaps, and in partitions, they are all there once."""
    at = pa.array(range(300_000), pa.int64())
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"at": at, "n": at}), tmp_path / "in/0.parquet")
    sinks = {"main": sw.DeltaSink(tmp_path / "table"), "late": sw.DeltaSink(tmp_path / "late")}
    _SMALL.run(session, tmp_path, **sinks)
    assert _numbers(tmp_path / "table") == list(range(300_000 - 1 - _SMALL.PATIENCE))
    assert "part-00000" not in str(DeltaTable(tmp_path / "table").file_uris())
