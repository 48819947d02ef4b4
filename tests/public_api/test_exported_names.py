"""What `import slackwater` offers, and what it does not drag in."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator

_FROM_TYPING = {"TYPE_CHECKING", "Any"}
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
    "cyclopts",
    "rich",
]


_ON_SPARK = (
    *("DeltaSink", "DeltaSource", "FolderSink", "FunctionSink", "JetStreamSource", "MicroBatch", "ParquetFiles"),
    *("PostgresSink", "QueryListener", "Sink", "SparkQuery"),
)
_OFFERED = (*sw.__all__, *_ON_SPARK)

_NOT_FOR_USERS = {
    "Node": "the plan behind a stream",
    "Properties": "what a plan knows of a stream, to be read",
    "EventSchema": "how batches become rows",
    "ChangeLog": "how batches become rows",
    "Cadence": "what a policy is to a step",
    "CadenceUnit": "made by constructors that have names",
    "Emit": "made by constructors that have names",
    "LateAction": "made by constructors that have names",
    "ReleaseLevel": "made by constructors that have names",
    "When": "made by constructors that have names",
    "Function": "made by functions that have names",
    "FileOpener": "what a file system that users name becomes",
    "Replica": "in signatures a stream of any kind; the class of the name is a part of a merge",
    "ControlFolder": "where a query on Spark finds what it is asked",
    "FileSourceOptions": "the names of Spark's options, for type checkers",
    **dict.fromkeys(("DeltaSourceOptions", "JetStreamOptions"), "the names of a source's options, for type checkers"),
    **dict.fromkeys(("DeltaReader", "EndingReader", "JetStreamReader", "TableLog"), "what Spark asks a source for"),
    "SparkFeed": "what a source is to stream()",
    "Ending": "a query on Spark is made by start()",
    "BetweenBatches": "a query on Spark is made by start()",
    **dict.fromkeys(("Pair", "Part", "Rules", "Units"), "what bounds are made of, and are to a step"),
    **dict.fromkeys(("Claim", "NoFolder", "Place", "Run"), "how the Spark runner comes to own a folder"),
    **dict.fromkeys(("DeltaClaim", "PostgresClaim"), "how the Spark runner comes to own a table"),
    **dict.fromkeys(("CurvePoint", "Outcome"), "what fit_bounds() found, to be read"),
    **dict.fromkeys(
        (
            *("AheadGuard", "Copies", "Future", "Heat", "PatienceAdvice", "PatienceOutcome", "Skew", "SourceProfile"),
            *("SpanOfRows", "Spread"),
        ),
        "what profile() found, to be read",
    ),
    "WrongClock": "what profile() found, to be read",
    **dict.fromkeys(("Pair", "Rules", "Units"), "bounds in the units of one stream"),
    **dict.fromkeys(("InputPipeline", "Pack", "Reader"), "how runners read a source"),
}
"""Classes in signatures of what is offered that nobody needs to name, and why."""


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
        if not name.startswith("_") and not inspect.ismodule(value) and name not in _FROM_TYPING
    } - set(_ON_SPARK)
    assert public == set(sw.__all__)


def test_every_exported_name_says_what_it_is() -> None:
    """Classes and functions have docstrings."""
    for name in _OFFERED:
        value = getattr(sw, name)
        assert isinstance(value, int) or inspect.getdoc(value), name


def test_exported_names_do_not_hide_what_they_are_called() -> None:
    """sw.x is an object called x, of slackwater, so that messages and help() speak of the same thing."""
    for name in _OFFERED:
        value = getattr(sw, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert (value.__module__, value.__name__) == ("slackwater", name)


def test_the_version_is_that_of_the_package() -> None:
    """Written in two places, which agree."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert sw.__version__ == project["project"]["version"]


@pytest.mark.parametrize(
    "value", [sw.Late.drop(), sw.count("x"), sw.Counters(rows_in=3), sw.LeftOut(), sw.Every.rows(5)]
)
def test_what_is_declared_to_be_of_slackwater_is_found_there_when_it_is_read_again(value: object) -> None:
    """Plans are sent to Python workers by their pickles, and snapshots are kept."""
    written = pickle.dumps(value)
    assert f"slackwater\x94\x8c{chr(len(type(value).__name__))}{type(value).__name__}".encode("latin1") in written
    assert pickle.loads(written) == value  # noqa: S301 - our own


def _annotations(value: Any) -> Iterator[str]:
    """The types in the signatures of a function, or of the public methods, properties and fields of a class."""
    if inspect.isclass(value):
        for name, member in inspect.getmembers(value):
            if name == "__init__" or not name.startswith("_"):
                yield from _annotations(member.fget if isinstance(member, property) else member)
        yield from map(str, getattr(value, "__annotations__", {}).values())
    elif inspect.isfunction(value) or inspect.ismethod(value):
        signature = inspect.signature(value)
        types = [signature.return_annotation, *(one.annotation for one in signature.parameters.values())]
        yield from (str(one) for one in types if one is not signature.empty)


def test_classes_in_signatures_are_offered() -> None:
    """Whoever writes types for what is given and returned finds their names here."""
    root = Path(sw.__file__).parent
    files = [file for file in root.rglob("*.py") if "testing" not in file.relative_to(root).parts]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    ours = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    named = {word for name in _OFFERED for text in _annotations(getattr(sw, name)) for word in re.findall(r"\w+", text)}
    public = {name for name in named & ours if not name.startswith("_")}
    assert public - set(_OFFERED) - set(_NOT_FOR_USERS) == set()
    assert set(_NOT_FOR_USERS) <= named, "a reason that is no longer needed"


def test_what_needs_spark_is_listed_though_it_is_not_loaded() -> None:
    """Editors show it; a star does not load PySpark; and a wrong name is one."""
    code = """
import sys, slackwater as sw
from slackwater import *
listed = {"FolderSink", "SparkQuery"} <= set(dir(sw))
print(listed, "pyspark" in sys.modules, sw.FolderSink("x").path, "pyspark" in sys.modules, hasattr(sw, "Folder"))
"""
    assert _python(code) == "True False x True False"


def test_what_needs_spark_says_so_where_it_is_not_installed() -> None:
    """With the command that installs it."""
    code = (
        _ABSENT.partition("import slackwater")[0]
        + """
import slackwater as sw
try:
    sw.FolderSink
except sw.errors.PlanError as error:
    print(error)
"""
    )
    assert "pip install 'slackwater[spark]'" in _python(code)


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
