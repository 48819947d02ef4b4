"""A session of Spark Connect, for processes of their own: one process has either such a session or a classic one."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession


def connected_session() -> SparkSession:
    """A session with two cores whose server listens on a port that is free."""
    # Only so does Spark take any port, and let the client know which.
    os.environ["SPARK_TESTING"] = "1"
    return SparkSession.builder.remote("local[2]").getOrCreate()
