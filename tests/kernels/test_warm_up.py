"""Loops are compiled ahead, all of them, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from slackwater.kernels import warm_up

_ONE = "slackwater.kernels.progress.past_grid"


def test_all_files_of_loops_are_found() -> None:
    """As they lie in the tree, wherever that is."""
    package = Path(warm_up.__file__).parent
    files = {file.relative_to(package).with_suffix("") for file in package.rglob("*.py")}
    names = {".".join(("slackwater", "kernels", *file.parts)) for file in files if file.name != "__init__"}
    assert names - {warm_up.__name__} == set(warm_up.modules_of_loops())


def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path: Path) -> None:
    """Another process finds the machine code."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    ahead = f"from slackwater.kernels.warm_up import compile_loops; assert compile_loops([{_ONE!r}]) == 1"
    subprocess.run([sys.executable, "-c", ahead], env=env, check=True)  # noqa: S603 - our own words
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")}
    assert kept
    used = f"from {_ONE} import _past_grid as loop; loop.compile(()); print(dict(loop.stats.cache_hits) != {{}})"
    found = subprocess.check_output([sys.executable, "-c", used], env=env, text=True)  # noqa: S603 - our own words
    assert found == "True\n"
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb?")} == kept


def test_it_is_a_command(tmp_path: Path) -> None:
    """As images and `make` call it, here for one file; a process that fails makes it fail."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for module, status in ((_ONE, 0), ("no.such.module", 1)):
        command = [sys.executable, "-m", warm_up.__name__, "1", module]
        done = subprocess.run(command, env=env, check=False, capture_output=True)  # noqa: S603 - our own words
        assert done.returncode == status, done.stderr
    assert list(tmp_path.rglob("*.nbc"))
