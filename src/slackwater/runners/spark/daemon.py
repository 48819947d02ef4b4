"""Spark's daemon of Python workers, with this library imported and its loops loaded before it forks any of them.

    SparkSession.builder.config("spark.python.daemon.module", "slackwater.runners.spark.daemon")

As Spark comes, each worker imports what it runs by after it was forked: more than a second of processor time, for each
that works at once, before the first rows. Which daemon there is, is chosen when a session is made, and holds for all of
its queries; other workers that it forks have more in memory than they need, which they share.
Rule: it starts no thread, for a fork has only the thread that forks. Those of NumPy and Arrow know how to be forked.
"""

import pandas as pd  # noqa: F401 - as all below that are not used: so that workers have it
import pyarrow as pa
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.streaming import stateful_processor_util  # noqa: F401

import slackwater as sw
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.output import unpacking  # noqa: F401
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard import host  # noqa: F401
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard


def load_loops() -> None:
    """Do a little of what queries do, so that compiled loops are in memory: pack rows, sort some, and sum some up."""
    rows = pa.table({"at": [at ^ 5 for at in range(64)], "k": ["a", "b"] * 32, "v": list(range(64))})
    ordered = sw.stream(rows, time="at").sort(9, every=sw.Every.batch(), late=sw.Late.drop())
    summed_up = ordered.tumbling(10).group_by("k").aggregate(n=sw.count(), sum=sw.sum("v"))
    for stream in (ordered, summed_up):
        plan = ShardPlan.of({"main": stream.node}, wanted_shards=2)
        (pack,) = packs_of(plan)
        arrivals = Arrivals()
        for row in pack.packed(0, rows.to_batches()):
            arrivals.add(row)
        for _ in Shard(plan).on_micro_batch(arrivals):
            pass


if __name__ == "__main__":
    load_loops()
    manager()
