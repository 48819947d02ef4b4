"""Spark's daemon of Python workers that has imported this library, and loaded its loops, before it forks any of them.

As it comes each worker does so anew, which takes 3 s of processor time; a test that starts Spark often does so
hundreds of times. It is named by `spark.python.daemon.module`, and its folder must be on the PYTHONPATH: see
`surroundings_of_killed`.
"""

import pandas as pd  # noqa: F401 - as all below that are not used: so that workers have it
import pyarrow as pa
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.streaming import stateful_processor_util  # noqa: F401

import slackwater as sw
from slackwater.runners.spark.input import pack, parquet_files  # noqa: F401
from slackwater.runners.spark.output import unpacking  # noqa: F401
from slackwater.runners.spark.shard import host  # noqa: F401


def load_loops() -> None:
    """Do a little of what tests do most, so that compiled loops are in memory; no thread is started."""
    rows = pa.table({"at": [at ^ 5 for at in range(64)], "k": ["a", "b"] * 32, "v": list(range(64))})
    every = sw.Every.batch()
    one, other = (sw.stream(rows, time="at").sort(9, every=every, late=sw.Late.drop()) for _ in range(2))
    one.tumbling(10).group_by("k").aggregate(n=sw.count(), sum=sw.sum("v")).run()
    sw.merge_replicas(one, other).run()
    one.select("k", left="v").join(other.select("k", right="v"), on="k", within=3).run()
    for band in sw.stream(rows, time="at").tumbling(10).group_by("k").in_bands(5, 9, every=every, n=sw.count()):
        band.run()


if __name__ == "__main__":
    load_loops()
    manager()
