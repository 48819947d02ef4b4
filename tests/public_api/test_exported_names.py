"""What `import slackwater` offers, and what it does not drag in."""

from __future__ import annotations

import inspect
import subprocess
import sys

import slackwater as sw

_HEAVY = [
    "pyspark",
    "pandas",
    "hypothesis",
    "matplotlib",
    "pytest",
    "IPython",
    "polars",
    "duckdb",
    "slackwater.testing",
]


def _isort_style(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions, each in order of the alphabet."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def test_exported_names_are_sorted_and_each_is_there_once() -> None:
    """A reader finds a name where it should be."""
    assert sw.__all__ == sorted(set(sw.__all__), key=_isort_style)


def test_exported_names_are_all_public_names() -> None:
    """Nothing is offered by accident, and nothing is listed that is not there."""
    public = {
        name
        for name, value in vars(sw).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }
    assert public == set(sw.__all__)


def test_every_exported_name_says_what_it_is() -> None:
    """Classes and functions have docstrings."""
    for name in sw.__all__:
        value = getattr(sw, name)
        assert isinstance(value, int) or inspect.getdoc(value), name


def test_exported_names_do_not_hide_what_they_are_called() -> None:
    """sw.x is an object called x, so that messages and help() speak of the same thing."""
    for name in sw.__all__:
        value = getattr(sw, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__name__ == name


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_slackwater_imports_no_library_that_is_heavy_or_optional() -> None:
    """Neither Java's bridge nor optional libraries nor those of tests."""
    assert _python(f"import sys, slackwater; print([name for name in {_HEAVY} if name in sys.modules])") == "[]"


_ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pandas", "pyspark", "hypothesis"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import slackwater as sw
ordered = sw.stream([{"at": 1, "k": "a"}], time="at").assume_ordered()
print(ordered.tumbling(5).group_by("k").aggregate(n=sw.count()).run().table.num_rows)
"""


def test_a_pipeline_runs_where_optional_libraries_are_not_installed() -> None:
    """They are optional also for those who use more than the import."""
    assert _python(_ABSENT) == "1"


def test_a_package_for_type_checkers() -> None:
    """The marker file is installed beside the modules."""
    assert (
        _python("import slackwater, pathlib; print((pathlib.Path(slackwater.__file__).parent / 'py.typed').exists())")
        == "True"
    )
