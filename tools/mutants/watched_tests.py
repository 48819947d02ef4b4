"""Notes which functions each test enters and how long it takes: a plugin of pytest, run once over all tests.

`SLACKWATER_MUTANTS_NOTES` names the folder that the notes go to, one file per process, one line per test that passed;
without it nothing is noted. Under the plugin Hypothesis shrinks nothing (that a bug is noticed is enough), and a bug
that asks for memory without end gets an error, not the machine.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import CodeType, FrameType

NOTES: Final = "SLACKWATER_MUTANTS_NOTES"
"""The variable with the folder for notes."""

_MEMORY: Final = 12 * 2**30
"""Bytes of addresses that a process may ask for."""

_EXAMPLES: Final = 5
"""Examples of a property while it is watched, which is slow: they enter nearly all functions that more would."""

_PACKAGE: Final = "/src/slackwater/"

_WITH_SPARK: Final = frozenset({"sessions", "surroundings", "forked_python", "bare_python"})
"""Fixtures of tests that have Spark or other processes do the work: what those enter is not seen from here."""

_OTHER_PROCESSES: Final = "test_compilation.py"
"""Left out, too: it compiles in processes of its own, slowly, and asks for no results."""


class _Watch:
    """The functions entered since the watch began."""

    def __init__(self) -> None:
        self._seen: dict[int, CodeType] = {}  # by identity: to hash a code object is slow

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> None:
        self._seen[id(frame.f_code)] = frame.f_code

    def __enter__(self) -> Self:
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def functions(self) -> list[str]:
        """The functions of the package, as `file:Class.method`."""
        found = set()
        for code in self._seen.values():
            _, package, file = code.co_filename.rpartition(_PACKAGE)
            if package:
                found.add(f"{file}:{code.co_qualname.replace('.<locals>', '').split('.<')[0]}")
        return sorted(found)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Nothing is shrunk; memory has an end."""
    short = settings.get_profile("short")
    examples = _EXAMPLES if NOTES in os.environ else short.max_examples
    settings.register_profile("mutants", short, phases=[Phase.explicit, Phase.generate], max_examples=examples)
    settings.load_profile("mutants")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def leave_out_other_processes(items: list[pytest.Item]) -> None:
    """Keep the tests that do their work in the process that runs them."""
    items[:] = [
        item
        for item in items
        if item.path.name != _OTHER_PROCESSES and _WITH_SPARK.isdisjoint(getattr(item, "fixturenames", ()))
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Watch no tests of which nothing would be seen."""
    if NOTES in os.environ:
        leave_out_other_processes(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch a test, and note it if it passes."""
    folder = os.environ.get(NOTES)
    if folder is None:
        return (yield)
    begun = time.perf_counter()
    with _Watch() as watch:
        result = yield
    seconds = round(time.perf_counter() - begun, 3)
    with Path(folder, f"{os.getpid()}.jsonl").open("a") as notes:
        print(json.dumps({"test": item.nodeid, "seconds": seconds, "enters": watch.functions()}), file=notes)
    return result
