"""Small micro-batches on Spark, ours against native ones: a thousand rows, where nothing but what a micro-batch costs.

All queries read the same files, one per micro-batch, in one session, turn by turn; they write Parquet files, for a
micro-batch that writes nothing is of no use to anybody. What is compared is a micro-batch from its trigger to its end:

    at once     counts at three patiences and late rows, into four folders, against three native counts at once
    one         counts at one patience into one folder, against one native count
    sort        a sort by start(), and by to_spark() and a writeStream of the user's own, on a session with the settings
                that to_spark() asks for, and with those besides that it recommends

All have one shard, or one partition, as one would say for so few rows. Native queries keep their state in memory, which
is Spark's default and costs them least.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import slackwater as sw
from measure import medians
from slackwater.runners.spark.settings import settings_for_local_checkpoints
from spark_lab import IN_MEMORY, NOW, disordered_files, started

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from measure import Report
    from spark_lab import Lab

_ROWS = 1_000
_PATIENCES = ("2s", "10s", "60s")


def run(report: Report, lab: Lab) -> None:
    """Measure what a micro-batch of a thousand rows takes."""
    files = 12 if lab.quick else 30
    path = lab.written("small", disordered_files(_ROWS, files, spread=3_000, milliseconds=10))
    queries: dict[str, Callable[[], list[float]]] = {
        "ours, four folders": lambda: lab.seconds(partial(_bands, lab, path)),
        "native, three at once": lambda: lab.seconds_at_once(
            [partial(_native, lab, path, patience) for patience in _PATIENCES]
        ),
        "ours, one folder": lambda: lab.seconds(partial(_one_count, lab, path)),
        "native, one": lambda: lab.seconds(partial(_native, lab, path, _PATIENCES[0])),
        "identity": lambda: lab.seconds(partial(_identity, lab, path)),
    }
    taken: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(2 if lab.quick else 4):
        for name, seconds in queries.items():
            taken[name] += seconds()
    found = medians(taken)
    report.table(
        f"{_ROWS:,} rows per micro-batch, into folders of Parquet files",
        ("query", "milliseconds"),
        [[name, 1e3 * seconds] for name, seconds in found.items()],
    )
    ratio = found["ours, four folders"] / found["native, three at once"]
    report.figures["small_batch_over_native"] = round(ratio, 2)
    report.figures["small_batch_ms"] = round(1e3 * found["ours, four folders"])
    report.figures["native_three_at_once_ms"] = round(1e3 * found["native, three at once"])
    report.figures["one_sink_small_batch_over_native"] = round(found["ours, one folder"] / found["native, one"], 2)
    _sort(report, lab)


def _sort(report: Report, lab: Lab) -> None:
    """What a frame that the user writes costs beside start()."""
    path = lab.written("medium", disordered_files(100_000, 6 if lab.quick else 12))
    own = partial(lab.write, lambda: _sorted(lab, path).to_spark(), version=2, partitions=1)  # which it asks for
    queries: dict[str, Callable[[str], Any]] = {
        "start": partial(started, lambda: _sorted(lab, path)),
        "to_spark": partial(own, settings=settings_for_local_checkpoints(lab.session)),
        "to_spark, with what it asks for alone": own,
    }
    taken: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(2 if lab.quick else 4):
        for name, start in queries.items():
            taken[name] += lab.seconds(start)
    found = medians(taken)
    report.table("a sort of 100,000 rows per micro-batch", ("query", "seconds"), [list(one) for one in found.items()])
    report.figures["to_spark_over_start"] = round(found["to_spark"] / found["start"], 2)
    least = found["to_spark, with what it asks for alone"]
    report.figures["to_spark_with_least_settings_over_start"] = round(least / found["start"], 2)


def _sorted(lab: Lab, path: str) -> Any:
    return sw.stream(lab.read(path), time="at").sort("10s", late=sw.Late.drop())


def _counts(lab: Lab, path: str) -> Any:
    return sw.stream(lab.read(path), time="at").tumbling("1s").group_by("origin")


def _bands(lab: Lab, path: str, checkpoint: str) -> Any:
    """Counts at three patiences, and the late rows, each in a folder."""
    bands = _counts(lab, path).in_bands(*_PATIENCES, n=sw.count())
    mains = [f"{checkpoint} out {patience}" for patience in _PATIENCES]
    return bands.start(checkpoint=checkpoint, main=mains, late=f"{checkpoint} late", trigger=NOW, shards=1)


def _one_count(lab: Lab, path: str, checkpoint: str) -> Any:
    """Counts at one patience, in a folder."""
    counts = _counts(lab, path).in_bands(_PATIENCES[0], late=sw.Late.drop(), n=sw.count())
    return counts.start(checkpoint=checkpoint, main=f"{checkpoint} out", trigger=NOW, shards=1)


def _native(lab: Lab, path: str, patience: str, checkpoint: str) -> Any:
    from pyspark.sql import functions

    def counts() -> DataFrame:
        frame = lab.read(path).withWatermark("at", f"{patience[:-1]} seconds")
        return frame.groupBy(functions.window("at", "1 second"), "origin").count()

    return lab.write(counts, checkpoint, store=IN_MEMORY, parquet=f"{checkpoint} out", partitions=1)


def _identity(lab: Lab, path: str, checkpoint: str) -> Any:
    def same(batches: Any) -> Any:
        yield from batches

    def through_python() -> DataFrame:
        return lab.read(path).mapInArrow(same, "at timestamp, origin int, id long, value double")

    return lab.write(through_python, checkpoint, store=IN_MEMORY, parquet=f"{checkpoint} out")
