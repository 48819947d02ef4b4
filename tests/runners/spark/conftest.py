"""A session of Spark for the tests of a file, and what every process that runs Spark needs around it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

Surroundings: TypeAlias = Callable[[Path], dict[str, str]]
"""The environment of a process that runs Spark and may leave things behind in a folder."""


@pytest.fixture(scope="session")
def surroundings() -> Surroundings:
    """Workers are the Python of these tests, and whatever Java and Spark leave behind is left in a folder of theirs."""

    def of(folder: Path) -> dict[str, str]:
        java_folder = folder / "java"
        java_folder.mkdir(exist_ok=True)
        # Java compiles quickly instead of well: no session here lives long enough to earn back what the latter costs,
        # which is half of all that Spark does.
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        return {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(java_folder),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={java_folder} -XX:-UsePerfData {quick}",
        }

    return of


@pytest.fixture(scope="module")
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, surroundings: Surroundings
) -> Iterator[SparkSession]:
    """A classic session with two cores; a test file that names a MASTER has that one."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(tmp_path_factory.mktemp("spark")).items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master(getattr(request.module, "MASTER", "local[2]"))
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
