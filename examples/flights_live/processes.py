"""Processes of the demonstration: each in a session of its own, so that all that it started can be killed with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE: Final = Path(__file__).parent


class Processes:
    """Those that have been started and not yet been killed."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, script: str, *words: str | Path, log: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a script of this folder. What it says is shown; what Java and others complain of goes to a log."""
        command = [sys.executable, "-u", str(_HERE / script), *map(str, words)]
        with (self._logs / log).open("ab") as complaints:
            process = subprocess.Popen(  # noqa: S603 - our own words
                command,
                stdin=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        self._running.append(process)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Let one end that waits for the end of its input, and see that it has succeeded."""
        process.communicate()
        self.kill(process)
        if process.returncode:
            raise RuntimeError(f"a process has failed, with {process.returncode}; see the logs in {self._logs}")

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one, and all that it has started, in whatever group, and wait until they are gone."""
        while alive := _of_session(process.pid):
            for one in alive:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            process.poll()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._running.remove(process)

    def kill_all(self) -> None:
        """Kill all that are left."""
        for process in list(self._running):
            self.kill(process)


@contextmanager
def processes(logs: Path) -> Iterator[Processes]:
    """Processes that are gone in the end, however it comes."""
    logs.mkdir()
    started = Processes(logs)
    try:
        yield started
    finally:
        started.kill_all()


def _of_session(leader: int) -> list[int]:
    """The processes of a session that have not ended."""
    listed = subprocess.check_output(["ps", "-A", "-o", "pid=,sess=,stat="], text=True)  # noqa: S607 - wherever ps is
    rows = (line.split() for line in listed.splitlines())
    return [int(pid) for pid, session, state in rows if int(session) == leader and not state.startswith("Z")]
