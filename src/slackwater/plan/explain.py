"""Renders a plan as a tree: what each step does, what is known of its output, and why it is done this way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.operators.emission import DIVERTED
from slackwater.plan.diverted_names import names_of_diverted
from slackwater.plan.node import Node, name_steps
from slackwater.plan.rewrites.optimizer import optimized_in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def explain(*roots: Node) -> str:
    """Write the plan as it will run in process, last step first, one line per step with its facts and its reason."""
    planned = optimized_in_process(*roots)
    names = name_steps(*planned)
    return "\n".join([*Drawing(names, (facts_of,)).of(planned), *_diverted(planned, names)])


def facts_of(node: Node) -> str:
    """What is known of the output of a node."""
    return str(node.properties)


def runs_once(node: Node) -> str:  # noqa: ARG001 - as every step does in process
    """What stands for a step that was shown before."""
    return "shown above; runs once"


@dataclass
class Drawing:
    """Draws plans as they are, one line per step: its name, some columns, and its reason."""

    names: Mapping[Node, str]
    columns: Sequence[Callable[[Node], str]]
    again: Callable[[Node], str] = runs_once
    """What stands for a step that was shown before."""

    _shown: set[Node] = field(default_factory=set, init=False)

    def of(self, roots: Sequence[Node]) -> list[str]:
        """Draw the trees above some nodes, one below the other."""
        rows = [row for root in roots for row in self._rows(root)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = ([f"{text:<{width}}" for text, width in zip(row, widths, strict=True)] for row in rows)
        return ["  ".join(row).rstrip() for row in padded]

    def _rows(self, node: Node, lead: str = "", below: str = "") -> Iterator[list[str]]:
        """The columns of a node and of all that it reads; `lead` stands before its name, `below` before the others."""
        if node in self._shown:
            yield [f"{lead}{self.names[node]}", *("" for _ in self.columns), self.again(node)]
            return
        self._shown.add(node)
        name = f"{lead}{self.names[node]} {node.details()}".rstrip()
        yield [name, *(column(node) for column in self.columns), node.reason()]
        for position, source in enumerate(node.row_inputs):
            last = position == len(node.row_inputs) - 1
            branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
            yield from self._rows(source, below + branch, below + trunk)


def _diverted(roots: Sequence[Node], names: Mapping[Node, str]) -> Iterator[str]:
    """Where several steps divert rows: what those of each are called in a result, and on Spark."""
    for output in DIVERTED:
        steps = names_of_diverted(*roots, output=output)
        if len(steps) > 1:
            yield f"{output} rows  " + ", ".join(f"{name} of {names[step]}" for step, name in steps.items())
