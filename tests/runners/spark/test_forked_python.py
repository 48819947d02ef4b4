"""The Python that Spark starts in these tests: forks do what they are asked, and a real one does the rest."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import os, sys
found = any(path.endswith("runners/spark") for path in sys.path)
print(os.environ["TIDE"], os.getcwd(), sys.argv[1:], "pyarrow" in sys.modules, found)
print(sys.stdin.read(), end="", file=sys.stderr)
sys.exit(int("slack" in sys.argv))
"""


def _run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(_PROGRAM)
    env = {**os.environ, "TIDE": "ebb", "PYTHONPATH": str(folder)}
    command = [str(python), "-m", "program", *arguments]
    return subprocess.run(command, input="flood", env=env, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603


def test_a_fork_has_the_files_folder_and_surroundings_of_whoever_asks(forked_python: Path, tmp_path: Path) -> None:
    """It has imported what workers need, and finds the modules that they would."""
    done = _run(forked_python, tmp_path, "neap")
    assert (done.stdout, done.stderr) == (f"ebb {tmp_path} ['neap'] True False\n", "flood")


def test_a_fork_ends_with_whoever_asked_and_the_other_way_round(forked_python: Path, tmp_path: Path) -> None:
    """Spark ends what it has started, and must learn when it has ended."""
    (tmp_path / "sleeps.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(300)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for by_fork in (False, True):
        asks = subprocess.Popen([forked_python, "-m", "sleeps"], env=env, stdout=subprocess.PIPE)  # noqa: S603
        assert asks.stdout is not None
        with asks.stdout:
            fork = int(asks.stdout.readline())
        assert fork != asks.pid
        os.kill(fork if by_fork else asks.pid, signal.SIGTERM)
        asks.wait(60)
        _assert_gone(fork)


def _assert_gone(process: int) -> None:
    for _ in range(600):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("it lives")


def test_without_a_server_the_real_python_does_it(forked_python: Path, tmp_path: Path) -> None:
    """And whatever is no module, with a server too."""
    script = forked_python.read_text().replace(str(forked_python.parent / "server"), str(tmp_path / "nowhere"))
    shutil.copy(forked_python, tmp_path / "python")
    (tmp_path / "python").write_text(script)
    done = _run(tmp_path / "python", tmp_path, "slack")
    assert (done.returncode, done.stdout) == (1, f"ebb {tmp_path} ['slack'] False False\n")
    command = [str(forked_python), "-c", "import sys; print('pyarrow' in sys.modules)"]
    assert subprocess.check_output(command, text=True) == "False\n"  # noqa: S603
