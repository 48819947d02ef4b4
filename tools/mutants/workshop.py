"""A copy of the project in which a changed file is tried; the project itself is only read.

Numba keeps compiled loops by the file that they stand in, and does not notice that a loop which they call has changed:
during each trial, what is kept of the changed file and of all that import it is set aside.
"""

from __future__ import annotations

import hashlib
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
from nearest_tests import PACKAGE, Chosen, NearestTests, Notes
from verdict import Verdict
from watched_tests import NOTES, SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from changes import Change

_WATCHED: Final = (
    *("disorder", "events", "kernels", "laws", "operators", "papers", "plan", "policies", "progress"),
    *("public_api/test_doctests.py", "runners/in_process", "runners/test_in_process_runner.py"),
    *("runners/test_side_outputs.py", "sources", "streams", "temporal"),
)
"""The tests that are watched: those without Spark."""

_OTHER_PROCESSES: Final = "test_compilation.py"
"""Left out of them: it compiles in processes of its own, slowly, and asks for no results."""

_SLOWER: Final = 4
"""How many times as much processor time as was noted tests may take, before a change is taken to have no end."""

_BESIDE: Final = 60
"""Seconds on top of that, for starting and for compiling."""

_LONGEST: Final = 600
"""Seconds by the clock after which a change is taken to have no end in any case."""


class Workshop:
    """A copy of the project; one trial at a time."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._folder = folder
        (folder / "cache").mkdir(parents=True, exist_ok=True)
        self._copy(project)

    def try_in_forks(
        self,
        sample: list[tuple[Path, Change]],
        nearest: NearestTests,
        limits: tuple[int, float, float],
        report: Callable[[Verdict], None],
    ) -> None:
        """Try changes of plain functions (`forks.py`), in this process: it becomes one that runs tests of the copy."""
        os.environ["NUMBA_CACHE_DIR"] = str(self._folder / "cache")
        os.chdir(self._folder)
        sys.path.insert(0, str(self._folder / "src"))
        plugins = [watched_tests, ForkedTrials(self._folder, sample, nearest, limits, report)]
        tests = [f"tests/{name}" for name in _WATCHED]
        pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-p", "no:randomly", *tests], plugins=plugins)

    def _copy(self, project: Path) -> None:
        """Bring the copy up to date, and forget the compiled loops of what is new or was left changed."""
        shutil.rmtree(self._folder / "aside", ignore_errors=True)
        changed = []
        for name in ("src", "tests", "benchmarks", "pyproject.toml", "README.md"):
            fresh = {path.relative_to(project) for path in _files(project / name)}
            for path in {path.relative_to(self._folder) for path in _files(self._folder / name)} - fresh:
                (self._folder / path).unlink()
            for path in fresh:
                there = self._folder / path
                if not there.exists() or there.read_bytes() != (project / path).read_bytes():
                    there.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(project / path, there)  # with its time, by which compiled code is kept
                    changed.append(path)
        self._importers = importers(self._folder)
        for path in changed:
            for kept in self._compiled([path, *self._importers.get(path, ())]):
                kept.unlink()
        if changed:
            self._pytest(
                ["--collect-only", *(f"tests/{name}" for name in _WATCHED)], {}, None
            )  # byte code is kept, too

    def watch(self, jobs: int) -> Notes:
        """The notes of all tests; test files that are the same as when they were last watched are not run again."""
        notes, folder = Notes(), self._folder / "notes"
        folder.mkdir(exist_ok=True)
        files = [self._folder / "tests" / name for name in _WATCHED]
        files = [file for name in files for file in ([name] if name.is_file() else sorted(name.rglob("test_*.py")))]
        files = [file for file in files if file.name != _OTHER_PROCESSES]
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
        done = self._pytest(["-n", str(jobs), *tests], {NOTES: str(folder)}, None)
        print(done.stdout[-2_000:] if done.returncode else done.stdout.splitlines()[-1], flush=True)
        return [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]

    def try_out(self, file: Path, change: Change, nearest: NearestTests, most_seconds: float) -> Verdict:
        """Change the file, run tests until one fails, and put everything back."""
        place, begun = self._folder / file, time.monotonic()
        source, stamp = place.read_text(), place.stat()
        chosen = (  # what runs on Spark is not watched: whole files of tests stand for it
            Chosen([f"tests/runners/spark/test_{file.stem}.py"], 0)
            if "spark" in file.parts
            else nearest.of(file, change.inside, most_seconds)
        )
        if not chosen.tests:
            return Verdict(file, change, None, chosen, 0.0)
        stale = [file, *self._importers[file]]
        aside = self._folder / "aside"
        for kept in self._compiled(stale):
            (aside / kept.parent.name).mkdir(parents=True, exist_ok=True)
            kept.rename(aside / kept.parent.name / kept.name)
        place.write_text(change.of(source))
        try:
            failed = self._failure_of(chosen.tests, None if "spark" in file.parts else most_seconds)
        finally:
            place.write_text(source)
            os.utime(place, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # compiled code is kept with this time
            for kept in self._compiled(stale):
                kept.unlink()
            for kept in aside.glob("*/*"):
                kept.rename(self._folder / "cache" / kept.parent.name / kept.name)
        return Verdict(file, change, failed, chosen, time.monotonic() - begun)

    def _failure_of(self, tests: list[str], most_seconds: float | None) -> str | None:
        """The first test that fails, if one does."""
        (self._folder / "asked.txt").write_text("\n".join(tests))
        more = {"PYTHONDONTWRITEBYTECODE": "1"}
        if most_seconds is not None:
            more[SECONDS] = str(int(_SLOWER * most_seconds) + _BESIDE)
        try:
            done = self._pytest(["-x", "@asked.txt"], more, _LONGEST)
        except subprocess.TimeoutExpired:
            return "no end"
        if done.returncode == 0:
            return None
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "no end"
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0].split(" - ")[0] if lines else f"pytest exits with {done.returncode}"

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
        return subprocess.run(  # noqa: S603 - our own tests
            [sys.executable, "-m", "pytest", "-q", *plugins, *arguments],
            cwd=self._folder,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=longest,
            check=False,
        )

    def _compiled(self, files: list[Path]) -> list[Path]:
        """What Numba keeps of these files."""
        return [kept for file in files for kept in (self._folder / "cache").glob(f"*/{file.stem}.*")]


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _sources(project: Path) -> list[Path]:
    return [path.relative_to(project) for path in sorted((project / PACKAGE).rglob("*.py"))]


def importers(folder: Path) -> dict[Path, set[Path]]:
    """For each file those that import it, by whatever way."""
    direct: dict[Path, set[Path]] = {}
    files = _sources(folder)
    texts = {file: (folder / file).read_text() for file in files}
    for other in files:
        module = ".".join(other.with_suffix("").parts[1:])
        direct[other] = {file for file, text in texts.items() if f"from {module} import" in text}
    found: dict[Path, set[Path]] = {}
    for file in files:
        reached, to_see = set[Path](), list(direct[file])
        while to_see:
            one = to_see.pop()
            if one not in reached:
                reached.add(one)
                to_see.extend(direct[one])
        found[file] = reached
    return found
