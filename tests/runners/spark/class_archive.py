"""Archives the classes that Spark loads for a query, so that every Java of these tests starts in half of the time.

    python class_archive.py FILE

Loading and verifying some ten thousand classes is most of what a Java does in its first seconds, and these tests start
a few dozen of them. A Java that cannot use the archive, because it or Spark is another one, goes on without.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
"""Where it is, if `make classes` has made it."""

# Java compiles quickly instead of well: no session here lives long enough to earn back what the latter costs, which is
# half of all that Spark does.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(archive: Path) -> None:
    """Run a small query in a Java that writes the archive when it ends."""
    with tempfile.TemporaryDirectory() as place:
        written = archive.with_suffix(".new")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.python.daemon.module=warm_daemon pyspark-shell"
        os.environ["SPARK_LOCAL_DIRS"] = place
        os.environ["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={place} -XX:-UsePerfData {JAVA}"
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={written} -Xlog:cds=off -Xlog:cds+dynamic=off"
        _run_query(Path(place))
        written.replace(archive)


def _run_query(folder: Path) -> None:
    from pyspark.sql import SparkSession
    from small_query import bring, run

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    gateway: Any = session.sparkContext._gateway  # there is no other way to learn when Java has ended
    bring(folder, range(2))
    run(session, folder)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
