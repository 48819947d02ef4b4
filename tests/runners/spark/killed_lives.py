"""The lives of a query in processes of its own, one after the other, in each of which this and that is killed.

What is killed, and how long after which sign of progress, is drawn from a seed. All lives but the last end with the
death of the driver: with its Java and all others at once (`driver`), or of its Python alone (`python`). Then the others
find out by themselves, while the next life has begun. What comes out does not depend on how fast anything was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from killing import all_of_session, kill, kill_all_of, victims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

_DRIVER = Path(__file__).with_name("drive_kills.py")
_PATIENT_SECONDS = 400
_LOCAL = "local[2,4]"
"""Two cores, and a task that failed is tried three more times."""

_CLUSTER = "cluster"
_LAST = ("driver", "python")
"""What a life ends with."""

_LONGEST_PAUSE = 1.5


@dataclass(frozen=True)
class Kill:
    """What is killed, and so many seconds behind what.

    `offsets`: a micro-batch has begun; `commits`: one has ended; `start`: the checkpoint has been taken over.
    """

    kind: str
    behind: str
    seconds: float


@dataclass(frozen=True)
class Life:
    """Where Spark runs, and what is killed meanwhile."""

    master: str
    kills: tuple[Kill, ...]

    @property
    def ends(self) -> bool:
        """Whether the query comes to its end."""
        return all(kill.kind not in _LAST for kill in self.kills)


def lives_of(random: Random, kills: int) -> list[Life]:
    """As many kills as are asked for: of executors in every other life, of workers and their daemons in all.

    >>> from random import Random
    >>> for life in lives_of(Random(1), 9):
    ...     print(life.master, [kill.kind for kill in life.kills])
    local[2,4] ['daemon', 'worker', 'worker', 'python']
    cluster ['executor', 'executor', 'worker', 'worker', 'python']
    local[2,4] []
    """
    drivers, executors = -(-kills // 5), kills // 4
    masters = [_LOCAL if number % 2 == 0 else _CLUSTER for number in range(drivers)] + [_LOCAL]
    clusters = [number for number, master in enumerate(masters) if master == _CLUSTER]
    kinds: list[list[str]] = [[] for _ in masters]
    for number in range(executors if clusters else 0):
        kinds[clusters[number % len(clusters)]].append("executor")
    for _ in range(kills - drivers - sum(map(len, kinds))):
        random.choice(kinds).append("daemon" if random.random() < 0.25 else "worker")
    for one in kinds:
        random.shuffle(one)
    kinds = [[*one, random.choice(_LAST)] for one in kinds[:-1]] + [kinds[-1]]
    return [
        Life(master, tuple(_drawn(random, kind, number) for number, kind in enumerate(one)))
        for master, one in zip(masters, kinds, strict=True)
    ]


def _drawn(random: Random, kind: str, number: int) -> Kill:
    """The first of a life may come before its first micro-batch."""
    return Kill(
        kind,
        random.choice(["offsets", "commits", *["start"] * (number == 0)]),
        random.uniform(0, _LONGEST_PAUSE) * random.random(),
    )


class Lives:
    """Those of one query, of one folder; after the block no process of theirs is left."""

    def __init__(self, folder: Path, plan: str, servers: tuple[str, str], env: Mapping[str, str]) -> None:
        self._folder, self._arguments = folder, (plan, *servers)
        # Executors are killed with their workers: these are of a real Python, which is found.
        self._env = {**os.environ, **env, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        self._without_python: list[subprocess.Popen[bytes]] = []
        self.killed: list[Kill] = []
        self.within = 0
        """How many of them came within a micro-batch, as far as logs say."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        """See that whoever lost its driver has ended by itself."""
        try:
            if failed is None:
                for driver in self._without_python:
                    self._wait_until(lambda driver=driver: not all_of_session(driver.pid))  # type: ignore[misc]
        finally:
            for driver in self._without_python:
                kill_all_of(driver)

    def live(self, life: Life, random: Random) -> bool:
        """Live until the driver is killed, or to the end, which may come first; say whether it came."""
        plan, *servers = self._arguments
        command = [sys.executable, str(_DRIVER), str(self._folder), plan, life.master, *servers]
        with (self._folder / "log").open("ab") as log:
            driver = subprocess.Popen(  # noqa: S603 - our own words
                command, stdout=log, stderr=log, start_new_session=True, env=self._env
            )
        try:
            for one in life.kills:
                if not self._kill(driver, one, random):
                    break
            else:
                if not life.ends:
                    return False
            driver.wait(_PATIENT_SECONDS)
            assert driver.returncode == 0, self._log()
        finally:
            if driver not in self._without_python:
                kill_all_of(driver)
        return True

    def _kill(self, driver: subprocess.Popen[bytes], one: Kill, random: Random) -> bool:
        """Kill one when it is time; say no if the query has come to its end before."""
        offsets, commits = (self._folder / "checkpoint" / name for name in ("offsets", "commits"))
        signs = {"offsets": lambda: _logged(offsets), "commits": lambda: _logged(commits), "start": self._owner}
        sign = signs[one.behind]
        before = sign()
        self._wait_until(lambda: driver.poll() is not None or not sign() <= before)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(one.seconds)
        if one.kind not in _LAST:
            self._wait_until(lambda: driver.poll() is not None or bool(victims(driver.pid, one.kind)))
        if driver.poll() is not None:
            return False
        open_now = sorted(map(int, _logged(offsets) - _logged(commits)))
        if one.kind == "driver":
            kill_all_of(driver)
        elif one.kind == "python":
            driver.kill()
            driver.wait()
            self._without_python.append(driver)
        else:
            self._wait_until(lambda: _killed_one(driver.pid, one.kind, random) or driver.poll() is not None)
        self.within += bool(open_now)
        self.killed.append(one)
        place = f"within micro-batch {open_now[-1]}" if open_now else "between micro-batches"
        print(f"killed {one.kind} {one.seconds:.3f} s behind {one.behind}, {place}", flush=True)  # noqa: T201 - shown where it fails
        return True

    def _owner(self) -> set[str]:
        """Whose the checkpoint is: each start makes another record."""
        record = self._folder / "checkpoint/_slackwater/query.json"
        return {record.read_text()} if record.exists() else set()

    def failures(self) -> list[str]:
        """Why Spark gave up."""
        file = self._folder / "failures"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)[1] for line in lines]

    def counters(self) -> dict[str, Any] | None:
        """The counters in the end; None if the last life found nothing to do."""
        found: dict[str, Any] | None = json.loads((self._folder / "counters").read_text())
        return found

    def _wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENT_SECONDS
        while not happened():
            assert time.monotonic() < deadline, f"nothing went on\n{self._log()}"
            time.sleep(0.01)

    def _log(self) -> str:
        return (self._folder / "log").read_text()[-10_000:]


def _logged(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("[0-9]*")}


def _killed_one(leader: int, kind: str, random: Random) -> bool:
    """Kill one of a kind, if there is one."""
    alive = victims(leader, kind)
    return bool(alive) and kill(random.choice(sorted(alive)))
