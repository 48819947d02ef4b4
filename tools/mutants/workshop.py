"""A copy of the project, in which changes are tried; the project itself is only read."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import watched_tests
from forks import ForkedTrials
from nearest_tests import PACKAGE, Chosen, NearestTests, Notes, own_tests
from verdict import Verdict
from watched_tests import NOTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from changes import Change

WATCHED: Final = (
    *("columns", "disorder", "events", "kernels", "laws", "operators", "papers", "plan", "policies", "progress"),
    *("public_api/test_doctests.py", "runners", "sources", "streams", "temporal", "testing"),
)
"""The tests that are watched; of those on Spark, what needs no session (`watched_tests.py`)."""

_WHOLE_QUERIES: Final = ("tests/runners/spark/test_runner.py", "tests/runners/spark/shard/test_timeouts.py")
"""Tests of whole queries, for a change of what runs on Spark that the tests of its own file do not notice."""

_LONGEST: Final = 600
"""Seconds after which a change of what runs on Spark is taken to have no end."""


class Workshop:
    """A copy of the project; one trial at a time."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._folder = folder
        self._sound: dict[str, bool] = {}
        self._copy(project)

    def try_in_forks(
        self,
        sample: list[tuple[Path, Change]],
        nearest: NearestTests,
        limits: tuple[int, float, float],
        report: Callable[[Verdict], None],
    ) -> None:
        """Try changes in forks (`forks.py`) of this process, which becomes one that runs the tests of the copy."""
        os.environ["NUMBA_CACHE_DIR"] = str(self._folder / "cache")
        os.chdir(self._folder)
        sys.path.insert(0, str(self._folder / "src"))
        for source in _sources(self._folder):
            if source.stem != "__init__":
                importlib.import_module(".".join(source.with_suffix("").parts[1:]))
        plugins = [watched_tests, ForkedTrials(self._folder, sample, nearest, limits, report)]
        tests = [f"tests/{name}" for name in WATCHED]
        arguments = ["-q", "-s", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
        if pytest.main(arguments, plugins=plugins) not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            message = "the tests cannot be run, so that no change can be noticed"
            raise RuntimeError(message)

    def _copy(self, project: Path) -> None:
        """Bring the copy up to date, also where a run that was killed has left it changed."""
        for name in ("src", "tests", "benchmarks", "examples", "pyproject.toml", "README.md"):
            fresh = {path.relative_to(project) for path in _files(project / name)}
            for path in {path.relative_to(self._folder) for path in _files(self._folder / name)} - fresh:
                (self._folder / path).unlink()
            for path in fresh:
                there = self._folder / path
                if not there.exists() or there.read_bytes() != (project / path).read_bytes():
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(project / path, there)  # with its time, by which compiled code is kept

    def watch(self, jobs: int) -> Notes:
        """The notes of all tests; test files that are the same as when they were last watched are not run again."""
        notes, folder = Notes(), self._folder / "notes"
        folder.mkdir(exist_ok=True)
        files = [self._folder / "tests" / name for name in WATCHED]
        files = [file for name in files for file in ([name] if name.is_file() else sorted(name.rglob("test_*.py")))]
        kept = {file: folder / f"{hashlib.sha256(file.read_bytes()).hexdigest()}.jsonl" for file in files}
        new = [file for file, note in kept.items() if not note.exists()]
        if new:
            lines = self._watched(new, jobs)
            for file in new:
                begin = f'{{"test": "{file.relative_to(self._folder)}::'
                kept[file].write_text("".join(f"{line}\n" for line in lines if line.startswith(begin)))
        for note in kept.values():
            for line in note.read_text().splitlines():
                notes.add(line)
        return notes

    def _watched(self, files: list[Path], jobs: int) -> list[str]:
        folder = self._folder / "just_noted"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tests = [str(file.relative_to(self._folder)) for file in files]
        processes = ["-n", str(jobs)] if jobs > 1 else []
        done = self._pytest([*processes, *tests], {NOTES: str(folder)}, None)
        if done.returncode != pytest.ExitCode.OK:  # what failed would notice nothing, or everything
            message = f"not all tests pass without any change:\n{done.stdout[-2_000:]}"
            raise RuntimeError(message)
        print(done.stdout.splitlines()[-1], flush=True)
        return [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]

    def try_on_spark(self, file: Path, change: Change) -> Verdict:
        """Change the file, run its tests and those of whole queries until one fails, and put everything back.

        What failed is run once more without the change: it says something only if it passes then.
        """
        place, begun = self._folder / file, time.monotonic()
        source, stamp = place.read_text(), place.stat()
        tests = [one for one in (own_tests(file), *_WHOLE_QUERIES) if (self._folder / one).exists()]
        if not tests:
            message = f"{file} has no tests on Spark, so that no change can be noticed"
            raise RuntimeError(message)
        place.write_text(change.of(source))
        try:
            failed = next(filter(None, map(self._failure_of, tests)), None)
        finally:
            place.write_text(source)
            os.utime(place, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # byte code is kept with this time
        unsure = "" if failed is None or self._passes(failed) else f"{failed} fails without the change, too"
        killed_by = None if unsure else failed
        return Verdict(file, change, killed_by, Chosen(tests, 0), time.monotonic() - begun, unsure)

    def _failure_of(self, tests: str) -> str | None:
        """The first test that fails, if one does, or else the file that cannot be run to its end."""
        done = self._pytest(["-x", tests], {"PYTHONDONTWRITEBYTECODE": "1"}, _LONGEST)
        if done.returncode == pytest.ExitCode.OK:
            return None
        if done.returncode in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
            message = f"{tests} cannot be run, so that no change can be noticed:\n{done.stdout[-2_000:]}"
            raise RuntimeError(message)
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
        return lines[0].partition(" ")[2].split(" - ")[0] if lines else tests

    def _passes(self, test: str) -> bool:
        """Whether a test, or all of a file, passes without any change; it is asked once."""
        if test not in self._sound:
            self._sound[test] = self._pytest([test], {}, _LONGEST).returncode == pytest.ExitCode.OK
        return self._sound[test]

    def _pytest(
        self, arguments: list[str], more: dict[str, str], longest: float | None
    ) -> subprocess.CompletedProcess[str]:
        plugins = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "watched_tests")
        surroundings = {
            **os.environ,
            "PYTHONPATH": f"{self._folder / 'src'}{os.pathsep}{Path(__file__).parent}",
            "NUMBA_CACHE_DIR": str(self._folder / "cache"),
            **more,
        }
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
        try:
            return subprocess.run(  # noqa: S603 - our own tests
                command,
                cwd=self._folder,
                env=surroundings,
                capture_output=True,
                text=True,
                timeout=longest,
                check=False,
            )
        except subprocess.TimeoutExpired:  # Java and the servers of its Pythons end when they see that it is gone
            return subprocess.CompletedProcess(command, -signal.SIGKILL, "", "")


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _sources(project: Path) -> list[Path]:
    return [path.relative_to(project) for path in sorted((project / PACKAGE).rglob("*.py"))]
