"""What the folder of a sink costs beside Spark's own writer: has it the batch, is it ours, staged, marked, moved.

    python benchmarks/spark_folders.py

In one session, on cached rows, round by round: `rows.write.parquet(folder)` against all that a micro-batch does
for a folder: require_newest, has, write; and against the same where the driver has the rows, and writes them itself.
What it costs at a start is not in it, nor how rows come to the driver.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from measure import interleaved, medians
from slackwater.runners.spark.checkpoint.ownership import next_run
from slackwater.runners.spark.output.folder_sink import FolderSink, OwnedFolder
from slackwater.runners.spark.storage.places import place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

SIZES: Final = (100, 10_000, 1_000_000)
REPEATS: Final = 21


def plainly(rows: DataFrame, folder: Path) -> Callable[[], None]:
    """A folder for each batch, by Spark alone."""
    numbers = itertools.count()
    return lambda: rows.write.mode("overwrite").parquet(f"{folder}/plain/batch_id={next(numbers)}")


def owned(rows: DataFrame, folder: Path) -> Callable[[], None]:
    """The same as a query of this library does it."""
    return _written(rows.sparkSession, f"{folder}/owned", lambda sink, number: sink.write(rows, number))


def by_driver(rows: DataFrame, folder: Path) -> Callable[[], None]:
    """The same, where the rows are few and the driver has them."""
    session, tables = rows.sparkSession, [rows.toArrow()]

    def write(sink: OwnedFolder, number: int) -> None:
        assert sink.write_few(tables, rows.schema, session, number)

    return _written(session, f"{folder}/by driver", write)


def _written(session: SparkSession, folder: str, write: Callable[[OwnedFolder, int], None]) -> Callable[[], None]:
    """All that is done for a micro-batch."""
    numbers = itertools.count()
    run = next_run(session, place_of(session, f"{folder}/checkpoint"), {})
    run.write(session)
    sink = FolderSink(f"{folder}/out").claimed(session, run).take(session)
    assert isinstance(sink, OwnedFolder)

    def micro_batch() -> None:
        number = next(numbers)
        run.require_newest(session)
        assert not sink.has(session, number)
        write(sink, number)

    return micro_batch


def looked_at(rows: DataFrame, folder: Path) -> Callable[[], None]:
    """Only what is read beside: whose the checkpoint and the folder are, and whether the batch is there."""
    session = rows.sparkSession
    run = next_run(session, place_of(session, f"{folder}/looked at/checkpoint"), {})
    run.write(session)
    sink = FolderSink(f"{folder}/looked at/out").claimed(session, run).take(session)
    assert isinstance(sink, OwnedFolder)

    def look() -> None:
        run.require_newest(session)
        sink.has(session, 0)

    return look


def main() -> None:
    """Print the medians."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    headings = f"{'Spark alone':>12} {'folder sink':>12} {'more':>8} {'of it reads':>12} {'by driver':>12}"
    print(f"{'rows':>9} {headings}   in milliseconds")
    for size in SIZES:
        rows = session.range(0, size, 1, 2).selectExpr("id AS at", "id * 7 AS n", "CAST(id AS string) AS word").cache()
        rows.count()
        with tempfile.TemporaryDirectory() as folder:
            contenders = {
                "plain": plainly(rows, Path(folder)),
                "owned": owned(rows, Path(folder)),
                "look": looked_at(rows, Path(folder)),
                "driver": by_driver(rows, Path(folder)),
            }
            took = {name: 1_000 * one for name, one in medians(interleaved(contenders, REPEATS, warm_up=3)).items()}
        more = took["owned"] - took["plain"]
        compared = f"{took['plain']:>12.1f} {took['owned']:>12.1f} {more:>8.1f} {took['look']:>12.2f}"
        print(f"{size:>9,} {compared} {took['driver']:>12.1f}")
        rows.unpersist()
    session.stop()


if __name__ == "__main__":
    main()
