"""What is refused before a query starts: a Spark that is not known, and workers of a Python that cannot work."""

from __future__ import annotations

import sys
import venv
from pathlib import Path
from typing import Any

import pyspark
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.compatibility import (
    LEAST_SPARK,
    Introduction,
    require_fitting_python,
    require_known_pyspark,
    require_known_version,
)
from slackwater.runners.spark.failures import failure_of


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same Python in an environment of its own, in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python3"


@pytest.mark.parametrize("found", ["4.1.0", "4.3.0", "4.10.2", "4.2.0-SNAPSHOT", "4.1.0.dev1", "4.3"])
def test_versions_that_have_what_is_used_are_taken(found: str) -> None:
    """Up to the next generation, whatever stands behind the two numbers."""
    require_known_version(found, "PySpark", "")


@pytest.mark.parametrize("found", ["4.0.1", "3.5.4", "2.4.8", "5.0.0", "41.3.0", "", "unknown"])
def test_other_versions_are_refused(found: str) -> None:
    """With what was found, what is needed, and what to do."""
    with pytest.raises(PlanError, match=rf"(?s)found +{found}\n.*needed +4\.1 or later, below 5.*hint: do this"):
        require_known_version(found, "PySpark", "do this")


def test_the_pyspark_of_these_tests_is_known() -> None:
    """And the least version is one that it has left behind, or is."""
    require_known_pyspark()
    assert LEAST_SPARK[0] == 4


def test_sources_in_python_are_refused_where_spark_cannot_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4.1 runs streams, and lets no source in Python say how much a micro-batch takes."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    session: Any = None
    wanted = r"(?s)for sources in Python PySpark is.*found +4\.1\.4\n.*needed +4\.2 or later"
    with pytest.raises(PlanError, match=wanted):
        sw.delta_table(session, "readings")
    with pytest.raises(PlanError, match=wanted):
        sw.jetstream(session, "", stream="", schema="")


def test_this_python_may_do_the_work_under_all_of_its_names() -> None:
    """Those that its own folder has, links included."""
    for name in Path(sys.executable).parent.glob("python*"):
        if name.resolve() == Path(sys.executable).resolve():
            require_fitting_python(str(name))


def test_a_python_that_lacks_the_library_is_refused(bare_python: Path) -> None:
    """Though it is the same program: what it can import is what counts."""
    assert bare_python.resolve() == Path(sys.executable).resolve()
    with pytest.raises(PlanError, match=rf"(?s){bare_python}\n.*PYSPARK_PYTHON\n.*cannot import slackwater, numba"):
        require_fitting_python(str(bare_python))


def test_without_a_setting_the_path_decides(bare_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does in Spark."""
    monkeypatch.setenv("PATH", str(bare_python.parent))
    with pytest.raises(
        PlanError, match=rf"(?s){bare_python}\n.*the PATH, as PYSPARK_PYTHON is not set.*{sys.executable}"
    ):
        require_fitting_python(None)


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(PlanError, match=rf"(?s){tmp_path}/python\n.*no such program"):
        require_fitting_python(str(tmp_path / "python"))


def test_a_program_that_says_nothing_of_itself_is_not_looked_at() -> None:
    """It may be a script that starts a Python elsewhere."""
    require_fitting_python("true")


def test_another_version_is_refused_before_what_it_lacks() -> None:
    """An older Python may have everything, and would still not read what this one sends."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert Introduction("3.9", ("slackwater",)).fault == f"it is Python 3.9, and this is Python {here}"
    assert Introduction(here, ("slackwater", "numba")).fault == "it cannot import slackwater, numba"
    assert Introduction(here, ()).fault == ""


def test_what_a_worker_says_that_could_not_be_asked_is_put_into_words() -> None:
    """On a cluster, what Spark says of a Python without the library, and of one of another version."""
    lacking = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE]"
        " Streaming Runner initialization failed, returned -2. Cause: Traceback (most recent call last):\n"
        '  File "serializers.py", line 483, in loads\n    return cloudpickle.loads(obj, encoding=encoding)\n'
        "ModuleNotFoundError: No module named 'slackwater'\n SQLSTATE: XXKST SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: [id = 1]\n"
    )
    assert str(failure_of(RuntimeError(lacking))).splitlines() == [
        "the Python workers of a query on Spark cannot import slackwater",
        "    Spark says  ModuleNotFoundError: No module named 'slackwater'",
        "    hint: let workers be the Python of the driver: set PYSPARK_PYTHON before the session is made",
    ]
    older = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11"
    assert str(failure_of(RuntimeError(older))).startswith(
        "the Python workers of a query on Spark are of another version"
    )
