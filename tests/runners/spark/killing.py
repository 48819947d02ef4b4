"""Finds and kills what runs Spark: a driver with all that it has started, or one of its executors or Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

_PATIENT_SECONDS = 300
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Process:
    """One that has not ended."""

    number: int
    parent: int
    words: str

    @property
    def is_executor(self) -> bool:
        """Whether it is the Java of an executor."""
        return _EXECUTOR in self.words

    @property
    def is_of_python(self) -> bool:
        """Whether it is a daemon of Python workers, or one of its forks, which have the same words."""
        return "-m pyspark.daemon" in self.words or "-m warm_daemon" in self.words


def kill_all_of(driver: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started, in whatever group, and wait until all of them are gone."""
    deadline = time.monotonic() + _PATIENT_SECONDS
    while alive := all_of_session(driver.pid):
        assert time.monotonic() < deadline, alive
        for process in alive:
            kill(process)
        driver.poll()
    driver.wait()


def kill(process: int) -> bool:
    """Kill a process; say whether it was there."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        return True
    return False


def all_of_session(leader: int) -> list[int]:
    """The processes of a session that have not ended; the leader, whose death leaves the others behind, comes first."""
    return sorted(process.number for process in _of_session(leader))


def victims(leader: int, kind: str) -> list[int]:
    """The processes of a kind in a session: the Java of an `executor`, a `daemon` of Python, or one of its forks.

    A `worker` is such a fork, whether it works for tasks or, as those that plan a source in Python, for the driver.
    """
    alive = _of_session(leader)
    if kind == "executor":
        return [process.number for process in alive if process.is_executor]
    of_python = {process.number: process for process in alive if process.is_of_python}
    forks = [number for number, process in of_python.items() if process.parent in of_python]
    return forks if kind == "worker" else sorted(of_python.keys() - set(forks))


def _of_session(leader: int) -> list[Process]:
    listed = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="], text=True)  # noqa: S607 - wherever ps is
    found = []
    for line in listed.splitlines():
        number, parent, state, *words = line.split(maxsplit=3)
        with suppress(ProcessLookupError):
            if not state.startswith("Z") and os.getsid(int(number)) == leader:
                found.append(Process(int(number), int(parent), " ".join(words)))
    return found
