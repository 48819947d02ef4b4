"""Tables of PostgreSQL as sinks, on a real server: a micro-batch is there once and whole, or its keys are current."""

from __future__ import annotations

import pickle
import runpy
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from owned_runs import NOBODY, begin, claimed, started
from pyspark import cloudpickle
from pyspark.sql import types as st

import slackwater as sw
from slackwater.errors import PlanError, RunError, Superseded
from slackwater.runners.spark.output.postgres_session import Transaction
from slackwater.runners.spark.output.postgres_sink import PostgresWriter
from slackwater.runners.spark.output.postgres_types import holds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "small_query.py")))

_COLUMNS = st.StructType([st.StructField("n", st.LongType()), st.StructField("word", st.StringType())])


def _sql(uri: str, *statements: str) -> list[tuple[Any, ...]]:
    """What the last of some statements returns."""
    found: list[tuple[Any, ...]] = []
    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            found = list(cursor.fetchall()) if statement.startswith("SELECT") else []
        connection.commit()
    return found


def _rows(*numbers: int, word: str = "tide") -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "word": [word] * len(numbers)})


def _write(writer: PostgresWriter, batch_id: int, rows: pa.Table, columns: st.StructType = _COLUMNS) -> None:
    assert writer.write_few([rows], columns, NOBODY, batch_id)


def _numbers(uri: str, table: str = "t") -> list[int]:
    return [row[0] for row in _sql(uri, f'SELECT n FROM "{table}" ORDER BY n')]


def _started(uri: str, checkpoint: Path, columns: st.StructType = _COLUMNS, **options: Any) -> PostgresWriter:
    """A start that writes to the table `t`."""
    writer = started(sw.PostgresSink(uri, "t", **options), columns, checkpoint)
    assert isinstance(writer, PostgresWriter)
    return writer


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_a_number_that_comes_again_changes_nothing(postgres: str, tmp_path: Path) -> None:
    """Neither in the same run nor in the next one, and whatever the rows are; the next number is written."""
    writer = _started(postgres, tmp_path)
    for _ in range(2):
        _write(writer, 0, _rows(1, 2))
    begin(tmp_path, 0)
    again = _started(postgres, tmp_path)
    _write(again, 0, _rows(1, 2))
    _write(again, 1, _rows(3))
    _write(again, 2, _rows())
    assert _numbers(postgres) == [1, 2, 3]


def test_a_writer_that_travels_writes_the_same(postgres: str, tmp_path: Path) -> None:
    """Over Spark Connect micro-batches are written by another process."""
    dumps: Any = cloudpickle.dumps
    writer = pickle.loads(dumps(_started(postgres, tmp_path)))  # noqa: S301 - our own
    _write(writer, 0, _rows(1))
    assert _numbers(postgres) == [1]


def test_a_micro_batch_that_fails_leaves_nothing_and_may_be_written_then(postgres: str, tmp_path: Path) -> None:
    """A text that PostgreSQL cannot hold; then a connection that is lost when all rows are there, before the commit."""
    writer = _started(postgres, tmp_path)
    with pytest.raises(RunError, match=r"(?s)^a table of PostgreSQL cannot be written\n.*cause .*invalid byte"):
        _write(writer, 0, _rows(1, 2, word="\x00"))

    def cut_off(self: Transaction) -> None:
        (pid,) = self.ask("SELECT pg_backend_pid()")[0]
        _sql(postgres, f"SELECT pg_terminate_backend({pid})")
        self.connection.commit()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "commit", cut_off)
        with pytest.raises(RunError, match=r"(?s)^a table of PostgreSQL cannot be written\n.*hint: see to it; started"):
            _write(writer, 0, _rows(1, 2))
    assert _numbers(postgres) == []
    _write(writer, 0, _rows(1, 2))
    assert _numbers(postgres) == [1, 2]


def test_a_server_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path) -> None:
    """In one sentence, before Spark starts."""
    sink = sw.PostgresSink("postgresql://me:hidden@127.0.0.1:1/nowhere", "t")
    with pytest.raises(RunError, match=r"(?s)^a table of PostgreSQL cannot be written\n.*refused") as failure:
        started(sink, _COLUMNS, tmp_path)
    assert "hidden" not in f"{failure.value}{sink!r}"
    assert not list(tmp_path.iterdir())


# ---- owners ----------------------------------------------------------------------------------------------------------


def test_another_query_is_refused_unless_it_adopts_or_has_a_name_of_its_own(postgres: str, tmp_path: Path) -> None:
    """With a new checkpoint it would write everything again. The one whose table is taken stops when it writes next."""
    first = _started(postgres, tmp_path / "a")
    _write(first, 0, _rows(1))
    query = first.table.run.query
    with pytest.raises(PlanError, match=rf"(?s)belongs to another query.*{query}.*writer='a name'.*adopt='{query}'"):
        _started(postgres, tmp_path / "b")
    assert not (tmp_path / "b").exists()

    beside = _started(postgres, tmp_path / "c", writer="other")
    _write(beside, 0, _rows(10))
    second = _started(postgres, tmp_path / "b", adopt=query)
    _write(second, 0, _rows(2))
    with pytest.raises(Superseded, match="the table of a sink was taken over"):
        _write(first, 1, _rows(3))
    _write(beside, 1, _rows(11))
    with pytest.raises(PlanError, match="nothing to adopt"):
        _started(postgres, tmp_path / "d", adopt=query, writer="new")
    begin(tmp_path / "a", 0)  # taken back, it goes on where it was
    back = _started(postgres, tmp_path / "a", adopt=second.table.run.query)
    _write(back, 0, _rows(1))
    _write(back, 1, _rows(4))
    assert _numbers(postgres) == [1, 2, 4, 10, 11]


def test_of_two_queries_that_start_at_once_one_has_the_table(postgres: str, tmp_path: Path) -> None:
    """Both have seen that nobody has it, or whom they may take it from."""
    adopt = None
    for names in ("ab", "cd"):
        sink = sw.PostgresSink(postgres, "t", adopt=adopt)
        claims = [claimed(sink, _COLUMNS, tmp_path / name) for name in names]
        adopt = claims[0].table.run.query
        claims[0].take(NOBODY)
        with pytest.raises(PlanError, match="belongs to another query"):
            claims[1].take(NOBODY)


def test_of_two_runs_the_newer_has_the_table(postgres: str, tmp_path: Path) -> None:
    """The older one is refused when it writes; nor can it take the table back when it is slow to start."""
    older = _started(postgres, tmp_path)
    newer = _started(postgres, tmp_path)
    with pytest.raises(Superseded, match="taken over"):
        _write(older, 0, _rows(1))
    with pytest.raises(Superseded, match="taken over"):
        older.table.take_over()
    _write(newer, 0, _rows(2))
    assert _numbers(postgres) == [2]


def test_a_driver_that_hangs_in_the_middle_of_a_micro_batch_is_cut_off(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the row of the owner; a new start ends its session, and nothing of its micro-batch is there."""
    older = _started(postgres, tmp_path)
    written, go_on, failures = threading.Event(), threading.Event(), []
    commit = Transaction.commit

    def hang(self: Transaction) -> None:
        if threading.current_thread() is hanging:
            written.set()
            assert go_on.wait(60)
        commit(self)

    def write() -> None:
        try:
            _write(older, 0, _rows(1))
        except RunError as error:
            failures.append(str(error))

    hanging = threading.Thread(target=write)
    monkeypatch.setattr(Transaction, "commit", hang)
    hanging.start()
    assert written.wait(60)
    newer = _started(postgres, tmp_path)
    _write(newer, 0, _rows(2))
    go_on.set()
    hanging.join()
    assert _numbers(postgres) == [2]
    assert [one.partition("\n")[0] for one in failures] == ["a table of PostgreSQL cannot be written"]


def test_a_checkpoint_that_is_older_than_its_table_is_refused(postgres: str, tmp_path: Path) -> None:
    """Its next micro-batches would have numbers that the table has already, and would be skipped without a word."""
    writer = _started(postgres, tmp_path)
    for batch_id in range(3):
        begin(tmp_path, batch_id)
        _write(writer, batch_id, _rows(batch_id))
    _started(postgres, tmp_path)
    (tmp_path / "offsets/2").unlink()
    with pytest.raises(PlanError, match=r"(?s)further than the checkpoint.*micro-batch 2.*micro-batch 1"):
        _started(postgres, tmp_path)


def test_an_owner_that_is_gone_stops_the_query(postgres: str, tmp_path: Path) -> None:
    """What the table has is not known any more."""
    writer = _started(postgres, tmp_path)
    _sql(postgres, "DELETE FROM slackwater_owners")
    with pytest.raises(RunError, match="slackwater_owners is gone"):
        _write(writer, 0, _rows(1))


# ---- keys ------------------------------------------------------------------------------------------------------------


_KEYED = st.StructType(
    [
        st.StructField("k", st.StringType()),
        st.StructField("part", st.LongType()),
        st.StructField("at", st.LongType()),
        st.StructField("n", st.LongType()),
    ]
)


def _current(batches: list[list[tuple[Any, Any, Any]]]) -> dict[tuple[Any, Any], tuple[Any, int]]:
    """By hand: of each key the row that is greatest in `at`, null the least; of equal ones the last."""
    current: dict[tuple[Any, Any], tuple[Any, int]] = {}
    for number, (k, part, at) in enumerate(row for batch in batches for row in batch):
        before = current.get((k, part))
        if before is None or before[0] is None or (at is not None and at >= before[0]):
            current[k, part] = (at, number)
    return current


_key_rows = some.tuples(
    some.sampled_from([None, "a", 'b"']), some.sampled_from([None, 1]), some.sampled_from([None, 1, 2, 3])
)


@given(batches=some.lists(some.lists(_key_rows, min_size=1, max_size=8), min_size=1, max_size=3), case=some.uuids())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_with_a_key_is_current(postgres: str, tmp_path: Path, batches: Any, case: Any) -> None:
    """The newest row of each key, nulls being keys like others, however rows are cut into micro-batches."""
    sink = sw.PostgresSink(postgres, f"t{case.hex}", key=("k", "part"), latest="at")
    writer, number = started(sink, _KEYED, tmp_path / case.hex), 0
    for batch_id, batch in enumerate(batches):
        columns = list(zip(*batch, strict=True))
        numbers = list(range(number, number + len(batch)))
        number += len(batch)
        names = {"k": pa.string(), "part": pa.int64(), "at": pa.int64(), "n": pa.int64()}
        values = [*columns, numbers]
        rows = pa.table(
            {name: pa.array(list(one), kind) for (name, kind), one in zip(names.items(), values, strict=True)}
        )
        for _ in range(2):
            _write(writer, batch_id, rows, _KEYED)
    found = _sql(postgres, f"SELECT k, part, at, n FROM t{case.hex}")
    assert len(found) == len({row[:2] for row in found})
    assert {row[:2]: row[2:] for row in found} == _current(batches)


def test_later_answers_of_bands_replace_earlier_ones(session: SparkSession, postgres: str, tmp_path: Path) -> None:
    """Both bands of a micro-batch come to one table; in the end it has the last answer to each window."""
    _SMALL.bring(tmp_path, range(3))
    frame = session.readStream.schema(_SMALL.COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    bands = sw.stream(frame, time="at").tumbling(20).in_bands(5, 120, n=sw.count(), late=sw.Late.drop())
    sink = sw.PostgresSink(postgres, "answers", key="window_start", latest="band")
    options: dict[str, Any] = {"trigger": {"availableNow": True}, "shards": 1, "at_end": "flush"}
    query = bands.start(main=[sink, sink], checkpoint=str(tmp_path / "checkpoint"), **options)
    query.wait()
    found = _sql(postgres, "SELECT window_start, band, n FROM answers ORDER BY window_start")
    at = [one for number in range(3) for one in _SMALL.table(number)["at"].to_pylist()[:99]]
    expected = {start: sum(start <= one < start + 20 for one in at) for start in range(0, 300, 20)}
    assert {start for start, _, _ in found} == set(expected)
    assert {band for _, band, _ in found} == {1}
    assert {start: n for start, _, n in found if start} == {start: n for start, n in expected.items() if start}


def test_a_key_says_which_row_is_kept(tmp_path: Path) -> None:
    """Refused before anything is asked of the server."""
    for options in ({"key": "n"}, {"latest": "n"}):
        with pytest.raises(PlanError, match=r"(?s)key= needs latest="):
            sw.PostgresSink("", "t", **options)
    for key, latest, words in (
        ("m", "n", "key= of a sink"),
        ("n", "m", "latest= of a sink"),
        ("n", "n", "cannot be a"),
    ):
        with pytest.raises(PlanError, match=words):
            started(sw.PostgresSink("", "t", key=key, latest=latest), _COLUMNS, tmp_path)


# ---- columns ---------------------------------------------------------------------------------------------------------


_OF_ALL_TYPES: dict[str, tuple[str, str, list[Any]]] = {
    "flag": ("boolean", "boolean", [True, None]),
    "tiny": ("tinyint", "smallint", [-128, None]),
    "short": ("smallint", "smallint", [2**15 - 1, None]),
    "whole": ("int", "integer", [-(2**31), None]),
    "long": ("long", "bigint", [2**63 - 1, None]),
    "single": ("float", "real", [1.5, None]),
    "double": ("double", "double precision", [-1e300, None]),
    "word": ("string", "text", ["ä\n", None]),
    "bytes": ("binary", "bytea", [b"\x00", None]),
    "day": ("date", "date", [date(2024, 2, 29), None]),
    "money": ("decimal(9,2)", "numeric(9,2)", [Decimal("-1.10"), None]),
    "at": ("timestamp", "timestamp with time zone", [datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), None]),
    "local": ("timestamp_ntz", "timestamp without time zone", [datetime(2024, 1, 2, 3, 4, 5, 678_901), None]),  # noqa: DTZ001 - that is the point
    "list": ("array<long>", "bigint[]", [[1, None], None]),
    "times": ("array<timestamp>", "timestamp with time zone[]", [[datetime(2024, 1, 2, tzinfo=UTC)], None]),
    'odd "name"': ("string", "text", ["x", None]),
}


def test_what_comes_from_spark_is_what_was_given(session: SparkSession, postgres: str, tmp_path: Path) -> None:
    """Of every type, in the zone of whoever computes it; copied, and by way of a key."""
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    fields = [f"`{name}` {kind}" for name, (kind, _, _) in _OF_ALL_TYPES.items()]
    schema: Any = st.StructType.fromDDL(", ".join(["k int", *fields]))
    given_rows = [{"k": k, **{name: values[k % 2] for name, (_, _, values) in _OF_ALL_TYPES.items()}} for k in range(6)]
    frame = session.createDataFrame([tuple(row.values()) for row in given_rows], schema).repartition(3)
    for table, options in (("copied", {}), ("keyed", {"key": "k", "latest": "whole"})):
        sink = sw.PostgresSink(postgres, table, **options)
        writer = started(sink, schema, tmp_path / table)
        for _ in range(2):
            writer.write(frame, 0)
        asked = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 1 AND NOT attisdropped"
        types = _sql(postgres, f"{asked} AND attrelid = to_regclass('{table}') ORDER BY attnum")
        assert [row[0] for row in types] == [kind for _, kind, _ in _OF_ALL_TYPES.values()]
        with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} ORDER BY k")
            found = cursor.fetch_arrow_table().to_pylist()
        assert [{**row, "money": row["money"] and Decimal(row["money"])} for row in found] == given_rows


def test_what_spark_fails_with_is_what_a_query_fails_with(session: SparkSession, postgres: str, tmp_path: Path) -> None:
    """Not that the rows could not be read any further; and nothing of the micro-batch is there."""
    writer = _started(postgres, tmp_path)
    frame = session.range(100_000).selectExpr(
        "if(id = 99999, cast(raise_error('as planned') as long), id) n", "'x' word"
    )
    with pytest.raises(Exception, match="as planned") as failure:
        writer.write(frame, 0)
    assert not isinstance(failure.value, RunError)
    assert _numbers(postgres) == []


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (st.StructType([st.StructField("a", st.LongType())]), "struct<a:bigint>"),
        (st.MapType(st.StringType(), st.LongType()), "map<string,bigint>"),
        (st.ArrayType(st.DayTimeIntervalType()), "array<interval day to second>"),
        (st.NullType(), "void"),
    ],
)
def test_columns_that_postgresql_has_no_type_for_are_refused(tmp_path: Path, kind: st.DataType, shown: str) -> None:
    """When the query starts, by name and type, before anything is asked of the server."""
    columns = st.StructType([*_COLUMNS, st.StructField("odd", kind)])
    with pytest.raises(PlanError, match=rf"(?s)PostgreSQL has no type for a column.*odd +{shown}"):
        started(sw.PostgresSink("", "t"), columns, tmp_path)
    too_long = st.StructType([st.StructField("ä" * 32, st.LongType())])
    with pytest.raises(PlanError, match=r"(?s)has 1 to 63 bytes.*bytes +64"):
        started(sw.PostgresSink("", "t"), too_long, tmp_path)


def test_lengths_of_time_are_whole_microseconds(session: SparkSession, postgres: str, tmp_path: Path) -> None:
    """Of few rows and of many: an interval of PostgreSQL has months, and late rows have a column of lengths."""
    columns = st.StructType().add("n", st.LongType()).add("late_by", st.DayTimeIntervalType())
    writer = _started(postgres, tmp_path, columns)
    lengths = pa.array([timedelta(days=-3, microseconds=1), None], pa.duration("us"))
    _write(writer, 0, pa.table({"n": pa.array([1, 2], pa.int64()), "late_by": lengths}), columns)
    writer.write(session.createDataFrame([(3, timedelta(milliseconds=5))], columns), 1)
    found = _sql(postgres, "SELECT n, late_by, pg_typeof(late_by)::text FROM t ORDER BY n")
    assert found == [(1, -3 * 86_400_000_000 + 1, "bigint"), (2, None, "bigint"), (3, 5_000, "bigint")]


def test_a_table_that_is_there_takes_rows_if_it_can_hold_every_value(postgres: str, tmp_path: Path) -> None:
    """Of its own columns some may have defaults; wider types are fine, and what would round or cut off is refused."""
    _sql(
        postgres,
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, word varchar, n numeric, d date DEFAULT '2024-01-01')",
        "CREATE TABLE cut (n bigint, word varchar(3))",
        "CREATE TABLE narrow (n integer, word text)",
        "CREATE TABLE lacking (n bigint)",
        "CREATE TABLE wanting (n bigint, word text, other text NOT NULL)",
        "CREATE TABLE no_key (n bigint, word text)",
        "CREATE TABLE some_key (n bigint, word text)",
        "CREATE UNIQUE INDEX ON some_key (word) WHERE n > 0",
        "CREATE TABLE many_nulls (n bigint, word text UNIQUE)",
        "CREATE TABLE one_null (n bigint, word text UNIQUE NULLS NOT DISTINCT)",
        "CREATE TABLE no_null (n bigint, word text PRIMARY KEY)",
    )
    writer = _started(postgres, tmp_path / "checkpoint")
    _write(writer, 0, _rows(2**62, word="a long word"))
    assert _sql(postgres, "SELECT id, n::text, word, d::text FROM t") == [(1, str(2**62), "a long word", "2024-01-01")]
    for table, words in {
        "cut": r"(?s)that is there has other columns.*word +is character varying\(3\), rows have text",
        "narrow": r"(?s)has other columns.*n +is integer, rows have bigint",
        "lacking": r"(?s)has other columns.*word +is absent",
        "wanting": r"(?s)wants columns that the rows do not have.*other",
    }.items():
        with pytest.raises(PlanError, match=words):
            started(sw.PostgresSink(postgres, table), _COLUMNS, tmp_path / "other")
    for table in ("one_null", "no_null"):
        started(sw.PostgresSink(postgres, table, key="word", latest="n"), _COLUMNS, tmp_path / table)
    for table in ("no_key", "some_key", "many_nulls"):
        with pytest.raises(PlanError, match=rf"(?s)no unique index.*CREATE UNIQUE INDEX ON .*\"{table}\" \(\"word\"\)"):
            started(sw.PostgresSink(postgres, table, key="word", latest="n"), _COLUMNS, tmp_path / "other")


def test_types_that_hold_every_value() -> None:
    """Those that would round, cut off or shift some do not."""
    kept = {("integer", "smallint"), ("numeric", "bigint"), ("double precision", "real"), ("numeric", "numeric(9,2)")}
    lost = {
        ("real", "double precision"),
        ("character(9)", "text"),
        ("timestamp without time zone", "date"),
        ("", "text"),
    }
    lost |= {("timestamp without time zone", "timestamp with time zone"), ("numeric(10,4)", "numeric(9,2)")}
    assert {pair for pair in kept | lost if holds(*pair)} == kept


def test_a_schema_and_a_table_of_any_name(postgres: str, tmp_path: Path) -> None:
    """Also one that has quotes and capitals; what the sink remembers stands beside it."""
    _sql(postgres, 'CREATE SCHEMA "The ""marts"""')
    try:
        writer = started(sw.PostgresSink(postgres, 'T "1"', schema='The "marts"'), _COLUMNS, tmp_path)
        _write(writer, 0, _rows(1))
        assert _sql(postgres, 'SELECT n FROM "The ""marts"""."T ""1"""') == [(1,)]
        assert _sql(postgres, 'SELECT table_name, epoch FROM "The ""marts""".slackwater_owners') == [('T "1"', 1)]
    finally:
        _sql(postgres, 'DROP SCHEMA "The ""marts""" CASCADE')


# ---- whole queries ---------------------------------------------------------------------------------------------------


def test_a_query_writes_each_row_once_whatever_is_replayed(
    session: SparkSession, postgres: str, tmp_path: Path
) -> None:
    """Main rows, late rows and metrics, each to a table; and a second checkpoint is refused."""
    sinks = {name: sw.PostgresSink(postgres, name) for name in ("main", "late", "metrics")}
    _SMALL.bring(tmp_path, range(2))
    _SMALL.run(session, tmp_path, **sinks)
    _SMALL.replay_last(tmp_path)
    _SMALL.bring(tmp_path, [2])
    _SMALL.run(session, tmp_path, **sinks)
    assert _numbers(postgres, "main") == _SMALL.expected(3)
    assert _numbers(postgres, "late") == _SMALL.late(3)
    assert _sql(postgres, "SELECT rows_in, why::jsonb -> 0 ->> 'step' FROM metrics") == [(100, "punctuate#1")] * 3
    with pytest.raises(PlanError, match="belongs to another query"):
        _SMALL.run(session, tmp_path, "anew", **sinks)


@pytest.mark.long
def test_many_rows_come_in_pieces(session: SparkSession, postgres: str, tmp_path: Path) -> None:
    """More than the driver takes at once."""
    at = pa.array(range(300_000), pa.int64())
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"at": at, "n": at}), tmp_path / "in/0.parquet")
    sinks = {"main": sw.PostgresSink(postgres, "main"), "late": sw.PostgresSink(postgres, "late")}
    _SMALL.run(session, tmp_path, **sinks)
    assert _numbers(postgres, "main") == list(range(300_000 - 1 - _SMALL.PATIENCE))
