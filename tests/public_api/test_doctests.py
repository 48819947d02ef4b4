"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import slackwater

_MODULES = sorted(module.name for module in pkgutil.walk_packages(slackwater.__path__, "slackwater."))
_WITH_EXAMPLES = 20
"""There are at least so many examples; fewer would mean that they are no longer found."""


@pytest.mark.parametrize("name", ["slackwater", *_MODULES])
def test_examples_print_what_they_say(name: str) -> None:
    """Every module by itself."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    """A test of nothing would pass too."""
    found = doctest.DocTestFinder()
    examples = [test for name in _MODULES for test in found.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= _WITH_EXAMPLES
