"""A small query for tests of sinks and faults: sorts the files of a folder, one per micro-batch; some rows are late.

    python small_query.py FOLDER

As a driver it comes to a halt in its second micro-batch, after it has made `halted`, until there is `go_on`. Then it
writes its late rows, or says why not.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = "at long, n long"
PATIENCE = 10


def bring(folder: Path, numbers: Iterable[int], step: int = 1) -> None:
    """Write files of a hundred rows, the last of them late; Spark goes by the times of files, which rise, or fall."""
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        hidden = folder / "in" / f".{number}"
        pq.write_table(table(number), hidden)
        os.utime(hidden, (100_000 + step * number, 100_000 + step * number))
        hidden.rename(folder / "in" / f"{number}.parquet")


def table(number: int) -> pa.Table:
    """The rows of a file."""
    at = [*range(100 * number, 100 * number + 99), max(100 * number - 500, 0)]
    return pa.table({"at": at, "n": range(100 * number, 100 * number + 100)})


def ordered(session: SparkSession, folder: Path, kind: str = "frames", patience: int = PATIENCE) -> sw.OrderedStream:
    """The files in order of time."""
    path = str(folder / "in")
    options: dict[str, Any] = {"maxFilesPerTrigger": 1}
    frame: Any = session.readStream.schema(COLUMNS).options(**options).parquet(path)
    source = frame if kind == "frames" else sw.parquet_files(session, path, schema=COLUMNS, **options)
    return sw.stream(source, time="at").sort(patience)


def run(
    session: SparkSession, folder: Path, checkpoint: str = "checkpoint", kind: str = "frames", **options: Any
) -> Any:
    """Run to the end of what is there, in one shard; return the query.

    On a machine that is busy Spark may give up on a worker; then it is started again, as a user would.
    """
    given = {"main": str(folder / "out"), "late": str(folder / "late"), "shards": 1, **options}
    stream = ordered(session, folder, kind, given.pop("patience", PATIENCE))
    while True:
        query = stream.start(checkpoint=str(folder / checkpoint), trigger={"availableNow": True}, **given)
        try:
            query.wait()
        except RunError as error:
            if "did not start in time" not in str(error):
                raise
        else:
            return query


def expected(files: int) -> list[int]:
    """The rows that come out in order of so many files, by their numbers: all but late ones, and those still held."""
    newest = 100 * files - 2
    rows = [row for number in range(files) for row in table(number).to_pylist()]
    return sorted(row["n"] for row in rows if row["n"] not in late(files) and row["at"] < newest - PATIENCE)


def late(files: int) -> list[int]:
    """The rows of so many files that are late."""
    return [100 * number + 99 for number in range(1, files)]


def numbers(folder: Path) -> list[int]:
    """The rows of all batches of a folder, by their numbers."""
    return sorted(pq.read_table(folder, columns=["n"])["n"].to_pylist())


def seen(folder: Path) -> dict[str, bytes]:
    """All files that readers see of a folder."""
    files = [path for path in folder.rglob("*.parquet") if "_slackwater" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def replay_last(folder: Path, checkpoint: str = "checkpoint") -> None:
    """Let a checkpoint be as a crash leaves it: the last micro-batch has begun, and nobody knows that it was done."""
    commits = folder / checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def main(folder: Path) -> None:
    """Do what the command line says."""

    def halt(rows: Any, batch_id: int) -> None:
        rows.count()
        if batch_id == 1:
            (folder / "halted").touch()
            while not (folder / "go_on").exists():
                time.sleep(0.05)

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    run(builder.config("spark.ui.showConsoleProgress", "false").getOrCreate(), folder, main=halt)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
