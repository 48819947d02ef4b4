"""Which tests can notice a change of a function: those that enter it, the quickest first.

A compiled loop is not seen to be entered; for it stand the functions that call it, directly or through other loops.
What runs on Spark and is not seen to be entered is entered by Spark: it is tried there.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PACKAGE: Final = Path("src/slackwater")
_ON_SPARK: Final = "runners/spark/"


@dataclass(frozen=True)
class Chosen:
    """The tests for one change."""

    tests: list[str]
    left_out: int
    """How many more enter the function, but would take too long."""


@dataclass
class Notes:
    """What was noted of the tests (`watched_tests.py`)."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test takes."""

    entered_by: dict[str, set[str]] = field(default_factory=dict)
    """The tests by the functions that they enter."""

    def add(self, line: str) -> None:
        r"""Take a line of the notes.

        >>> notes = Notes()
        >>> notes.add('{"test": "tests/test_a.py::test_b", "seconds": 0.1, "enters": ["a.py:f"]}')
        >>> notes.entered_by
        {'a.py:f': {'tests/test_a.py::test_b'}}
        """
        note = json.loads(line)
        self.seconds[note["test"]] = note["seconds"]
        for function in note["enters"]:
            self.entered_by.setdefault(function, set()).add(note["test"])


class NearestTests:
    """Chooses tests by the notes and by who calls whom."""

    def __init__(self, project: Path, notes: Notes) -> None:
        self._notes = notes
        self._callers = callers(project)

    def of(self, file: Path, function: str, most_seconds: float) -> Chosen:
        """The tests of a function: those of its own file first, then the quickest, for so many seconds at most.

        The second case of a test has its turn when all other tests have had their first: it hardly asks anything else.
        """
        own = own_tests(file)
        # Tests and examples of a loop may call it themselves, which nobody sees.
        example = f"[{'.'.join(file.with_suffix('').parts[1:])}]"
        of_the_file = (test for test in self._notes.seconds if test.startswith(own) or test.endswith(example))
        entering = self._entering(f"{file.relative_to(PACKAGE)}:{function}").union(of_the_file)
        quickest = sorted(entering, key=lambda test: (self._notes.seconds[test], test))
        cases: Counter[str] = Counter()
        turns = {}
        for test in quickest:
            turns[test] = cases[test.partition("[")[0]]
            cases[test.partition("[")[0]] += 1
        found = sorted(quickest, key=lambda test: (not test.startswith(own), turns[test]))
        chosen, spent = [], 0.0
        for test in found:
            if spent + self._notes.seconds[test] <= most_seconds:
                spent += self._notes.seconds[test]
                chosen.append(test)
        return Chosen(chosen, len(found) - len(chosen))

    def seconds(self, test: str) -> float:
        """How long a test was noted to take."""
        return self._notes.seconds[test]

    def _entering(self, function: str) -> set[str]:
        """The tests that enter it, or that enter the nearest functions by which it is called."""
        found, seen, to_see = set[str](), {function}, [function]
        while to_see:
            one = to_see.pop()
            tests = self._notes.entered_by.get(one)
            if tests:
                found |= tests
                continue
            if one.startswith(_ON_SPARK):
                continue
            file, _, name = one.partition(":")
            name = name.rpartition(".")[2]
            for caller in self._callers.get(name, ()):
                elsewhere = name.startswith("_") and not caller.startswith(f"{file}:")
                if caller not in seen and not elsewhere:
                    seen.add(caller)
                    to_see.append(caller)
        return found


def own_tests(file: Path) -> str:
    """The tests of a file: they lie as the files do.

    >>> own_tests(PACKAGE / "kernels" / "saturating.py")
    'tests/kernels/test_saturating.py'
    """
    return f"tests/{file.relative_to(PACKAGE).parent}/test_{file.stem}.py"


def callers(project: Path) -> dict[str, set[str]]:
    """For each name the functions that use it, as `file:Class.method`: a guess by names, which errs by too many."""
    found: dict[str, set[str]] = {}
    for file in sorted((project / PACKAGE).rglob("*.py")):
        name = file.relative_to(project / PACKAGE).as_posix()
        _note_names(ast.parse(file.read_text()).body, f"{name}:", found)
    return found


def _note_names(body: list[ast.stmt], inside: str, found: dict[str, set[str]]) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            _note_names(statement.body, f"{inside}{statement.name}.", found)
        elif isinstance(statement, ast.FunctionDef):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name | ast.Attribute):
                    used = node.id if isinstance(node, ast.Name) else node.attr
                    found.setdefault(used, set()).add(f"{inside}{statement.name}")
