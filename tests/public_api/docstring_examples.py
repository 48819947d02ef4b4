"""Finds the examples in docstrings; those that need Spark are run where Spark is."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

import slackwater

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

MODULES = sorted(module.name for module in pkgutil.walk_packages(slackwater.__path__, "slackwater."))


def examples_of(module: ModuleType) -> Iterator[doctest.DocTest]:
    """The examples of a module. What is offered says that it is of slackwater, so it is looked for here."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    if module is not slackwater:  # which only shows what others have
        yield from finder.find(module)
    kinds = ast.ClassDef | ast.FunctionDef
    defined = {node.name for node in ast.parse(inspect.getsource(module)).body if isinstance(node, kinds)}
    for name in sorted(defined):
        value = getattr(module, name)
        if value.__module__ != module.__name__:
            yield from finder.find(value, f"{module.__name__}.{name}", module=False, globs=vars(module).copy())


def needs_spark(example: doctest.DocTest) -> bool:
    """Whether it uses a session, which is called `spark`."""
    return any("spark." in part.source for part in example.examples)


def on_spark() -> list[doctest.DocTest]:
    """All examples that need Spark."""
    found = [one for name in MODULES for one in examples_of(importlib.import_module(name))]
    return [one for one in found if needs_spark(one)]
