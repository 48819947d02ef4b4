"""docs/runners.md says what the runners say today, of every kind of step that users can write."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from slackwater.plan import rewrites
from slackwater.plan.node import Node
from slackwater.testing.torture import operators_found

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOOL = Path(__file__).parents[2] / "tools" / "runners"

_MADE_BY_REWRITES = {
    *("AssignPanes", "ChangesInShards", "HeartbeatsInShards", "Hold", "PreaggregatedRows", "ProgressOnly"),
    *("PunctuateGroups", "PunctuateUnlessSummedUp", "RelatedInShards", "ReplicaHeartbeats", "SelectRead"),
}
"""Steps, and parts of steps, that nobody writes: those whose place they take are asked about."""


@pytest.fixture(scope="module")
def tool() -> SimpleNamespace:
    """The tool, with its own folder to import from."""
    sys.path.insert(0, str(_TOOL))
    try:
        return SimpleNamespace(**runpy.run_path(str(_TOOL / "write_page.py")))
    finally:
        sys.path.remove(str(_TOOL))


def test_the_page_is_current(tool: SimpleNamespace) -> None:
    """`make runners` writes it anew."""
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run make runners"


def test_every_refusal_says_what_to_do(tool: SimpleNamespace) -> None:
    """A reason without a hint leaves its reader alone."""
    reasons = [reason for one in tool.page().split("## Why not")[1].splitlines() if (reason := one.partition(". ")[2])]
    assert len(reasons) > 5
    assert [reason for reason in reasons if "; " not in reason] == []


def _written(kind: type[Node]) -> Iterator[type[Node]]:
    for one in kind.__subclasses__():
        yield one
        yield from _written(one)


def test_every_kind_of_step_is_asked_about(tool: SimpleNamespace) -> None:
    """A new one comes to tools/runners/features.py."""
    assert operators_found()  # which imports all nodes
    for module in pkgutil.iter_modules(rewrites.__path__, f"{rewrites.__name__}."):
        importlib.import_module(module.name)
    kinds = {one for one in _written(Node) if one.__module__.startswith("slackwater.") and not inspect.isabstract(one)}  # type: ignore[type-abstract]
    missing = {one.__name__ for one in kinds - tool.nodes()}
    assert sorted(missing - _MADE_BY_REWRITES) == []
    assert missing >= _MADE_BY_REWRITES, "of these some are gone"
