"""The tests of the oldest Spark that is accepted run with exactly that, and pass."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from slackwater.runners.spark.compatibility import LEAST_SPARK

_TOOL = Path(__file__).parents[2] / "tools" / "oldest" / "oldest_spark.py"


@pytest.fixture(scope="module")
def tool() -> SimpleNamespace:
    """The tool."""
    return SimpleNamespace(**runpy.run_path(str(_TOOL)))


def test_least_versions_are_those_of_the_metadata(tool: SimpleNamespace) -> None:
    """Of every library that users get one, and of Spark the one that the code asks for."""
    versions = dict(line.split("==") for line in tool.least_versions())
    assert versions["pyspark"] == ".".join(map(str, LEAST_SPARK))
    assert {"adbc-driver-postgresql", "altair", "deltalake", "narwhals", "numba", "pandas", "pyarrow"} <= set(versions)
    assert not {"mypy", "zensical", "setuptools"} & set(versions)


def test_its_tests_are_there(tool: SimpleNamespace) -> None:
    """A file that is renamed is not forgotten."""
    assert [path for path in tool.TESTS if not (tool.ROOT / path).exists()] == []


@pytest.mark.long
def test_streams_run_on_the_oldest_spark(tool: SimpleNamespace) -> None:
    """As `make test-oldest` does."""
    done = subprocess.run([sys.executable, str(_TOOL)], cwd=tool.ROOT, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0
