"""A session of Spark for who has none: the one there is, one of a server that SPARK_REMOTE names, or a local one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL: Final = (
    "install it (Debian: apt install openjdk-17-jre-headless), set JAVA_HOME, or set SPARK_REMOTE to a server"
)


def active_session() -> SparkSession | None:
    """The session of this process, if it has one."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def new_session(name: str, beside: Path) -> SparkSession:
    """Make a session, with the settings of the environment, such as those of spark-submit.

    Unless the environment says otherwise its workers are the Python of this process. They may import what stands in the
    folder `beside`, as the driver does.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    remote = "SPARK_REMOTE" in os.environ
    if not remote:
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(beside), os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.appName(name)
    if not remote:
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    try:
        session = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        where = (
            {"SPARK_REMOTE": os.environ["SPARK_REMOTE"]}
            if remote
            else {"JAVA_HOME": os.environ.get("JAVA_HOME", "not set")}
        )
        hint = "see whether the server runs, and whether you may reach it" if remote else "Spark needs Java 17 or newer"
        raise PlanError(message("no session of Spark could be made", {**where, "cause": first}, hint)) from error
    if not remote and session.sparkContext.getConf().get("spark.log.level") is None:
        session.sparkContext.setLogLevel("ERROR")  # what goes wrong comes as a message of its own
    return session


def require_java() -> None:
    """Refuse to go on where there is no Java, which Spark would say in a page of text."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if home is None else shutil.which(str(Path(home) / "bin" / "java"))
    if found is None:
        facts = {"JAVA_HOME": home or "not set", "on the PATH": "none" if home is None else "not looked at"}
        raise PlanError(message("Spark needs Java 17 or newer, and there is none", facts, _INSTALL))
