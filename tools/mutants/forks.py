"""Tries changes in forks of one process, which has everything loaded: nothing is written anywhere.

A plugin of pytest. The process collects all tests and runs a few of them, so that compiled loops are loaded. Then it
forks for each change: the fork gives the function its changed code, wherever the function is known, and runs the tests
that were chosen until one fails. A compiled loop is compiled anew, and so are all that call it. What runs on Spark runs
in other processes; what no test without Spark notices is tried in a copy (`workshop.py`).

A test that failed says something only if it passes in the same surroundings without the change. So it is run once more
in a fork of its own, in which the function is given the code that it had.
"""

from __future__ import annotations

import functools
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest
from nearest_tests import PACKAGE, Chosen
from numba.core.caching import NullCache
from verdict import Verdict
from watched_tests import leave_out_other_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from changes import Change
    from nearest_tests import NearestTests

_ENOUGH: Final = 4
"""How many times as long as there is time tests are chosen for: as noted, with few examples, they took longer."""

_WARM: Final = 40
"""Tests that are run before the first fork."""

_COMPILING: Final = 20
"""Seconds of processor time on top of those for tests, where a loop was changed."""

_BESIDE: Final = 20
"""Seconds of processor time on top of `_ENOUGH` times those noted, after which a test is taken to have no end."""

_SLOWER: Final = 10
"""How many times as long a test may take by the clock, and `_ASLEEP` seconds on top, before it waits for ever."""

_ASLEEP: Final = 60

_NO_END: Final = (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM)


@dataclass(frozen=True)
class _Trial:
    """A fork that is under way."""

    file: Path
    change: Change
    tests: list[pytest.Item]
    left_out: int
    answer: int
    """The descriptor by which it tells how far it has come."""

    begun: float


@dataclass(frozen=True)
class _End:
    """What a fork has told, and how it ended."""

    planted: bool
    ran: int
    """How many tests it began."""

    failure: str | None
    """How the last of them failed, if not by its own asserts; None if all passed."""


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
        self._sound: dict[tuple[str, str], bool] = {}
        self._unsound: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that were watched."""
        leave_out_other_processes(items)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork for each change, for some of them at once."""
        if session.testsfailed:
            message = "not all tests can be collected: a change that only those notice would look like a survivor"
            raise pytest.UsageError(message)
        items = {item.nodeid: item for item in session.items}
        failed, _ = _run(session, [*items.values()][:: max(len(items) // _WARM, 1)])
        if failed:
            message = f"{failed} fails without any change"
            raise pytest.UsageError(message)
        under_way: dict[int, _Trial] = {}
        for file, change in self._sample:
            if time.monotonic() > self._end:
                break
            while len(under_way) >= self._jobs:
                self._report(self._finished(session, under_way))
            chosen = self._nearest.of(file, change.inside, _ENOUGH * self._seconds)
            tests = [items[test] for test in chosen.tests if test in items and test not in self._unsound]
            if not tests:
                unsure = "all of its tests fail without the change, too" if chosen.tests else ""
                self._report(Verdict(file, change, None, chosen, 0.0, unsure))
                continue
            process, trial = self._fork(session, tests, file, change)
            under_way[process] = replace(trial, left_out=chosen.left_out + len(chosen.tests) - len(tests))
        while under_way:
            self._report(self._finished(session, under_way))
        return True

    def _fork(
        self, session: pytest.Session, tests: list[pytest.Item], file: Path, change: Change
    ) -> tuple[int, _Trial]:
        answer, told = os.pipe()
        process = os.fork()
        if process == 0:
            self._try_out(session, tests, file, change, told)
        os.close(told)
        return process, _Trial(file, change, tests, 0, answer, time.monotonic())

    def _try_out(
        self, session: pytest.Session, tests: list[pytest.Item], file: Path, change: Change, told: int
    ) -> None:
        """In the fork: never returns."""
        code = 1
        try:
            compiling = _COMPILING if hasattr(function_of(file, change), "py_func") else 0
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            plant(self._project / file, file, change)

            def begins(test: str) -> None:
                os.write(told, b".")
                noted = self._nearest.seconds(test)
                signal.alarm(int(_SLOWER * (noted + compiling) + _ASLEEP))
                allowed = int(time.process_time() + _ENOUGH * noted + compiling + _BESIDE)
                resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))

            failed, _ = _run(session, tests, self._seconds + compiling, begins)
            os.write(told, b"F" if failed else b"P")
            code = 0
        finally:
            os._exit(code)

    def _finished(self, session: pytest.Session, under_way: dict[int, _Trial]) -> Verdict:
        """Wait for a trial to end; where a test failed that fails without the change, too, go on behind it."""
        process, status = os.wait()
        trial = under_way.pop(process)
        end = _end_of(trial, status)
        while end.failure is not None and end.planted:
            test, rest = trial.tests[end.ran - 1], trial.tests[end.ran :]
            if self._passes_unchanged(session, test, trial):
                return replace(_verdict(trial, end), killed_by=f"{test.nodeid}{end.failure}")
            self._unsound.add(test.nodeid)
            if not rest:
                return replace(_verdict(trial, end), unsure=f"{test.nodeid} fails without the change, too")
            process, after = self._fork(session, rest, trial.file, trial.change)
            trial = replace(after, left_out=trial.left_out, begun=trial.begun)
            end = _end_of(trial, os.waitpid(process, 0)[1])
        verdict = _verdict(trial, end)
        return verdict if end.planted else replace(verdict, unsure="it could not be planted")

    def _passes_unchanged(self, session: pytest.Session, test: pytest.Item, trial: _Trial) -> bool:
        """Whether a test passes with the function's own code planted; of plain functions it is asked once."""
        loop = hasattr(function_of(trial.file, trial.change), "py_func")
        key = (test.nodeid, f"{trial.file}:{trial.change.inside}" if loop else "")
        if key not in self._sound:
            source = (self._project / trial.file).read_text()
            same = replace(trial.change, new=source[trial.change.start : trial.change.end])
            process, control = self._fork(session, [test], trial.file, same)
            end = _end_of(control, os.waitpid(process, 0)[1])
            self._sound[key] = end.planted and end.failure is None
        return self._sound[key]


def _verdict(trial: _Trial, end: _End) -> Verdict:
    """That nothing was noticed by the tests that ran: time may have run out before all had their turn."""
    ran, left = trial.tests[: end.ran], len(trial.tests) - end.ran
    asked = Chosen([test.nodeid for test in ran], trial.left_out + left)
    return Verdict(trial.file, trial.change, None, asked, time.monotonic() - trial.begun)


def _end_of(trial: _Trial, status: int) -> _End:
    """What became of the tests: a point for each that began, and whether the last of them passed or failed."""
    with os.fdopen(trial.answer) as answer:
        told = answer.read()
    code, ran = os.waitstatus_to_exitcode(status), told.count(".")
    if told[-1:] in {"P", "F"}:
        failure = None if told.endswith("P") else ""
    elif code < 0:
        failure = " (no end)" if -code in _NO_END else f" (signal {-code})"
    else:
        failure = f" (the process ends with {code})"
    return _End(ran > 0, ran, failure)


def _run(
    session: pytest.Session,
    tests: Sequence[pytest.Item],
    seconds: float = float("inf"),
    begins: Callable[[str], None] = lambda _: None,
) -> tuple[str, int]:
    """Run tests until one fails or so much processor time is used up; return the one that failed, and how many ran."""
    failures, begun = session.testsfailed, time.process_time()
    for ran, (test, following) in enumerate(zip(tests, [*tests[1:], None], strict=True), start=1):
        begins(test.nodeid)
        test.ihook.pytest_runtest_protocol(item=test, nextitem=following)
        if session.testsfailed > failures:
            return test.nodeid, ran
        if time.process_time() - begun > seconds:
            return "", ran
    return "", len(tests)


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
