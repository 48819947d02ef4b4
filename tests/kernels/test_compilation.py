"""Compiled kernels on disk: processes that start at once on an empty cache fill it together, and it is sound."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slackwater
from slackwater.kernels.sorting.measure_disorder import _count_falls, count_runs

_SORT_SOMETHING = """
import json
import numpy as np
from slackwater.kernels.columns.gather_segments import gather_segments, locate
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter
numbers = np.arange(300_000)
times = np.where(numbers % 3 == 0, numbers - numbers * 7_919 % 1_000, numbers)
sorter = ImpatienceSorter()
pieces = []
for batch in np.array_split(times, 7):
    sorter.add(batch)
    pieces += sorter.release(int(batch.max()) - 1_000)
pieces += sorter.release(2**63 - 1)
order = np.concatenate([piece.rows for piece in pieces])
addresses = np.array([times.ctypes.data, times[100_000:].ctypes.data], dtype=np.uint64)
gathered = np.empty(300_000, dtype=np.int64)
gather_segments(addresses, locate(order, np.array([0, 100_000, 300_000])), gathered)
print(json.dumps({
    "in order": bool((order == np.argsort(times, kind="stable")).all()),
    "gathered": bool((gathered == np.sort(times)).all()),
}))
"""


def _start(cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", _SORT_SOMETHING],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process printed."""
    out, err = process.communicate(timeout=200)
    assert (process.returncode, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def _files(cache: Path) -> dict[str, tuple[int, int]]:
    """When each file was written, and how long it is."""
    found = [file for file in cache.rglob("*") if file.is_file()]
    return {str(file.relative_to(cache)): (file.stat().st_mtime_ns, file.stat().st_size) for file in found}


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.long)])
def test_processes_that_start_at_once_on_an_empty_cache_all_give_the_right_answer(
    tmp_path: Path, processes: int
) -> None:
    """None crashes and none spoils what the others write: a later process takes everything from the cache."""
    answers = [_answer(process) for process in [_start(tmp_path) for _ in range(processes)]]
    filled = _files(tmp_path)
    answers.append(_answer(_start(tmp_path)))
    assert answers == [{"in order": True, "gathered": True}] * (processes + 1)
    assert {file.rpartition(".")[2] for file in filled} == {"nbi", "nbc"}
    assert _files(tmp_path) == filled


def test_a_kernel_is_compiled_once_whatever_it_is_called_with_and_by_whom() -> None:
    """Columns that may be written are taken for those that are only read; other types are refused, not compiled for."""
    writable = np.array([1, 3, 2, 4])
    readonly = writable.copy()
    readonly.flags.writeable = False
    counted: list[int] = []
    threads = [
        threading.Thread(target=lambda times=times: counted.append(count_runs(times))) for times in (writable, readonly)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [2, 2]
    with pytest.raises(TypeError):
        _count_falls(writable.astype(np.float64))
    kernel: Any = _count_falls
    assert len(kernel.signatures) == 1


@pytest.mark.parametrize("temporary", ["some", "none"])
def test_the_library_works_where_nothing_can_be_written(tmp_path: Path, temporary: str) -> None:
    """Neither beside the sources nor in the home of the user: code is kept for a while, or not at all."""
    shutil.copytree(Path(slackwater.__file__).parent, tmp_path / "slackwater", ignore=shutil.ignore_patterns("__py*"))
    for room in ("kernels", "kernels/sorting"):
        (tmp_path / f"slackwater/{room}/__pycache__").touch()  # no folder can be made here, not even by root
    (tmp_path / "temporary").mkdir()
    nowhere = "/proc/nowhere"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG", "TEMP", "TMP"))}
    env |= {"HOME": nowhere, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"TMPDIR": str(tmp_path / "temporary")} if temporary == "some" else {}
    patch = "" if temporary == "some" else "import tempfile; tempfile.gettempdir = lambda: '/proc/nowhere'; "
    count = "import slackwater, numpy; from slackwater.kernels.sorting.measure_disorder import count_runs; "
    program = f"{patch}{count}print(count_runs(numpy.array([3, 1, 2])))"
    found = subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True)  # noqa: S603, PLW1510
    assert found.stdout == "2\n", found.stderr
    assert bool(list((tmp_path / "temporary").rglob("*count_falls*"))) is (temporary == "some")


_CALLER = """
from slackwater.kernels.compile import kernel
from slackwater.kernels.inner import FACTOR, times

@kernel("int64(int64)")
def outer(number):
    return times(number) + FACTOR
"""
_INNER = """
from slackwater.kernels.compile import kernel

FACTOR = {factor}

@kernel("int64(int64)")
def times(number):
    return {factor} * number
"""


def test_a_loop_is_compiled_anew_when_another_file_changes_that_it_is_made_of(tmp_path: Path) -> None:
    """What it calls, and numbers that it knows by name; its own file stays as it is."""
    ignored = shutil.ignore_patterns("__pycache__")
    kernels = shutil.copytree(Path(slackwater.__file__).parent, tmp_path / "slackwater", ignore=ignored) / "kernels"
    (kernels / "outer.py").write_text(_CALLER)
    for factor in (2, 30):
        (kernels / "inner.py").write_text(_INNER.format(factor=factor))
        program = "from slackwater.kernels.outer import outer; print(outer(5))"
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        answer = subprocess.check_output([sys.executable, "-c", program], env=env, text=True)  # noqa: S603
        assert int(answer) == 6 * factor


def test_a_file_of_loops_that_is_run_by_itself_leaves_no_machine_code_behind(tmp_path: Path) -> None:
    """As a module it has another name then, and the library would get wrong numbers from what was compiled for it."""
    file = Path(slackwater.__file__).parent / "kernels" / "progress" / "recorded_rows.py"
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "cache").mkdir()
    command = [sys.executable, "-m", "doctest", str(file)]
    found = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)  # noqa: S603, PLW1510
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert not [name for name in _files(tmp_path / "cache") if "recorded_rows" in name]
