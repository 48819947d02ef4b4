"""Compiles all loops ahead, so that no query waits for it: for images, and before many processes start at once.

    python -m slackwater.kernels.warm_up [JOBS [MODULE ...]]

Machine code is kept where it is looked for (`code_cache.py`), and the end shows where that is: only beside the sources,
or where NUMBA_CACHE_DIR says, do other users find it. What is there already is left as it is. Files of loops are shared
out among so many processes, two by default: loops that call each other mostly lie in one file.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numba.core.dispatcher import Dispatcher

import slackwater.kernels
from slackwater.kernels.code_cache import folders_of

if TYPE_CHECKING:
    from collections.abc import Iterable


_HERE: Final = "slackwater.kernels.warm_up"
"""This module, which has another name when it is run."""


def modules_of_loops() -> list[str]:
    """The names of all files of loops.

    >>> "slackwater.kernels.progress.past_grid" in modules_of_loops()
    True
    """
    package = slackwater.kernels
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return sorted(module.name for module in found if not module.ispkg and module.name != _HERE)


def compile_loops(modules: Iterable[str]) -> int:
    """Compile the loops of some files that Python calls, and with them those that they call; return how many.

    >>> compile_loops(["slackwater.kernels.progress.past_grid"])
    1
    """
    compiled = 0
    for name in modules:
        for loop in vars(import_module(name)).values():
            if isinstance(loop, Dispatcher) and loop.__module__ == name and not _is_inner(loop):
                compile_as_signed: Any = loop.compile  # by its own signature, whatever it is called with
                compile_as_signed(())
                compiled += 1
    return compiled


def where_kept() -> str:
    """Where the code of this user's processes is kept, and who finds it there.

    >>> where_kept().startswith("machine code")
    True
    """
    from slackwater.kernels.progress import past_grid

    file = Path(past_grid.__file__)
    loop: Any = vars(past_grid)["_past_grid"]
    kept = loop._cache.cache_path  # noqa: SLF001 - Numba has no other way
    for_all = [str(folder) for folder in folders_of(file)]
    if kept in for_all:
        place = os.environ.get("NUMBA_CACHE_DIR") or f"{Path(slackwater.kernels.__file__).parent}/**/__pycache__"
        return f"machine code is kept in {place}, where all users find it who may read it"
    others = "run this as its owner, or with NUMBA_CACHE_DIR, which Spark's workers must have, too"
    here = "nowhere, so each process compiles for itself" if kept is None else f"in {Path(kept).parent}, for you alone"
    return f"machine code is kept {here}: {Path(for_all[0]).parent} cannot be written to; {others}"


def _is_inner(loop: Any) -> bool:
    """Whether only other loops call it, with which it is compiled."""
    return bool(loop.targetoptions.get("no_cpython_wrapper"))


def main(jobs: int = 2, *modules: str) -> int:
    """Share files, or all there are, out among processes; return the number of those that failed."""
    code = f"import sys; from {_HERE} import compile_loops; compile_loops(sys.argv[1:])"
    shared = modules or modules_of_loops()
    parts = [shared[number::jobs] for number in range(jobs)]
    running = [subprocess.Popen([sys.executable, "-c", code, *part]) for part in parts]  # noqa: S603 - our own words
    return sum(process.wait() != 0 for process in running)


if __name__ == "__main__":
    jobs, *modules = sys.argv[1:] or ["2"]
    sys.exit(main(int(jobs), *modules))
