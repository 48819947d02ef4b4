"""Delta tables as sources: a range of versions is the same rows whenever it is read, and nothing is passed over."""

from __future__ import annotations

import json
import runpy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as some
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import slackwater as sw
from slackwater.errors import PlanError, SourceFailed
from slackwater.runners.spark.feeds.delta_log import TableLog
from slackwater.runners.spark.feeds.delta_source import DeltaReader, DeltaSource, columns_of
from slackwater.runners.spark.feeds.options import as_texts
from slackwater.runners.spark.feeds.replayed import EndingReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.runners.spark.feeds.replayed import Offset

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "small_query.py")))

_AS_THE_OPTIONS_SAY = ReadMaxRows(1)


def _append(path: Path, *numbers: int, **options: Any) -> None:
    """Add a version with one file."""
    write_deltalake(path, pa.table({"n": pa.array(numbers, pa.int64())}), mode="append", **options)


def _reader(path: Path, **options: Any) -> DeltaReader:
    source = DeltaSource(as_texts({**options, "path": path}))
    return source.streamReader(source.schema())


def _rows(reader: DeltaReader, start: Offset, end: Offset) -> list[Any]:
    return [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]


def _numbers(reader: DeltaReader, start: Offset, end: Offset) -> list[int]:
    return [row["n"] for row in _rows(reader, start, end)]


def _to_the_end(reader: DeltaReader, start: Offset | None = None) -> list[tuple[Offset, Offset]]:
    """The micro-batches that Spark would make of what there is."""
    ranges = []
    at = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(_logged(at), _AS_THE_OPTIONS_SAY)) != at:
        ranges.append((at, end))
        at = end
    return ranges


def _logged(offset: Offset) -> Offset:
    """As it comes back from Spark's log."""
    return dict(json.loads(json.dumps(offset)))


# ---- ranges ----------------------------------------------------------------------------------------------------------

_STEPS = some.lists(some.sampled_from(["append", "append", "property", "compact", "read"]), min_size=1, max_size=9)
_LIMITS = some.fixed_dictionaries(
    {},
    optional={
        "maxFilesPerTrigger": some.integers(1, 3),
        "maxRowsPerTrigger": some.integers(1, 5),
        "maxBytesPerTrigger": some.sampled_from(["1", "1k", "2000", "1m"]),
        "maxVersionsPerTrigger": some.integers(1, 2),
    },
)


@settings(max_examples=25)
@given(before=some.integers(1, 3), steps=_STEPS, limits=_LIMITS)
def test_ranges_have_every_row_once_and_the_same_rows_again(
    tmp_path_factory: pytest.TempPathFactory, before: int, steps: list[str], limits: dict[str, Any]
) -> None:
    """Whatever the limits are, and whatever is done to the table that changes no rows, meanwhile or afterwards."""
    path, numbers = tmp_path_factory.mktemp("table"), iter(range(10_000))
    written: list[int] = []

    def append() -> None:
        rows = [next(numbers) for _ in range(len(written) % 3 + 1)]
        written.extend(rows)
        _append(path, *rows)

    for _ in range(before):
        append()
    reader, read = _reader(path, **limits), []
    at = reader.initialOffset()
    for step in [*steps, "read"]:
        if step == "append":
            append()
        elif step == "property":
            DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
        elif step == "compact":
            DeltaTable(path).optimize.compact()
        else:
            for first, stop in _to_the_end(reader, at):
                read.append((first, stop, _numbers(reader, first, stop)))
                at = stop
    assert sorted(n for _, _, rows in read for n in rows) == written
    again = _reader(path)
    for first, stop, rows in read:
        assert _numbers(again, _logged(first), _logged(stop)) == rows


def test_limits_are_kept_and_one_file_comes_in_any_case(tmp_path: Path) -> None:
    """By files, rows, bytes and versions; a file is never cut."""
    for number in range(6):
        _append(tmp_path / "t", *[number] * (number + 1))

    def sizes(**limits: Any) -> list[int]:
        reader = _reader(tmp_path / "t", startingVersion=0, **limits)
        return [len(_rows(reader, *one)) for one in _to_the_end(reader)]

    assert sizes(maxFilesPerTrigger=2) == [3, 7, 11]
    assert sizes(maxRowsPerTrigger=5) == [3, 3, 4, 5, 6]
    assert sizes(maxRowsPerTrigger=1) == [1, 2, 3, 4, 5, 6]
    assert sizes(maxBytesPerTrigger=1) == [1, 2, 3, 4, 5, 6]
    assert sizes(maxVersionsPerTrigger=4) == [10, 11]
    assert sizes(maxFilesPerTrigger=3, maxRowsPerTrigger=7) == [6, 4, 5, 6]
    assert sizes() == [21]


def test_all_that_is_available_is_read_without_limits_when_spark_asks_for_it(tmp_path: Path) -> None:
    """A trigger that runs once asks so."""
    for number in range(3):
        _append(tmp_path / "t", number)
    reader = _reader(tmp_path / "t", maxFilesPerTrigger=1)
    start = reader.initialOffset()
    assert sorted(_numbers(reader, start, reader.latestOffset(start, ReadAllAvailable()))) == [0, 1, 2]


def test_what_comes_later_is_not_available_now(tmp_path: Path) -> None:
    """Otherwise a query that takes what is available would never end where somebody writes all the time."""
    _append(tmp_path / "t", 1)
    reader = _reader(tmp_path / "t", maxFilesPerTrigger=1)
    reader.prepareForTriggerAvailableNow()
    _append(tmp_path / "t", 2)
    assert [_numbers(reader, *one) for one in _to_the_end(reader)] == [[1]]


def test_the_first_micro_batch_is_the_same_though_the_query_would_now_begin_elsewhere(tmp_path: Path) -> None:
    """Spark does not log where the first one began, and asks again."""
    for place, options, expected in (("a", {}, [1]), ("b", {"startingVersion": "latest"}, [])):
        path = tmp_path / place
        _append(path, 1)
        reader = _reader(path, **options)
        start = reader.initialOffset()
        _append(path, 9)
        end = _logged(reader.latestOffset(start, ReadAllAvailable()))
        _append(path, 10)
        again = _reader(path, **options)
        assert again.initialOffset() != start
        assert sorted(_numbers(again, again.initialOffset(), end)) == [*expected, 9]


def test_a_query_begins_where_it_is_asked_to(tmp_path: Path) -> None:
    """At a version, at the next one, or at the first of a time or later."""
    for number in range(4):
        _append(tmp_path / "t", number)
    times = [entry["timestamp"] for entry in DeltaTable(tmp_path / "t").history()][::-1]
    for version, at_ms in enumerate(times):  # versions of one millisecond would all be of one time
        log = tmp_path / "t/_delta_log" / f"{version:020}.json"
        log.write_text(log.read_text().replace(str(at_ms), str(1_700_000_000_000 + 1_000 * version)))

    def begun(**options: Any) -> list[int]:
        reader = _reader(tmp_path / "t", **options)
        start = reader.initialOffset()
        return _numbers(reader, start, reader.latestOffset(start, ReadAllAvailable()))

    second = datetime.fromtimestamp(1_700_000_002, UTC)
    assert sorted(begun()) == [0, 1, 2, 3]
    assert begun(startingVersion=1) == [1, 2, 3]
    assert begun(startingVersion="latest") == begun(startingVersion=4) == []
    assert begun(startingTimestamp=second) == begun(startingTimestamp=second - timedelta(milliseconds=1)) == [2, 3]
    assert begun(startingTimestamp="2023-11-14T22:13:22.001") == [3]
    assert begun(startingTimestamp=second + timedelta(days=1)) == []
    with pytest.raises(
        PlanError, match=r"does not have this version yet(?s:.*)startingVersion +5(?s:.*)newest version +3"
    ):
        begun(startingVersion=5)


def test_a_table_that_ends_is_read_as_it_is(tmp_path: Path) -> None:
    """For DataFrames that are no streams."""
    for number in range(3):
        _append(tmp_path / "t", number)
    DeltaTable(tmp_path / "t").delete("n = 1")
    source = DeltaSource(as_texts({"path": tmp_path / "t"}))
    reader = source.reader(source.schema())
    assert isinstance(reader, EndingReader)
    rows = [row["n"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(rows) == [0, 2]


# ---- what is read ----------------------------------------------------------------------------------------------------


def test_rows_come_as_the_table_has_them(tmp_path: Path) -> None:
    """Types, nulls, and partition columns, which are no columns of files: with blanks, of times, and of nothing."""
    moment = datetime(2024, 2, 29, 12, 30, 1, 5, UTC)
    rows = [
        {
            "at": moment,
            "word": "ebb & flood %20",
            "day": date(2024, 2, 29),
            "price": Decimal("1.50"),
            "list": [1, None],
        },
        {"at": None, "word": None, "day": None, "price": None, "list": None},
        {"at": moment, "word": "x", "day": date(1969, 1, 1), "price": Decimal("9.99"), "list": []},
    ]
    schema = pa.schema({
        "at": pa.timestamp("us", "UTC"), "word": pa.string(), "day": pa.date32(), "price": pa.decimal128(9, 2),
        "list": pa.list_(pa.int64()),
    })  # fmt: skip
    for number, parts in enumerate(([], ["word", "day"], ["at"], ["price"])):
        path = tmp_path / str(number)
        write_deltalake(path, pa.Table.from_pylist(rows, schema), partition_by=parts)
        for options in ({}, {"startingVersion": 0}):
            reader = _reader(path, **options)
            found = [row for one in _to_the_end(reader) for row in _rows(reader, *one)]
            assert sorted(found, key=repr) == sorted(rows, key=repr), parts


def test_columns_that_a_file_lacks_are_null_and_new_ones_stop_the_query(tmp_path: Path) -> None:
    """A query that is started again reads them."""
    _append(tmp_path / "t", 1)
    reader = _reader(tmp_path / "t", startingVersion=0)
    ranges = _to_the_end(reader)
    wider = pa.table({"n": pa.array([2], pa.int64()), "k": ["new"]})
    write_deltalake(tmp_path / "t", wider, mode="append", schema_mode="merge")
    with pytest.raises(SourceFailed, match=r"has got other columns(?s:.*)version +1(?s:.*)column +k(?s:.*)string"):
        _to_the_end(reader, ranges[-1][1])
    again = _reader(tmp_path / "t")
    rows = [_rows(again, *one) for one in [*ranges, *_to_the_end(again, ranges[-1][1])]]
    assert rows == [[{"n": 1, "k": None}], [{"n": 2, "k": "new"}]]


def test_files_of_one_task_are_as_many_as_spark_would_read_by_one(tmp_path: Path) -> None:
    """A task for each of many small files would cost more than it reads."""
    for number in range(40):
        _append(tmp_path / "t", number)
    reader = _reader(tmp_path / "t")
    ((start, end),) = _to_the_end(reader)
    parts: Any = reader.partitions(start, end)
    assert [len(part.files) for part in parts] == [31, 9]
    assert sorted(_numbers(reader, start, end)) == list(range(40))


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_versions_that_delete_or_change_rows_stop_the_query_unless_an_option_says_what_becomes_of_them(
    tmp_path: Path,
) -> None:
    """By the names that Delta's own source has for it."""
    path = tmp_path / "t"
    _append(path, 1, 2)
    _append(path, 3)
    DeltaTable(path).delete("n = 3")  # a whole file
    _append(path, 4)

    def read(**options: Any) -> list[int]:
        reader = _reader(path, startingVersion=0, **options)
        return [n for one in _to_the_end(reader) for n in _numbers(reader, *one)]

    with pytest.raises(SourceFailed, match=r"deletes rows(?s:.*)version +2(?s:.*)DELETE(?s:.*)ignoreDeletes=True"):
        read()
    assert read(ignoreDeletes=True) == read(skipChangeCommits=True) == [1, 2, 3, 4]
    DeltaTable(path).update(predicate="n = 1", updates={"n": "10"})
    _append(path, 5)
    with pytest.raises(SourceFailed, match=r"changes rows(?s:.*)version +4(?s:.*)UPDATE(?s:.*)skipChangeCommits=True"):
        read(ignoreDeletes=True)
    assert read(skipChangeCommits=True) == [1, 2, 3, 4, 5]


def test_a_log_that_is_gone_stops_the_query(tmp_path: Path) -> None:
    """Rows of it were never read; the message has the version that is missing and the first that is there."""
    path = tmp_path / "t"
    for number in range(4):
        _append(path, number)
    reader = _reader(path, startingVersion=0, maxVersionsPerTrigger=1)
    (first, *_) = _to_the_end(reader)
    table = DeltaTable(path)
    table.create_checkpoint()
    for version in range(3):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    again = _reader(path)
    with pytest.raises(
        SourceFailed, match=r"log of a Delta table is gone(?s:.*)missing +version 1(?s:.*)oldest log +3"
    ):
        again.latestOffset(first[1], ReadAllAvailable())
    with pytest.raises(SourceFailed, match=r"missing +version 0"):
        again.partitions(*first)
    with pytest.raises(SourceFailed, match=r"missing +version 2"):
        _reader(path, startingTimestamp="2001-01-01").initialOffset()
    assert sorted(n for one in _to_the_end(again) for n in _numbers(again, *one)) == [0, 1, 2, 3]


def test_a_version_that_comes_while_the_log_is_looked_at_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not there at first, and then it is: so it has just been made, and is not gone."""
    path = tmp_path / "t"
    _append(path, 1)
    reader = _reader(path)
    ((first, end),) = _to_the_end(reader)
    look, meanwhile = TableLog._text, [2]

    def looked(self: TableLog, version: int) -> str | None:
        found = look(self, version)
        if found is None and meanwhile:
            _append(path, meanwhile.pop())
        return found

    monkeypatch.setattr(TableLog, "_text", looked)
    ((_, then),) = _to_the_end(reader, end)
    assert _numbers(reader, first, then) == [1, 2]


def test_files_that_are_gone_stop_the_query(tmp_path: Path) -> None:
    """VACUUM removes what no version needs that is young enough."""
    path = tmp_path / "t"
    _append(path, 1)
    _append(path, 2)
    reader = _reader(path, startingVersion=0)
    ((start, end),) = _to_the_end(reader)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(SourceFailed, match=r"gone before it was read(?s:.*)part-00(?s:.*)VACUUM"):
        _rows(reader, start, end)


def test_another_table_in_its_place_stops_the_query(tmp_path: Path) -> None:
    """With as many versions, and with fewer; found while the query runs, and when it is started again."""
    path, other = tmp_path / "t", tmp_path / "other"
    for number in range(3):
        _append(path, number)
    reader = _reader(path)
    ((_, end),) = _to_the_end(reader)
    path.rename(tmp_path / "former")
    _append(path, 7)
    with pytest.raises(SourceFailed, match=r"fewer versions(?s:.*)newest version +0(?s:.*)up to version +2"):
        reader.latestOffset(end, ReadAllAvailable())
    with pytest.raises(SourceFailed, match=r"another Delta table is where"):
        _reader(path).latestOffset(end, ReadAllAvailable())
    _append(other, 1)
    assert _numbers(_reader(other), *_to_the_end(_reader(other))[0]) == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxFiles": 1}, r"no option of this name(?s:.*)option +maxFiles(?s:.*)maxFilesPerTrigger"),
        ({"maxFilesPerTrigger": 0}, r"maxFilesPerTrigger(?s:.*)above zero(?s:.*)'0'"),
        ({"maxRowsPerTrigger": "many"}, r"maxRowsPerTrigger(?s:.*)above zero(?s:.*)'many'"),
        ({"maxBytesPerTrigger": "1 ton"}, r"maxBytesPerTrigger(?s:.*)such as 134217728"),
        ({"maxVersionsPerTrigger": "-1"}, r"maxVersionsPerTrigger"),
        ({"ignoreDeletes": "maybe"}, r"ignoreDeletes(?s:.*)one of false, true(?s:.*)'maybe'"),
        ({"startingVersion": "first"}, r"startingVersion(?s:.*)a version, or latest"),
        ({"startingTimestamp": "soon"}, r"startingTimestamp(?s:.*)such as 2026"),
        ({"startingVersion": 1, "startingTimestamp": "2026-01-01"}, r"begins at one place"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    """Before anything is read."""
    _append(tmp_path / "t", 1)
    with pytest.raises(PlanError, match=words):
        DeltaSource(as_texts({**options, "path": tmp_path / "t"})).schema()


def test_options_are_known_in_any_case(tmp_path: Path) -> None:
    """As Spark's are, which hands them over in small letters."""
    _append(tmp_path / "t", 1)
    reader = _reader(tmp_path / "t", MAXFILESPERTRIGGER=1, startingversion="LATEST")
    assert reader.initialOffset()["at"]["version"] == 1


def test_what_is_no_table_and_what_this_source_cannot_read_is_refused(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(PlanError, match=r"needs the option path"):
        DeltaSource({}).schema()
    with pytest.raises(PlanError, match=r"there is no Delta table(?s:.*)nowhere"):
        DeltaSource({"path": str(tmp_path / "nowhere")}).schema()
    _append(tmp_path / "t", 1)
    log = tmp_path / "t/_delta_log" / f"{1:020}.json"
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": [],
    }
    log.write_text(json.dumps({"protocol": features}) + "\n")
    with pytest.raises(PlanError, match=r"needs more of its readers(?s:.*)deletionVectors"):
        TableLog(str(tmp_path / "t")).commit(1)


def test_columns_by_other_names_are_refused_where_only_the_settings_of_the_table_say_so(tmp_path: Path) -> None:
    """As Delta writes it for older readers: such columns would be null. In process, too, and when it comes later."""
    path = tmp_path / "t"
    _append(path, 1)
    begun = _reader(path, startingVersion=0)
    ranges = _to_the_end(begun)
    first = json.loads(next(line for line in _log_of(path, 0).splitlines() if "metaData" in line))
    columns = json.loads(first["metaData"]["schemaString"])
    columns["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    first["metaData"]["schemaString"] = json.dumps(columns)
    first["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    log = path / "_delta_log" / f"{1:020}.json"
    log.write_text("\n".join(map(json.dumps, (protocol, first))))
    with pytest.raises(PlanError, match=r"needs more of its readers(?s:.*)columnMapping"):
        begun.latestOffset(ranges[-1][1], _AS_THE_OPTIONS_SAY)
    with pytest.raises(PlanError, match=r"needs more of its readers(?s:.*)columnMapping"):
        _reader(path)
    with pytest.raises(PlanError, match=r"have other names in its files"):
        sw.stream(path, time="n")


def _log_of(path: Path, version: int) -> str:
    return (path / "_delta_log" / f"{version:020}.json").read_text()


# ---- on Spark --------------------------------------------------------------------------------------------------------


def _small(session: SparkSession, folder: Path, **options: Any) -> None:
    """The small query, of a table; to the end of what there is."""
    source = sw.delta_table(session, folder / "table", **options)
    stream = sw.stream(source, time="at").sort(_SMALL.PATIENCE)
    out: Any = {"main": str(folder / "out"), "late": str(folder / "late"), "checkpoint": str(folder / "checkpoint")}
    assert stream.start(**out, trigger={"availableNow": True}, shards=1).wait()


def test_a_micro_batch_that_is_done_again_reads_the_same_rows(session: SparkSession, tmp_path: Path) -> None:
    """The first one, whose beginning Spark has not logged, and one that follows; more has come meanwhile."""
    for number in range(4):
        if number in {2, 3}:
            _small(session, tmp_path, maxVersionsPerTrigger=1)
            _SMALL.replay_last(tmp_path)
        write_deltalake(tmp_path / "table", _SMALL.table(number), mode="append")
    _small(session, tmp_path)
    out = sorted(pq.read_table(tmp_path / "out", columns=["n"])["n"].to_pylist())
    late = sorted(pq.read_table(tmp_path / "late", columns=["n"])["n"].to_pylist())
    # The first two versions came together, as the table that was there.
    assert late == [299, 399]
    newest = 398
    rows = [row for number in range(4) for row in _SMALL.table(number).to_pylist() if row["n"] not in late]
    assert out == sorted(row["n"] for row in rows if row["at"] < newest - _SMALL.PATIENCE)
    assert len(list((tmp_path / "checkpoint/offsets").glob("[0-9]*"))) == 3


def test_keys_of_the_store_are_in_no_message_no_plan_and_no_log(
    session: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They travel with the source, and nowhere else."""
    write_deltalake(tmp_path / "table", _SMALL.table(0))
    secret = {"aws_secret_access_key": "swordfish"}
    source = sw.delta_table(session, tmp_path / "table", storage_options=secret)
    stream = sw.stream(source, time="at").sort(5)
    assert source.frame is not None
    source.frame.explain(True)
    _small(session, tmp_path, storage_options=secret)
    DeltaTable(tmp_path / "table").delete()
    with pytest.raises(SourceFailed) as failure:
        _small(session, tmp_path, storage_options=secret)
    logged = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    shown = f"{capfd.readouterr()}{failure.value}{stream.explain(runner='spark')}{source!r}"
    assert "swordfish" not in shown
    assert not any(b"swordfish" in text for text in logged)


def test_spark_reads_it_by_its_name(session: SparkSession, tmp_path: Path) -> None:
    """As users read any source, with what Spark itself has of options; what is wrong is one message."""
    write_deltalake(tmp_path / "table", _SMALL.table(0))
    session.dataSource.register(sw.DeltaSource)
    frame = session.read.format("slackwater_delta").load(str(tmp_path / "table"))
    assert frame.count() == 100
    ends = sw.stream(sw.delta_table(session, tmp_path / "table", streaming=False), time="at")
    assert len(ends.sort(0, late=sw.Late.drop()).to_spark(shards=1).collect()) == 100
    with pytest.raises(PlanError, match=r"^the Delta source has no option of this name\n"):
        sw.delta_table(session, tmp_path / "table", maxFiles=1)  # type: ignore[call-arg]


# ---- in process ------------------------------------------------------------------------------------------------------


def test_in_process_a_table_is_read_as_it_is(tmp_path: Path) -> None:
    """A folder that is a table is not read file by file: what was deleted is not there."""
    for number in (2, 1, 3):
        write_deltalake(
            tmp_path / "t", pa.table({"at": [number], "k": [f"k {number}"]}), mode="append", partition_by="k"
        )
    DeltaTable(tmp_path / "t").delete("at = 3")
    for source in (tmp_path / "t", str(tmp_path / "t"), DeltaTable(tmp_path / "t")):
        assert sw.stream(source, time="at").run().table.to_pylist() == [{"at": 2, "k": "k 2"}, {"at": 1, "k": "k 1"}]
    assert sw.stream(DeltaTable(tmp_path / "t", version=0), time="at").run().table.num_rows == 1


def test_the_columns_of_a_table_are_sparks() -> None:
    """Delta writes them down in the same words."""
    schema = columns_of(
        '{"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}'
    )
    assert schema.simpleString() == "struct<a:bigint>"


def test_offsets_rise(tmp_path: Path) -> None:
    """What Spark logs, in order, are positions in order."""
    for number in range(5):
        _append(tmp_path / "t", number, commit_properties=CommitProperties(app_transactions=[Transaction("x", number)]))
    reader = _reader(tmp_path / "t", maxFilesPerTrigger=2)
    at = [end["at"] for _, end in _to_the_end(reader)]
    assert all((one["version"], one["file"]) < (other["version"], other["file"]) for one, other in pairwise(at[1:]))
    assert at[-1] == {"table": str(DeltaTable(tmp_path / "t").metadata().id), "version": 5, "file": 0, "whole": False}
