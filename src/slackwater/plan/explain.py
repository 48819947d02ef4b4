"""Renders a plan as a tree: what each step does, what is known of its output, and why it is done this way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.emission import DIVERTED
from slackwater.plan.diverted_names import names_of_diverted
from slackwater.plan.node import Node, name_steps
from slackwater.plan.rewrites.optimizer import optimized_in_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def explain(*roots: Node) -> str:
    """Write the plan as it will run, last step first, one line per step with its facts and its reason."""
    planned = optimized_in_process(*roots)
    names = name_steps(*planned)
    seen: set[int] = set()
    lines = [line for root in planned for line in _lines(root, "", "", seen, names)]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    tree = [f"{what:<{widths[0]}}  {facts:<{widths[1]}}  {why}".rstrip() for what, facts, why in lines]
    return "\n".join([*tree, *_diverted(planned, names)])


def _diverted(roots: Sequence[Node], names: dict[Node, str]) -> Iterator[str]:
    """Where several steps divert rows: what those of each are called in a result, and on Spark."""
    for output in DIVERTED:
        steps = names_of_diverted(*roots, output=output)
        if len(steps) > 1:
            yield f"{output} rows  " + ", ".join(f"{name} of {names[step]}" for step, name in steps.items())


def _lines(node: Node, lead: str, below: str, seen: set[int], names: dict[Node, str]) -> Iterator[tuple[str, str, str]]:
    if id(node) in seen:
        yield f"{lead}{names[node]}", "", "shown above; runs once"
        return
    seen.add(id(node))
    yield f"{lead}{names[node]} {node.details()}".rstrip(), str(node.properties), node.reason()
    for position, source in enumerate(node.inputs):
        last = position == len(node.inputs) - 1
        branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _lines(source, below + branch, below + trunk, seen, names)
