"""A copy of the project in which a changed file is tried: the tests nearest to it first, wider ones if they pass.

Numba keeps compiled loops by the file that they stand in, and does not notice that a loop which they call has changed:
before and after each trial, what is kept of the changed file and of all that import it is thrown away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from changes import Change

PACKAGE: Final = Path("src/slackwater")
_WIDE: Final = ("tests/laws", "tests/papers", "tests/operators", "tests/streams")
"""What is asked last: the laws and the ways of users."""

_TOO_LONG: Final = 600
"""Seconds after which a change is taken to have made a loop without an end."""


@dataclass(frozen=True)
class Verdict:
    """What became of a change."""

    file: Path
    change: Change
    killed_by: str | None
    """The tests that failed, or None if all passed."""

    seconds: float


class Workshop:
    """A copy of the project; one trial at a time."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._folder = folder
        for name in ("src", "tests"):
            shutil.copytree(project / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(project / name, folder / name)
        (folder / "cache").mkdir()
        self._importers = importers(folder)

    def try_out(self, file: Path, change: Change) -> Verdict:
        """Change the file, run tests until some fail, and put everything back."""
        place = self._folder / file
        source = place.read_text()
        begun = time.monotonic()
        stale = [file, *sorted(self._importers.get(file, ()))]
        self._forget(stale)
        place.write_text(change.of(source))
        try:
            for tests in suites(self._folder, file, stale[1:]):
                failed = self._failure_of(tests)
                if failed is not None:
                    return Verdict(file, change, failed, time.monotonic() - begun)
        finally:
            place.write_text(source)
            self._forget(stale)
        return Verdict(file, change, None, time.monotonic() - begun)

    def _failure_of(self, tests: list[str]) -> str | None:
        """The first test that fails, if one does."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
        surroundings = {
            **os.environ,
            "PYTHONPATH": str(self._folder / "src"),
            "NUMBA_CACHE_DIR": str(self._folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            done = subprocess.run(  # noqa: S603 - our own tests
                command,
                cwd=self._folder,
                env=surroundings,
                capture_output=True,
                text=True,
                timeout=_TOO_LONG,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no end"
        if done.returncode == 0:
            return None
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0].split(" - ")[0] if lines else f"pytest exits with {done.returncode}"

    def _forget(self, files: list[Path]) -> None:
        """Throw away compiled loops of these files."""
        for file in files:
            for kept in (self._folder / "cache").glob(f"*/{file.stem}.*"):
                kept.unlink()


def importers(folder: Path) -> dict[Path, set[Path]]:
    """For each file those that import it, by whatever way."""
    direct: dict[Path, set[Path]] = {}
    files = [path.relative_to(folder) for path in sorted((folder / PACKAGE).rglob("*.py"))]
    for file in files:
        text = (folder / file).read_text()
        for other in files:
            module = ".".join(other.with_suffix("").parts[1:])
            if f"from {module} import" in text:
                direct.setdefault(other, set()).add(file)
    found: dict[Path, set[Path]] = {}
    for file in files:
        reached, to_see = set[Path](), list(direct.get(file, ()))
        while to_see:
            one = to_see.pop()
            if one not in reached:
                reached.add(one)
                to_see.extend(direct.get(one, ()))
        found[file] = reached
    return found


def suites(folder: Path, file: Path, users: list[Path]) -> list[list[str]]:
    """The tests of a file, then those of its users in the same layer and the next, then wide ones."""
    own = _mirrored(folder, file)
    near = [test for user in users if _is_near(file, user) for test in _mirrored(folder, user) if test not in own]
    spark = ["tests/runners/spark"] if "spark" in file.parts else []
    wide = spark or [name for name in _WIDE if (folder / name).exists()]
    return [tests for tests in (own, near, wide) if tests]


def _mirrored(folder: Path, file: Path) -> list[str]:
    place = Path("tests") / file.relative_to(PACKAGE).parent / f"test_{file.stem}.py"
    return [str(place)] if (folder / place).exists() else []


def _is_near(file: Path, user: Path) -> bool:
    layers = {file.relative_to(PACKAGE).parts[0], "kernels", "operators"}
    return user.relative_to(PACKAGE).parts[0] in layers
