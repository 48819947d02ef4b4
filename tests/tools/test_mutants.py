"""The changes that the mutation run plants, and what it takes for explained."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slackwater.operators.match.alive_rows import first_instant_beyond

_TOOL = Path(__file__).parents[2] / "tools" / "mutants"
sys.path.insert(0, str(_TOOL))

from changes import changes_of  # noqa: E402 - found by the path above
from forks import function_of, plant  # noqa: E402
from nearest_tests import NearestTests, Notes  # noqa: E402
from workshop import WATCHED, Workshop  # noqa: E402

_PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return a < b", ["return a <= b"]),
        ("return a + 1", ["return a + 2", "return a - 1"]),
        ("return not (a == b)", ["return (a == b)", "return not (a != b)"]),
        ("return min(a, b)", ["return max(a, b)"]),
        ("return a and b", ["return a or b"]),
        ("return a if b else c", ["return a if not (b) else c"]),
        ("with f(a or b): pass", ["with f(a and b): pass"]),
        ("a.sort()", ["0 and (a.sort())"]),
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


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.long)])
def test_every_change_of_a_real_file_parses(every: int) -> None:
    """A change that is no Python would be noticed by every test, and say nothing of them."""
    for file in sorted((_PROJECT / "src/slackwater/kernels").rglob("*.py")):
        source = file.read_text()
        for change in changes_of(source)[::every]:
            ast.parse(change.of(source))


def test_the_tests_of_a_compiled_loop_are_those_that_enter_its_callers() -> None:
    """A loop is not seen to be entered: the functions that call it stand for it."""
    notes = Notes()
    for test, function, seconds in (
        ("tests/laws/test_slow.py::test_it", "kernels/progress/past_grid.py:past_grid", 3.0),
        ("tests/laws/test_quick.py::test_it", "kernels/progress/past_grid.py:past_grid", 0.1),
        ("tests/kernels/progress/test_past_grid.py::test_it", "kernels/progress/past_grid.py:past_grid", 0.2),
        ("tests/operators/test_other.py::test_it", "operators/sort.py:SortOperator.on_batch", 0.1),
    ):
        notes.add(json.dumps({"test": test, "seconds": seconds, "enters": [function]}))
    example = "tests/public_api/test_doctests.py::test_examples[slackwater.kernels.progress.past_grid]"
    notes.add(json.dumps({"test": example, "seconds": 0.5, "enters": []}))
    nearest = NearestTests(_PROJECT, notes)
    chosen = nearest.of(Path("src/slackwater/kernels/progress/past_grid.py"), "_past_grid", 2.0)
    own = "tests/kernels/progress/test_past_grid.py::test_it"
    assert chosen.tests == [own, "tests/laws/test_quick.py::test_it", example]
    assert chosen.left_out == 1, "the slow one would take longer than there is time"


def test_handlers_and_guards_are_changed_too() -> None:
    """What is done when something fails, and when a case holds, decides as much as the rest."""
    source = """
def f(a):
    try:
        g()
    except ValueError:
        return a + b
    match a:
        case int() if a < b:
            return a
"""
    assert [change.what for change in changes_of(source)] == ["g() -> left out", "a + b -> a - b", "a < b -> a <= b"]


def test_a_trial_changes_the_copy_and_never_the_project(tmp_path: Path) -> None:
    """A bug is planted in a copy; afterwards project and copy are as they were, even one that a killed run left."""
    project, copy, file = tmp_path / "project", tmp_path / "copy", Path("src/slackwater/runners/spark/one.py")
    tests = "tests/runners/spark/test_one.py"
    for path, text in {
        file: "def following(x):\n    return x + 1\n",
        Path("src/slackwater/__init__.py"): "",
        Path(tests): (
            "from slackwater.runners.spark.one import following\n\ndef test_it():\n    assert following(3) == 4\n"
        ),
        Path("tests/conftest.py"): "from hypothesis import settings\nsettings.register_profile('short')\n",
        Path("pyproject.toml"): "",
        Path("README.md"): "",
        Path("benchmarks/__init__.py"): "",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    Workshop(project, copy)
    source = (project / file).read_text()
    (copy / file).write_text("left by a run that was killed")
    workshop = Workshop(project, copy)
    assert (copy / file).read_text() == source
    verdicts = [workshop.try_on_spark(file, change) for change in changes_of(source)]
    assert [verdict.killed_by for verdict in verdicts] == [f"{tests}::test_it"] * 2
    assert (project / file).read_text() == (copy / file).read_text() == source


def test_a_file_without_tests_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    """Where the tests of a file are not found nothing notices anything: that must not look like a bug that is found."""
    file = Path("src/slackwater/runners/spark/one.py")
    source = "def following(x):\n    return x + 1\n"
    (tmp_path / "project" / file).parent.mkdir(parents=True)
    (tmp_path / "project" / file).write_text(source)
    workshop = Workshop(tmp_path / "project", tmp_path / "copy")
    with pytest.raises(RuntimeError, match=r"one\.py has no tests on Spark"):
        workshop.try_on_spark(file, changes_of(source)[0])


def test_what_fails_without_the_change_notices_nothing(tmp_path: Path) -> None:
    """A test that cannot pass where changes are tried would take every one of them for noticed."""
    project, copy = tmp_path / "project", tmp_path / "copy"
    fails_in_forks = """
import os
from slackwater.one import after, before

_BEGAN = os.getpid()

def test_it():
    assert before(3) == 2

def test_only_where_it_began():
    assert after(3) > 3 and os.getpid() == _BEGAN
"""
    for path, text in {
        "src/slackwater/__init__.py": "",
        "src/slackwater/one.py": "def after(x):\n    return x + 1\n\ndef before(x):\n    return x - 1\n",
        "tests/conftest.py": "from hypothesis import settings\nsettings.register_profile('short')\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
        "README.md": "",
        "benchmarks/__init__.py": "",
        **{f"tests/{name}" if name.endswith(".py") else f"tests/{name}/test_none.py": "" for name in WATCHED},
        "tests/operators/test_one.py": fails_in_forks,
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    script = """
import sys
from pathlib import Path
from changes import changes_of
from nearest_tests import NearestTests
from workshop import Workshop

project, file = Path(sys.argv[1]), Path("src/slackwater/one.py")
workshop = Workshop(project, Path(sys.argv[2]))
nearest = NearestTests(project, workshop.watch(1))
sample = [(file, change) for change in changes_of(Path(project, file).read_text())]
def report(verdict):
    print("verdict", verdict.change.key, "|", verdict.killed_by, "|", verdict.unsure)
workshop.try_in_forks(sample, nearest, (1, 20.0, float("inf")), report)
"""
    command = [sys.executable, "-c", script, str(project), str(copy)]
    done = subprocess.run(  # noqa: S603 - our own lines
        command, check=False, env={**os.environ, "PYTHONPATH": str(_TOOL)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    tests = "tests/operators/test_one.py"
    unsure = f"None | {tests}::test_only_where_it_began fails without the change, too"
    noticed = f"{tests}::test_it | "
    assert [line.partition("verdict ")[2] for line in done.stdout.splitlines() if "verdict " in line] == [
        f"after: x + 1 -> x - 1 | {unsure}",
        "after: x + 1 -> x + 2 | None | all of its tests fail without the change, too",
        f"before: x - 1 -> x + 1 | {noticed}",
        f"before: x - 1 -> x - 2 | {noticed}",
    ]


def test_every_explained_change_is_still_there() -> None:
    """When code moves on, what was explained of it is no longer; then the line goes, too."""
    package = _PROJECT / "src/slackwater"
    text = (_TOOL / "explained.txt").read_text()
    explained = {line for line in text.splitlines() if line and line[0] not in "# "}
    possible = set()
    for name in {line.partition(": ")[0] for line in explained}:
        for change in changes_of((package / name).read_text()):
            possible |= {f"{name}: {change.key}", f"{name}: {change.inside}: any change"}
    assert explained <= possible


def test_a_plain_function_is_changed_wherever_it_is_known() -> None:
    """Its code is replaced, not its name: also those who imported it by name run the changed one."""
    file = Path("src/slackwater/operators/match/alive_rows.py")
    (change,) = [one for one in changes_of((_PROJECT / file).read_text()) if one.key.endswith("distance), 2)")]
    known, code = first_instant_beyond, first_instant_beyond.__code__
    assert known(np.array([5]), 10).tolist() == [16]
    try:
        plant(_PROJECT / file, file, change)
        assert known(np.array([5]), 10).tolist() == [17]
    finally:
        first_instant_beyond.__code__ = code
    assert known(np.array([5]), 10).tolist() == [16]


def test_methods_and_properties_are_found_too() -> None:
    """Every plain function of operators, whatever is wrapped around it, can be given other code."""
    for source in sorted((_PROJECT / "src/slackwater/operators").rglob("*.py")):
        file = source.relative_to(_PROJECT)
        importlib.import_module(".".join(file.with_suffix("").parts[1:]))
        assert all(function_of(file, change) is not None for change in changes_of(source.read_text())), file


def test_a_compiled_loop_is_compiled_anew_with_those_that_call_it() -> None:
    """In a process of its own: what is compiled there stays there."""
    script = """
import sys
from pathlib import Path
import numpy as np
from changes import changes_of
from forks import plant
from slackwater.kernels.sorting.stragglers import _find_slices

def cuts():
    at = np.array([[0], [0], [5]])
    return _find_slices(np.arange(1, 6), np.array([5]), np.array([3]), at).tolist()

assert cuts() == [2]
file = Path("src/slackwater/kernels/sorting/stragglers.py")
source = Path(sys.argv[1], file)
(change,) = [one for one in changes_of(source.read_text()) if one.key == sys.argv[2]]
plant(source, file, change)
assert cuts() == [3], cuts()
"""
    change = "find_cuts: times[middle] < complete_before -> times[middle] <= complete_before"
    path = os.pathsep.join([str(_PROJECT / "src"), str(_TOOL)])
    command = [sys.executable, "-c", script, str(_PROJECT), change]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})  # noqa: S603 - our own lines
