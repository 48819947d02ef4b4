"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

import pytest

import slackwater

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_MODULES = sorted(module.name for module in pkgutil.walk_packages(slackwater.__path__, "slackwater."))
_WITH_EXAMPLES = 120
"""There are at least so many examples; fewer would mean that they are no longer found."""


def _examples(module: ModuleType) -> Iterator[doctest.DocTest]:
    """The examples of a module. Classes that are offered say they are of slackwater, so they are looked for here."""
    finder = doctest.DocTestFinder()
    if module is not slackwater:  # which only shows what others have
        yield from finder.find(module)
    defined = {node.name for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)}
    for name in sorted(defined):
        value = getattr(module, name)
        if value.__module__ != module.__name__:
            yield from finder.find(value, f"{module.__name__}.{name}", module=False, globs=vars(module).copy())


@pytest.mark.parametrize("name", ["slackwater", *_MODULES])
def test_examples_print_what_they_say(name: str) -> None:
    """Every module by itself."""
    runner = doctest.DocTestRunner()
    for example in _examples(importlib.import_module(name)):
        assert runner.run(example).failed == 0


def test_there_are_examples() -> None:
    """A test of nothing would pass too; those of classes that are offered are among them."""
    examples = [one for name in _MODULES for one in _examples(importlib.import_module(name)) if one.examples]
    assert len(examples) >= _WITH_EXAMPLES
    assert {"slackwater.streams.query.Query.stop", "slackwater.streams.event_stream.EventStream.where"} <= {
        one.name for one in examples
    }
