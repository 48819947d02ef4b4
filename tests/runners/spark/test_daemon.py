"""The daemon that has imported the library before it forks workers: it may fork, and it works as Spark's own does."""

from __future__ import annotations

import os
import subprocess
import sys

_PREPARED = """
import os, sys, threading
import numpy, pandas, pyarrow

def threads():
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0

before = threads()
import slackwater.runners.spark.daemon as daemon

daemon.load_loops()
assert threading.active_count() == 1
assert threads() == before, "a thread would be missing in a fork"

from numba.core.caching import FunctionCache
before, loaded = set(sys.modules), []
load = FunctionCache.load_overload
FunctionCache.load_overload = lambda self, *of: loaded.append(self) or load(self, *of)
daemon.load_loops()
print(len(set(sys.modules) - before), len(loaded))
"""


def test_a_fork_has_nothing_left_to_load() -> None:
    """Neither a module nor a loop; and the daemon has no thread but those of NumPy and Arrow, which may be forked."""
    found = subprocess.check_output([sys.executable, "-c", _PREPARED], text=True)  # noqa: S603 - our own words
    assert found == "0 0\n"


def test_it_listens_and_ends_as_the_one_of_spark() -> None:
    """It writes its port, and is over when its input is."""
    env = {**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "example"}
    ends = []
    for module in ("pyspark.daemon", "slackwater.runners.spark.daemon"):
        command = [sys.executable, "-m", module, "pyspark.worker"]
        daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)  # noqa: S603
        assert daemon.stdout is not None
        assert 0 < int.from_bytes(daemon.stdout.read(4), "big") < 1 << 16
        daemon.communicate(timeout=60)
        ends.append(daemon.returncode)
    assert ends[0] == ends[1]
