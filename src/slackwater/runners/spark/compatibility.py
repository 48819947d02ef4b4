"""Refuses a Spark, or a Python of its workers, that the runner cannot work with, before a query starts.

What Spark would say of it comes later and from elsewhere: a missing attribute, or a stack trace of a worker.
Where it cannot be known, on a cluster and over Spark Connect, nothing is guessed.

Cost: nothing where workers are the Python that asks; elsewhere a process of theirs, once, about a tenth of a second.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_SPARK: Final = (4, 1)
"""The first version with all that is used here: in 4.0, Spark Connect has no transformWithStateInPandas."""

_SOURCES_IN_PYTHON: Final = (4, 2)
"""The first version that lets sources in Python say how much a micro-batch takes."""

WORKERS_NEED: Final = ("slackwater", "numba", "narwhals", "pandas", "pyarrow")
"""What Python workers import."""

_LONG_ENOUGH: Final = 30
"""Seconds for a Python to name its version; one that needs more is let pass."""

_INTRODUCE_YOURSELF: Final = f"""
import sys
print("%d.%d" % sys.version_info[:2])
import importlib.util
print(" ".join(name for name in {WORKERS_NEED} if importlib.util.find_spec(name) is None))
"""


def require_known_pyspark() -> None:
    """Refuse a PySpark that has not all that is used here."""
    require_known_version(pyspark.__version__, "PySpark", f"pip install 'pyspark>={_written(LEAST_SPARK)},<5'")


def require_sources_in_python() -> None:
    """Refuse a PySpark that runs streams, and none of the sources of this library."""
    needed = _written(_SOURCES_IN_PYTHON)
    hint = f"pip install 'pyspark>={needed},<5'"
    require_known_version(pyspark.__version__, "for sources in Python PySpark", hint, _SOURCES_IN_PYTHON)


def require_known_session(session: SparkSession) -> None:
    """Refuse a session of another Spark, or whose workers are known to be a Python that cannot work."""
    hint = f"connect to a cluster of Spark {_written(LEAST_SPARK)} or later"
    require_known_version(session.version, "the Spark of this session", hint)
    if _runs_here(session):
        require_fitting_python(os.environ.get("PYSPARK_PYTHON"))


def require_known_version(found: str, whose: str, hint: str, least: tuple[int, int] = LEAST_SPARK) -> None:
    """Refuse a version below the least one, or of another generation; development versions count as released.

    >>> require_known_version("4.3.0", "PySpark", "")
    >>> require_known_version("4.0.1", "PySpark", "pip install 'pyspark>=4.1,<5'")
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: PySpark is of a version that streams cannot run on
        found   4.0.1
        needed  4.1 or later, below 5
        hint: pip install 'pyspark>=4.1,<5'
    """
    numbers = re.match(r"(\d+)\.(\d+)", found)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if not least <= version < (least[0] + 1, 0):
        facts = {"found": found, "needed": f"{_written(least)} or later, below {least[0] + 1}"}
        raise PlanError(message(f"{whose} is of a version that streams cannot run on", facts, hint))


def require_fitting_python(setting: str | None) -> None:
    """Refuse workers of another Python; `setting` is PYSPARK_PYTHON, without which Spark takes python3 of the PATH.

    >>> require_fitting_python(sys.executable)
    """
    path = shutil.which(setting or "python3")
    if path is not None and _is_this_python(path):
        return
    introduction = None if path is None else _introduction(path)
    fault = "there is no such program" if path is None else introduction and introduction.fault
    if fault:
        facts = {
            "workers": path or setting or "python3",
            "named by": "PYSPARK_PYTHON" if setting else "the PATH, as PYSPARK_PYTHON is not set",
            "fault": fault,
        }
        # Spark reads it when a session is made: a session that is there already keeps its workers.
        hint = f"start anew, with PYSPARK_PYTHON={sys.executable} set before the session is made"
        raise PlanError(message("the Python workers of this session cannot run streams", facts, hint))


@dataclass(frozen=True)
class Introduction:
    """What a Python says of itself."""

    version: str
    lacks: tuple[str, ...]
    """The modules that it cannot find."""

    @property
    def fault(self) -> str:
        """Why it cannot do the work of this one; empty if it can.

        >>> Introduction("2.7", ()).fault.startswith("it is Python 2.7, and this is Python 3.")
        True
        """
        here = _written(sys.version_info[:2])
        if self.version != here:
            return f"it is Python {self.version}, and this is Python {here}"
        return f"it cannot import {', '.join(self.lacks)}" if self.lacks else ""


@cache
def _introduction(python: str) -> Introduction | None:
    """Ask a Python what it is; None if it does not say."""
    command = [python, "-c", _INTRODUCE_YOURSELF]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=_LONG_ENOUGH, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, _, lacks = printed.stdout.partition("\n")
    # One that is too old for the second question has answered the first.
    return Introduction(version, tuple(lacks.split())) if re.fullmatch(r"\d+\.\d+", version) else None


def _is_this_python(path: str) -> bool:
    """Whether a program is the running Python, by any of its names in its folder.

    A virtual environment has links to a Python elsewhere, which has not its modules: the folder says which one it is.
    """
    this = Path(sys.executable)
    return Path(path).parent.absolute() == this.parent and Path(path).resolve() == this.resolve()


def _runs_here(session: SparkSession) -> bool:
    """Whether workers run on this machine and in these surroundings, and need not be brought what they import."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return False
    brought = ("spark.submit.pyFiles", "spark.archives", "spark.executorEnv.PYTHONPATH")
    local = re.fullmatch(r"local(\[.*\])?", str(session.conf.get("spark.master", "")))
    return local is not None and not any(session.conf.get(name, "") for name in brought)


def _written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
