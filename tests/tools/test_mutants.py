"""The changes that the mutation run plants, and what it takes for explained."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

_TOOL = Path(__file__).parents[2] / "tools" / "mutants"
sys.path.insert(0, str(_TOOL))

from changes import changes_of  # noqa: E402 - found by the path above
from workshop import importers, suites  # noqa: E402

_PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return a < b", ["return a <= b"]),
        ("return a + 1", ["return a + 2", "return a - 1"]),
        ("return not (a == b)", ["return (a == b)", "return not (a != b)"]),
        ("return min(a, b)", ["return max(a, b)"]),
        ("return a and b", ["return a or b"]),
        ("a.sort()", ["pass"]),
        ("a += b", ["pass"]),
        ("return 'é' + a", ["return 'é' - a"]),
        ("return 'a text with 1 < 2 in it'", []),
        ("raise ValueError(a < b)", []),
    ],
)
def test_each_change_is_one_place_of_the_line(line: str, changed: list[str]) -> None:
    """Each change gives the file with one place altered, and nothing else."""
    source = f"def f(a, b):\n    {line}\n"
    given = [change.of(source).splitlines()[1].strip().replace("  ", " ") for change in changes_of(source)]
    assert sorted(given) == sorted(changed)


def test_conditions_are_turned_round() -> None:
    """A condition is also tried the other way round."""
    source = "def f(a):\n    if a:\n        return a\n"
    assert "if not (a):" in changes_of(source)[0].of(source)


def test_every_change_of_a_real_file_parses() -> None:
    """A change that is no Python would be noticed by every test, and say nothing of them."""
    for file in (_PROJECT / "src/slackwater/kernels").glob("*.py"):
        source = file.read_text()
        for change in changes_of(source):
            ast.parse(change.of(source))


def test_the_tests_of_a_kernel_are_its_own_and_those_of_its_users() -> None:
    """The nearest tests come first, then those of operators that use it, then the laws."""
    kernel = Path("src/slackwater/kernels/past_grid.py")
    users = sorted(importers(_PROJECT)[kernel])
    assert Path("src/slackwater/operators/window.py") in users
    own, near, wide = suites(_PROJECT, kernel, users)
    assert own == ["tests/kernels/test_past_grid.py"]
    assert "tests/operators/test_window.py" in near
    assert "tests/laws" in wide
