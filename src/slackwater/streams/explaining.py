"""explain(): which runner's plan is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message
from slackwater.plan.explain import explain
from slackwater.plan.node import SourceNode, walk
from slackwater.streams.on_spark import loaded_from_spark

if TYPE_CHECKING:
    from slackwater.plan.node import Node

SPARK: Final = "spark"
_RUNNERS: Final = (None, "in_process", SPARK)


def explained(*roots: Node, runner: str | None, shards: int | None) -> str:
    """The plan of streams as text, as the runner would run it; without one, of the only one that can."""
    if runner not in _RUNNERS:
        facts, hint = {"got": repr(runner)}, 'write runner="spark", or leave it out'
        raise PlanError(message("there is no such runner", facts, hint))
    if runner == SPARK or (runner is None and _only_on_spark(*roots)):
        return _on_spark(*roots, shards=shards, must=runner is not None)
    if shards is not None:
        raise PlanError(message("there are shards on Spark only", {"shards": shards}, 'explain(runner="spark", ...)'))
    return explain(*roots)


def _only_on_spark(*roots: Node) -> bool:
    return any(getattr(node.feed, "only_on_spark", False) for node in walk(*roots) if isinstance(node, SourceNode))


def _on_spark(*roots: Node, shards: int | None, must: bool) -> str:
    """As Spark would run it. A plan that is not finished is shown as it is, with what Spark would say of it."""
    try:
        text: str = loaded_from_spark("explain")(roots, shards)
    except PlanError as refused:
        if must:
            raise
        return f"{explain(*roots)}\nSpark  {str(refused).splitlines()[0]}"
    return text
