"""A session of Spark on two cores, for the short runs of the demonstration."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """A session. What Java and Spark leave behind stays in the folder."""
    from pyspark.sql import SparkSession

    java = folder / "java"
    java.mkdir(exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers are whatever python3 the PATH has
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(java))
    # In a run this short, code that is compiled well costs more than it saves.
    short_run = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    os.environ.setdefault("JAVA_TOOL_OPTIONS", f"-Djava.io.tmpdir={java} {short_run}")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
