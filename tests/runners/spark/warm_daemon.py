"""Spark's daemon of Python workers that has imported this library before it forks the first of them.

As it comes each worker imports it anew, which takes 2.3 s of processor time; a test that starts Spark often does so
hundreds of times. Name it with `spark.python.daemon.module`; its folder must be on the PYTHONPATH.
"""

import pandas as pd  # noqa: F401 - as all below: so that workers have it
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.streaming import stateful_processor_util  # noqa: F401

from slackwater.runners.spark.input import pack, parquet_files  # noqa: F401
from slackwater.runners.spark.output import unpacking  # noqa: F401
from slackwater.runners.spark.shard import host  # noqa: F401

if __name__ == "__main__":
    manager()
