"""Parquet files that the driver writes itself, where rows are few: those that Spark would write, without a job for it.

A job for a handful of rows costs Spark more than all that led to them: tasks, committers, a process for each permission
that it sets. So the driver, which has them, lays out the file. It does so only where nobody who reads the folder sees
a difference: plain columns, in the compression and with the times that the session is set to. Spark does all else:
nested columns, formats and options of the user's choice, encryption, and sessions over Connect, which do not say how
Hadoop is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as st

from slackwater.runners.spark.output.arrow_types import in_columns, plain_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

_PARQUET: Final = "spark.sql.parquet"
_CODECS: Final = {"none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd"}
"""Compressions that both write, by Spark's names for them."""

_INT96: Final = "INT96"
_MICROS: Final = "TIMESTAMP_MICROS"

_CRYPTO: Final = "parquet.crypto.factory.class"
"""Hadoop's name of who encrypts files."""

_WRITTEN_BY: Final = "org.apache.spark.version"
"""By this entry Spark knows that times were written by the calendar it uses itself."""

_COLUMNS: Final = "org.apache.spark.sql.parquet.row.metadata"
"""By this one it knows the types of columns: to Parquet itself a length of time is a number."""


@dataclass(frozen=True)
class DriverParquet:
    """How a session writes Parquet.

    >>> way = DriverParquet("snappy", int96=False, version="4.3.0")
    >>> columns = st.StructType([st.StructField("n", st.LongType())])
    >>> pq.read_table(pa.BufferReader(way.file_of([pa.table({"n": [1, 2]})], columns))).to_pydict()
    {'n': [1, 2]}
    """

    compression: str
    int96: bool
    """Whether times are written in the older way."""

    version: str
    """Spark's."""

    @classmethod
    def of(cls, session: SparkSession, files: str, options: Mapping[str, Any]) -> DriverParquet | None:
        """How the session writes files of this format; None if the driver cannot do the same."""
        java: Any = getattr(session, "_jsc", None)
        if java is None or files != "parquet" or options:
            return None
        codec = _CODECS.get(str(session.conf.get(f"{_PARQUET}.compression.codec")).lower())
        times = str(session.conf.get(f"{_PARQUET}.outputTimestampType")).upper()
        legacy = str(session.conf.get(f"{_PARQUET}.writeLegacyFormat")).lower() == "true"
        encrypted = java.hadoopConfiguration().get(_CRYPTO) or session.conf.get(_CRYPTO, None)
        if codec is None or times not in {_INT96, _MICROS} or legacy or encrypted:
            return None
        return cls(codec, times == _INT96, session.version)

    def file_of(self, tables: Sequence[pa.Table], columns: st.StructType) -> pa.Buffer | None:
        """A file with the rows of some tables; None if there are columns that Spark would write in another way."""
        schema = _arrow_schema(columns)
        if schema is None or (self.int96 and any(type(field.dataType) is st.TimestampNTZType for field in columns)):
            return None
        rows = in_columns(tables, schema)
        if rows is None:
            return None
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            schema,
            compression=self.compression,
            use_deprecated_int96_timestamps=self.int96,
            store_schema=False,  # or readers by Arrow would find other types than in Spark's own files
        ) as writer:
            writer.write_table(rows)
            # By hand: without Arrow's schema no metadata of a table is written.
            writer.add_key_value_metadata({_WRITTEN_BY: self.version, _COLUMNS: columns.json()})
        return sink.getvalue()


def _arrow_schema(columns: st.StructType) -> pa.Schema | None:
    kinds = [plain_type(field.dataType) for field in columns]
    return None if None in kinds else pa.schema(list(zip(columns.names, kinds, strict=True)))
