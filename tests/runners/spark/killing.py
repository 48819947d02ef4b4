"""Kills a process with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

_PATIENT_SECONDS = 300


def kill_all_of(driver: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started, in whatever group, and wait until all of them are gone."""
    deadline = time.monotonic() + _PATIENT_SECONDS
    while alive := all_of_session(driver.pid):
        assert time.monotonic() < deadline, alive
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        driver.poll()
    driver.wait()


def all_of_session(leader: int) -> list[int]:
    """The processes of a session that have not ended; the leader, whose death leaves the others behind, comes first."""
    listed = subprocess.check_output(["ps", "-A", "-o", "pid=,stat="], text=True)  # noqa: S607 - wherever ps is
    found = []
    for process, state in map(str.split, listed.splitlines()):
        with suppress(ProcessLookupError):
            if not state.startswith("Z") and os.getsid(int(process)) == leader:
                found.append(int(process))
    return sorted(found)
