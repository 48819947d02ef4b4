"""Three versions of one query, and the merge of what they answer; as a driver, runs one of these until it is killed.

    python drive_blue_green.py FOLDER NAME

NAME is `blue` or `merge`. Readings are in FOLDER/readings, and in FOLDER/shuffled the same in another order. Each
version writes its answers to a folder in FOLDER/log, and the merge writes to FOLDER/answers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
from pyspark.sql import SparkSession

import slackwater as sw

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_ROWS: Final = "at timestamp, k string, v long"
_ANSWERS: Final = "window_start timestamp, window_end timestamp, k string, n long, total long"
_SUMS: Final[dict[str, Any]] = {"n": sw.count(), "total": sw.sum("v")}
_STEADY: Final = {"processingTime": "100 milliseconds"}


def blue(session: SparkSession, folder: Path | str, trigger: dict[str, Any] | None = None) -> Any:
    """A file at a time, from the first one on, in one shard."""
    frame = session.readStream.schema(_ROWS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/readings")
    windows = sw.stream(frame, time="at", name="readings").tumbling("10s").sort("20s")
    answers = windows.group_by("k").aggregate(**_SUMS)
    return _started(answers, folder, "blue", shards=1, trigger=trigger or _STEADY)


def green(session: SparkSession, folder: Path | str, files: str, complete_from: datetime) -> Any:
    """Early answers, in other shards, more patient, from a later file on: it answers for windows that it has whole."""
    source = sw.parquet_files(session, f"{folder}/readings/{files}", schema=_ROWS, maxFilesPerTrigger=2)
    rows = sw.stream(source, time="at", name="readings").where(nw.col("at") >= complete_from)
    early = rows.where(nw.col("v") >= 0).tumbling("10s").group_by("k").aggregate_early("30s", **_SUMS)
    return _started(early.settle(), folder, "green", shards=2, early=early)


def yellow(session: SparkSession, folder: Path | str) -> Any:
    """All that is there at once, in another order, from the first file on."""
    frame = session.readStream.schema(_ROWS).parquet(f"{folder}/shuffled")
    windows = sw.stream(frame, time="at", name="readings").tumbling("10s").sort("25s")
    return _started(windows.group_by("k").aggregate(**_SUMS), folder, "yellow", shards=3)


def _started(
    answers: sw.OrderedStream,
    folder: Path | str,
    name: str,
    *,
    shards: int,
    early: sw.RevisedStream | None = None,
    trigger: dict[str, Any] = _STEADY,
) -> Any:
    named = answers.select("k", "n", "total", replica=nw.lit(name))
    return sw.start_together(
        [(named, f"{folder}/log/{name}"), *([] if early is None else [(early, f"{folder}/early/{name}")])],
        checkpoint=f"{folder}/checkpoint/{name}",
        late=f"{folder}/late/{name}",
        shards=shards,
        trigger=trigger,
    )


def merge(session: SparkSession, folder: Path | str) -> Any:
    """Each answer once, in order, whoever has it."""
    frame = session.readStream.schema(f"{_ANSWERS}, replica string").option("recursiveFileLookup", "true")
    log = sw.stream(frame.parquet(f"{folder}/log"), time="window_start", until="window_end", name="log")
    bounds = sw.Bounds.in_order(strictly=True)
    return log.merge_replicas(by="replica", patience="10m", bounds=bounds).start(
        checkpoint=f"{folder}/checkpoint/merge",
        main=f"{folder}/answers",
        late=f"{folder}/late/merge",
        shards=1,
        trigger=_STEADY,
    )


def main(folder: str, name: str) -> None:
    """Do what the command line says."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    {"blue": blue, "merge": merge}[name](session, folder).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
