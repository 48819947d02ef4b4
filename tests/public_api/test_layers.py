"""Dependencies point one way: every import of every module, read from its source, is checked against one table."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import slackwater

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(slackwater.__file__).parent
_FILES = sorted(_ROOT.rglob("*.py"))

_MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "notebook": set(),
    "progress": {"errors"},
    "events": {"errors", "progress"},
    "policies": {"errors", "progress", "kernels"},
    "kernels": set(),
    "temporal": {"errors", "progress", "events", "policies", "kernels"},
    "columns": {"errors", "progress", "events", "kernels"},
    "operators": {"errors", "progress", "events", "policies", "kernels", "columns"},
    # Bounds are fitted by replaying a sample through the generator that will use them.
    "disorder": {"errors", "notebook", "progress", "policies", "kernels", "operators"},
    "plan": {"errors", "progress", "events", "policies", "kernels", "columns", "temporal", "operators"},
    "runners": {
        *("errors", "progress", "events", "policies", "kernels", "columns", "temporal", "operators", "plan"),
        "notebook",
    },
    "streams": {
        *("errors", "progress", "events", "policies", "kernels", "columns", "temporal", "operators", "plan", "runners"),
        *("disorder", "notebook"),
    },
    "sources": {
        *("errors", "progress", "events", "policies", "kernels", "columns", "temporal", "operators", "plan", "runners"),
        "streams",
    },
    "profiling": {
        *("errors", "notebook", "progress", "kernels", "columns", "policies", "operators", "plan", "disorder"),
        *("runners", "sources"),
    },
    "cli": {
        *("errors", "progress", "kernels", "operators", "plan", "runners", "streams", "sources", "profiling"),
    },
}
"""What each layer may import besides itself; the testing kit and the package itself may import all."""

_ANYTHING = {"testing", "__init__", "__main__"}


def _layer(file: Path) -> str:
    return file.relative_to(_ROOT).with_suffix("").parts[0]


class _Source(NamedTuple):
    """What the source of a module says of it."""

    imports: tuple[str, ...]
    """The dotted names that it imports, those for type checkers and those inside functions included."""

    clocks_read: tuple[str, ...]
    docstring: str | None


@functools.cache  # the tests below ask the same files for one thing after the other
def _source(file: Path) -> _Source:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imports = tuple(name for node in nodes for name in _imported(node, file))
    return _Source(imports, tuple(ast.unparse(node) for node in nodes if _reads_a_clock(node)), ast.get_docstring(tree))


def _imported(node: ast.AST, file: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{file}: imports are absolute"
        assert node.module is not None
        yield from (f"{node.module}.{name.name}" for name in node.names)


_CLOCK_CALLS = {
    "now",
    "utcnow",
    "today",
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
}


def _reads_a_clock(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    return node.value.id in {"datetime", "date", "time"} and node.attr in _CLOCK_CALLS


def _imports_of(file: Path, package: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for name in _source(file).imports)


@pytest.mark.parametrize("file", _FILES, ids=lambda file: str(file.relative_to(_ROOT)))
def test_a_module_imports_only_from_layers_below_it(file: Path) -> None:
    """The table says which; whatever is named later there stands above what is named before."""
    layer = _layer(file)
    if layer in _ANYTHING:
        return
    imported = {name.split(".")[1] for name in _source(file).imports if name.startswith("slackwater.")}
    assert imported <= {layer, *_MAY_IMPORT[layer]}


def test_every_layer_has_its_line_in_the_table() -> None:
    """A new folder must say where it stands."""
    assert {_layer(file) for file in _FILES} - _ANYTHING == set(_MAY_IMPORT)


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("numba", ("kernels", "testing/reference")),
        ("hypothesis", ("testing",)),
        ("pytest", ()),
        ("pyspark", ("runners/spark",)),
        ("time", ("progress/clock.py",)),
        ("random", ("testing",)),
        ("slackwater.testing", ("testing",)),
        ("asyncio", ("runners/spark/feeds/jetstream_server.py",)),
        ("logging", ()),
        ("pickle", ()),
    ],
)
def test_some_packages_have_one_place(package: str, allowed: tuple[str, ...]) -> None:
    """How they are used is decided there and nowhere else."""
    users = [str(file.relative_to(_ROOT)) for file in _FILES if _imports_of(file, package)]
    assert [user for user in users if not user.startswith(allowed or ("nowhere",))] == []


def test_only_sources_and_commands_import_streams() -> None:
    """The fluent API is the top, except for the functions that make streams, and for who runs them by a command."""
    users = {_layer(file) for file in _FILES if _imports_of(file, "slackwater.streams")}
    assert users - _ANYTHING <= {"streams", "sources", "cli"}


@pytest.mark.parametrize("file", _FILES, ids=lambda file: str(file.relative_to(_ROOT)))
def test_only_clocks_read_the_time(file: Path) -> None:
    """Elsewhere datetime is a type, never a clock."""
    if file == _ROOT / "progress" / "clock.py":
        return
    assert _source(file).clocks_read == ()


@pytest.mark.parametrize("file", _FILES, ids=lambda file: str(file.relative_to(_ROOT)))
def test_every_module_begins_with_a_sentence(file: Path) -> None:
    """A stranger learns from its first line what a file is for."""
    docstring = _source(file).docstring
    assert docstring
    assert len(docstring.splitlines()[0]) > 20
