"""The same feed with Spark's own watermarks: copies dropped, and flights counted, at the same three patiences.

    python native_query.py FOLDER PATIENCE ...

It reads the recorded feed, in files that end where micro-batches of the live query ended. What each query has answered
goes to `native/answers`, by the number of the micro-batch, and how far it had read by then to `native/read`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from live_query import COLUMNS
from spark_session import quiet_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def counts(session: SparkSession, feed: Path, delay: str) -> DataFrame:
    """Departures per hour and carrier, as Spark's guide writes it."""
    from pyspark.sql import functions as sf

    messages = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(feed))
    once = messages.withWatermark("departed", delay).dropDuplicatesWithinWatermark(["number"])
    hourly = once.groupBy(sf.window("departed", "1 hour"), "carrier").agg(sf.count("*").alias("flights"))
    return hourly.select(sf.col("window.start").alias("window_start"), "carrier", "flights")


def main(folder: Path, patiences: list[str]) -> None:
    """Run all at once, each to the end of the feed."""
    native = folder / "native"
    for name in ("answers", "read"):
        (native / name).mkdir(parents=True)
    with quiet_session(folder) as session:
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        running = {patience: start(session, folder / "feed", native, patience) for patience in patiences}
        for patience, query in running.items():
            query.awaitTermination()
            pq.write_table(read_by(query, patience), native / "read" / f"{patience}.parquet")


def start(session: SparkSession, feed: Path, native: Path, patience: str) -> StreamingQuery:
    """Start one of them. The driver writes its answers, behind each micro-batch that has some."""

    def write(rows: DataFrame, batch: int) -> None:
        table: Any = rows.toArrow()
        if table.num_rows:
            table = table.append_column("patience", pa.array([patience] * table.num_rows))
            table = table.append_column("batch", pa.array([batch] * table.num_rows, pa.int64()))
            pq.write_table(table, native / "answers" / f"{patience}-{batch}.parquet")

    writer = counts(session, feed, in_words(patience)).writeStream.outputMode("append").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(native / "checkpoint" / patience)).foreachBatch(write).start()


def read_by(query: StreamingQuery, patience: str) -> pa.Table:
    """How many messages it had read behind each of its micro-batches."""
    rows, found = 0, []
    for report in query.recentProgress:
        rows += report.numInputRows
        found.append({"patience": patience, "batch": report.batchId, "messages": rows})
    return pa.Table.from_pylist(found)


def in_words(patience: str) -> str:
    """A length as Spark writes it.

    >>> in_words("6h")
    '6 hours'
    """
    units = {"h": "hours", "d": "days"}
    return f"{patience[:-1]} {units[patience[-1]]}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
