"""Loops are compiled ahead, all of them, once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slackwater
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


_WITHOUT_RIGHTS = """
import ctypes, os
if os.getuid() == 0:  # who may write anywhere, until it gives up that right
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0
"""
_USED = f"""
from {_ONE} import _past_grid as found
from slackwater.kernels.progress.steps_back import first_step_back as missing
for loop in (found, missing):
    loop.compile(())
print([name for name, loop in (("found", found), ("missing", missing)) if dict(loop._cache_hits)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the rights of root are given up as Linux has it")
@pytest.mark.parametrize("chosen", [False, True])
def test_what_is_compiled_ahead_is_found_by_who_may_not_write_there(tmp_path: Path, chosen: bool) -> None:
    """Beside the sources, or where NUMBA_CACHE_DIR says; with other times, as an archive leaves them.

    What is missing is compiled, and kept elsewhere: an image is built on another processor than it runs on, perhaps.
    """
    ignored = shutil.ignore_patterns("__pycache__")
    package = shutil.copytree(Path(slackwater.__file__).parent, tmp_path / "slackwater", ignore=ignored)
    elsewhere, shared = tmp_path / "elsewhere", tmp_path / "shared"
    elsewhere.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG", "TEMP", "TMP"))}
    env |= {"PYTHONPATH": str(tmp_path), "HOME": "/proc/nowhere", "TMPDIR": str(elsewhere)}
    env |= {"NUMBA_CACHE_DIR": str(shared)} if chosen else {}
    ahead = f"from slackwater.kernels.warm_up import *; compile_loops([{_ONE!r}]); print(where_kept())"
    place = subprocess.check_output([sys.executable, "-c", ahead], env=env, text=True)  # noqa: S603 - our own words
    assert place.endswith("where all users find it who may read it\n")
    assert str(shared if chosen else package) in place
    folders = sorted({file.parent for file in tmp_path.rglob("*.nbi")})
    assert folders
    for file in package.rglob("*.py"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    locked = [*folders, shared, *package.rglob("__pycache__"), *(one for one in package.rglob("*") if one.is_dir())]
    for folder in locked:
        if folder.is_dir():
            folder.chmod(0o555)
    try:
        program = [sys.executable, "-c", f"{_WITHOUT_RIGHTS}{_USED}{ahead}"]
        lines = subprocess.check_output(program, env=env, text=True).splitlines()  # noqa: S603 - our own words
    finally:
        for folder in locked:
            if folder.is_dir():
                folder.chmod(0o755)
    assert lines[0] == "['found']"
    assert "cannot be written to; run this as its owner" in lines[1]
    kept = {file.name.partition("-")[0] for file in elsewhere.rglob("*.nbi")}
    assert kept == {"steps_back.first_step_back"}
