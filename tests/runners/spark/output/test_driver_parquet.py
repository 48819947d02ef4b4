"""What the driver writes itself reads like what Spark writes, or it is left to Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as st

from slackwater.runners.spark.output.driver_parquet import DriverParquet
from slackwater.runners.spark.output.folder_sink import FolderSink
from slackwater.runners.spark.output.unpacking import local_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

_TIMES = "spark.sql.parquet.outputTimestampType"
_PLAIN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [-128, 127, None]),
    "short": (pa.int16(), [None, -(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), None, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "single": (pa.float32(), [float("inf"), None, -0.0]),
    "double": (pa.float64(), [1e300, -1e-300, None]),
    "text": (pa.string(), ["", None, "ä\n\x00"]),
    "large": (pa.large_string(), ["", None, "b"]),
    "bytes": (pa.binary(), [b"\x00", None, b""]),
    "day": (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    "few_digits": (pa.decimal128(9, 2), [Decimal("1.10"), None, Decimal("-9999999.99")]),
    "many_digits": (pa.decimal128(38, 10), [Decimal(1), None, Decimal(-7)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime(1700, 1, 2, 3, tzinfo=UTC), None, datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)],
    ),
    "how_long": (pa.duration("us"), [timedelta(days=-3, microseconds=1), None, timedelta(days=40_000)]),
}


@pytest.fixture
def times(session: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A session that writes times in one of its ways."""
    before = session.conf.get(_TIMES)
    session.conf.set(_TIMES, request.param)
    yield request.param
    session.conf.set(_TIMES, str(before))


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"], indirect=True)
def test_a_file_reads_like_one_of_spark(session: SparkSession, tmp_path: Path, times: str, rows: int) -> None:
    """By Spark and by Arrow, values, types and names, also those of both kinds together."""
    assert session.conf.get(_TIMES) == times
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in _PLAIN.items()})
    schema = session.createDataFrame(table).schema
    tables = [table.slice(0, 1), table.slice(1)] if rows else []
    way = DriverParquet.of(session, "parquet", {})
    assert way is not None
    written = way.file_of(tables, schema)
    assert written is not None
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/part-00000.parquet").write_bytes(written)
    local_rows(tables, schema, session).coalesce(1).write.parquet(str(tmp_path / "theirs"))
    ours, theirs = (session.read.parquet(str(tmp_path / name)) for name in ("ours", "theirs"))
    assert ours.schema == theirs.schema == schema
    assert ours.toArrow().equals(theirs.toArrow())
    (theirs_at,) = (tmp_path / "theirs").glob("*.parquet")
    by_arrow = [pq.read_table(path) for path in (tmp_path / "ours/part-00000.parquet", theirs_at)]
    assert by_arrow[0].schema.equals(by_arrow[1].schema, check_metadata=False)
    assert by_arrow[0].equals(by_arrow[1])
    entries = [pq.read_metadata(path).metadata for path in (tmp_path / "ours/part-00000.parquet", theirs_at)]
    version, columns = b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"
    assert entries[0].keys() == {version, columns}
    assert entries[0][version] == entries[1][version]
    assert json.loads(entries[0][columns]) == json.loads(entries[1][columns])
    both = session.read.parquet(str(tmp_path / "ours"), str(tmp_path / "theirs"))
    assert both.count() == 2 * rows
    if rows:
        codecs = {_compression(path) for path in (tmp_path / "ours/part-00000.parquet", theirs_at)}
        assert codecs == {"SNAPPY"}


def _compression(path: Path) -> str:
    return str(pq.ParquetFile(path).metadata.row_group(0).column(0).compression)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.int64()), [1]),
        (pa.struct({"x": pa.int64()}), {"x": 1}),
    ],
)
def test_columns_that_spark_writes_otherwise_are_left_to_it(
    session: SparkSession, kind: pa.DataType, value: Any
) -> None:
    """Nested ones have names inside them."""
    table = pa.table({"x": pa.array([value], kind)})
    way = DriverParquet("snappy", int96=True, version=session.version)
    assert way.file_of([table], session.createDataFrame(table).schema) is None


def test_values_that_would_lose_something_are_left_to_spark() -> None:
    """Whether and how nanoseconds are cut off, Spark decides."""
    table = pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))})
    way, columns = (
        DriverParquet("none", int96=False, version="4"),
        st.StructType([st.StructField("at", st.TimestampType())]),
    )
    assert way.file_of([table], columns) is None
    assert way.file_of([table.slice(1)], columns) is not None
    assert way.file_of([table.rename_columns(["other"])], columns) is None


@pytest.mark.parametrize("int96", [True, False])
def test_times_without_a_zone_are_written_only_as_such(int96: bool) -> None:
    """Where Spark's column has a zone they are those of the session's; and Spark has no older way to write them."""
    table = pa.table({"at": pa.array([1], pa.timestamp("us"))})
    way = DriverParquet("none", int96=int96, version="4")
    assert way.file_of([table], st.StructType([st.StructField("at", st.TimestampType())])) is None
    written = way.file_of([table], st.StructType([st.StructField("at", st.TimestampNTZType())]))
    assert (written is None) is int96


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.parquet.compression.codec", "brotli"),
        ("spark.sql.parquet.writeLegacyFormat", "true"),
        (_TIMES, "TIMESTAMP_MILLIS"),
        ("parquet.crypto.factory.class", "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"),
    ],
)
def test_settings_that_the_driver_does_not_know_are_left_to_spark(
    session: SparkSession, setting: str, value: str
) -> None:
    """Above all, nothing is written in plain that was to be encrypted."""
    before = session.conf.get(setting, None)
    session.conf.set(setting, value)
    assert DriverParquet.of(session, "parquet", {}) is None
    session.conf.unset(setting)
    if before is not None:
        session.conf.set(setting, before)
    assert DriverParquet.of(session, "parquet", {}) is not None


def test_other_formats_options_and_hadoops_own_settings_are_left_to_spark(session: SparkSession) -> None:
    """An option of a writer may mean anything."""
    assert DriverParquet.of(session, "csv", {}) is None
    assert DriverParquet.of(session, "parquet", {"compression": "gzip"}) is None
    hadoop = session._jsc.hadoopConfiguration()
    hadoop.set("parquet.crypto.factory.class", "somebody")
    assert DriverParquet.of(session, "parquet", {}) is None
    hadoop.unset("parquet.crypto.factory.class")
    assert DriverParquet.of(session, "parquet", FolderSink("x").options) is not None
