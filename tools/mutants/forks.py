"""Tries changes in forks of one process, which has everything loaded: nothing is written anywhere.

A plugin of pytest. The process collects all tests and runs a few of them, so that compiled loops are loaded. Then it
forks for each change: the fork gives the function its changed code, wherever the function is known, and runs the tests
that were chosen until one fails. A compiled loop is compiled anew, and so are all that call it. What runs on Spark runs
in other processes; it is tried in a copy (`workshop.py`).
"""

from __future__ import annotations

import functools
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from nearest_tests import PACKAGE, Chosen
from numba.core.caching import NullCache
from verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pytest
    from changes import Change
    from nearest_tests import NearestTests

_ENOUGH: Final = 4
"""How many times as long as there is time tests are chosen for: as noted, with few examples, they took longer."""

_WARM: Final = 40
"""Tests that are run before the first fork."""

_COMPILING: Final = 20
"""Seconds of processor time on top of those for tests, where a loop was changed."""

_BESIDE: Final = 20
"""Seconds of processor time on top of those for tests, before a change is taken to have no end."""

_ASLEEP: Final = 300
"""Seconds by the clock after which one is taken to wait for ever."""


@dataclass(frozen=True)
class _Trial:
    """A fork that is under way."""

    file: Path
    change: Change
    asked: Chosen
    answer: int
    """The descriptor by which it names the test that failed."""

    begun: float


class ForkedTrials:
    """The plugin: tries a sample of changes instead of running the tests."""

    def __init__(
        self,
        project: Path,
        sample: Sequence[tuple[Path, Change]],
        nearest: NearestTests,
        limits: tuple[int, float, float],
        report: Callable[[Verdict], None],
    ) -> None:
        """`limits` are how many forks at once, seconds of tests for each, and when to begin no more of them."""
        self._project = project
        self._sample = sample
        self._nearest = nearest
        self._jobs, self._seconds, self._end = limits
        self._report = report

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each change, for some of them at once."""
        items = {item.nodeid: item for item in session.items}
        _run(session, [*items.values()][:: max(len(items) // _WARM, 1)])
        under_way: dict[int, _Trial] = {}
        for file, change in self._sample:
            if time.monotonic() > self._end:
                break
            while len(under_way) >= self._jobs:
                self._report(_finished(under_way))
            chosen = self._nearest.of(file, change.inside, _ENOUGH * self._seconds)
            tests = [item for test in chosen.tests for name, item in items.items() if name == test or _in(name, test)]
            if not tests:
                self._report(Verdict(file, change, None, chosen, 0.0))
                continue
            answer, told = os.pipe()
            process = os.fork()
            if process == 0:
                self._try_out(session, tests, file, change, told)
            os.close(told)
            asked = Chosen([test.nodeid for test in tests], chosen.left_out)
            under_way[process] = _Trial(file, change, asked, answer, time.monotonic())
        while under_way:
            self._report(_finished(under_way))
        return True

    def _try_out(
        self, session: pytest.Session, tests: list[pytest.Item], file: Path, change: Change, told: int
    ) -> None:
        """In the fork: never returns."""
        code = 1
        try:
            compiling = _COMPILING if hasattr(function_of(file, change), "py_func") else 0
            seconds = int(self._seconds + compiling + _BESIDE)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_ASLEEP)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            plant(self._project / file, file, change)
            failed, ran = _run(session, tests, self._seconds + compiling)
            os.write(told, f"{ran} {failed}".encode())
            code = 0
        finally:
            os._exit(code)


def _in(test: str, file: str) -> bool:
    return test.startswith(f"{file}::")


def _run(session: pytest.Session, tests: Sequence[pytest.Item], seconds: float = float("inf")) -> tuple[str, int]:
    """Run tests until one fails or so much processor time is used up; return the one that failed, and how many ran."""
    failures, begun = session.testsfailed, time.process_time()
    for ran, (test, following) in enumerate(zip(tests, [*tests[1:], None], strict=True), start=1):
        test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
        if session.testsfailed > failures:
            return test.nodeid, ran
        if time.process_time() - begun > seconds:
            return "", ran
    return "", len(tests)


def _finished(under_way: dict[int, _Trial]) -> Verdict:
    process, status = os.wait()
    trial = under_way.pop(process)
    with os.fdopen(trial.answer) as answer:
        ran, _, failed = answer.read().partition(" ")
    asked, code = trial.asked, os.waitstatus_to_exitcode(status)
    if code < 0:
        failed = "no end" if -code in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM) else f"signal {-code}"
    elif code > 0:
        failed = "an error outside of tests"
    else:  # time may have run out before all tests had their turn
        asked = Chosen(asked.tests[: int(ran)], asked.left_out + len(asked.tests) - int(ran))
    return Verdict(trial.file, trial.change, failed or None, asked, time.monotonic() - trial.begun)


def plant(source: Path, file: Path, change: Change) -> None:
    """Give the function its changed code; a compiled loop, and all that call it, are compiled anew when called."""
    function = function_of(file, change)
    assert function is not None
    plain = getattr(function, "py_func", function)
    changed = compile(change.of(source.read_text()), plain.__code__.co_filename, "exec", dont_inherit=True)
    same = plain.__code__
    (code,) = {
        one
        for one in _codes_in(changed)
        if (one.co_qualname, one.co_firstlineno) == (same.co_qualname, same.co_firstlineno)
    }
    plain.__code__ = code
    if plain is not function:
        for loop in [function, *_loops_calling(plain.__name__)]:
            _forget_compiled(loop)


def _forget_compiled(loop: Any) -> None:
    """Let Numba compile a loop when it is called, and neither read nor keep it on disk."""
    # The steps of its own recompile(), which would go by signatures that are not ours.
    loop._cache = NullCache()  # noqa: SLF001
    loop._make_finalizer()()  # noqa: SLF001
    loop._reset_overloads()  # noqa: SLF001
    loop._can_compile = True  # noqa: SLF001


def _loops_calling(name: str) -> list[Any]:
    """All compiled loops that call one of this name, by whatever way."""
    loops = {
        id(value): value
        for module in [*sys.modules.values()]
        if module is not None and module.__name__.startswith("slackwater.kernels")
        for value in vars(module).values()
        if hasattr(value, "py_func")
    }
    found: dict[int, Any] = {}
    names, before = {name}, 0
    while before != len(names):
        before = len(names)
        found = {key: one for key, one in loops.items() if names.intersection(one.py_func.__code__.co_names)}
        names |= {one.py_func.__name__ for one in found.values()}
    return list(found.values())


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes_in(one)


def function_of(file: Path, change: Change) -> Any:
    """The function or compiled loop that a change is in, or the outermost one around it; None if it is not loaded."""
    module = sys.modules.get(".".join(("slackwater", *file.relative_to(PACKAGE).with_suffix("").parts)))
    found: Any = module
    for name in change.inside.split("."):
        if not isinstance(found, ModuleType | type):
            break
        found = vars(found).get(name)
    match found:
        case property():
            found = found.fget
        case classmethod() | staticmethod():
            found = found.__func__
        case functools.cached_property():
            found = found.func
    if hasattr(found, "py_func"):
        return found
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None
