"""Renders a plan as a tree: what each step does, what is known of its output, and why it is done this way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.node import Node, name_steps

if TYPE_CHECKING:
    from collections.abc import Iterator


def explain(root: Node) -> str:
    """Write the plan, last step first, one line per step with its facts and its reason."""
    names = name_steps(root)
    lines = list(_lines(root, "", "", set(), names))
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    return "\n".join(f"{what:<{widths[0]}}  {facts:<{widths[1]}}  {why}".rstrip() for what, facts, why in lines)


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
