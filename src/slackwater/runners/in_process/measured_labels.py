"""Decides, while a query runs, which of its rows are held: by how many rows each step has made of those it took.

Growth is counted over the last rows of each step, so that it follows a stream that changes; a step that has taken few
counts as one that makes a row of each. What a step has taken and still holds for another input does not count yet.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 7.4.

Invariants: decisions depend on the rows and how they were read, on no clock. Whatever is decided, rows that were sent
stay sent and punctuations never go back; after a restart holds wait for whom they did, until rows were counted anew.
Cost: O(steps) for each step of the runner, where growth is measured at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slackwater.operators.hold import HoldOperator
from slackwater.plan.nodes.releasing import ChooseRelease, Hold
from slackwater.plan.rewrites.labels import LabelledPlan
from slackwater.runners.graph_parts import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.operators.emission import Emission
    from slackwater.plan.node import Node
    from slackwater.runners.in_process.graph import SourceGraph

FEW_ROWS: Final = 100
"""So many rows must a step have taken before its growth counts."""

LAST_ROWS: Final = 100_000
"""Growth is that of about so many rows, or twice as many: what was before counts half, and half of that."""


@dataclass(slots=True)
class MeasuredGrowth:
    """How many rows a step has made of those it took, lately.

    >>> growth = MeasuredGrowth()
    >>> growth.count(taken=200, made=600)
    >>> growth.per_row
    3.0
    """

    taken: float = 0.0
    made: float = 0.0
    all_taken: int = 0
    all_made: int = 0

    def count(self, taken: int, made: int) -> None:
        """Learn how many rows it has taken and made in all."""
        self.taken, self.made = self.taken + taken - self.all_taken, self.made + made - self.all_made
        self.all_taken, self.all_made = taken, made
        if self.taken > 2 * LAST_ROWS:
            self.taken, self.made = self.taken / 2, self.made / 2

    @property
    def per_row(self) -> float | None:
        """Rows made for each taken; None of too few."""
        return self.made / self.taken if self.taken >= FEW_ROWS else None


class MeasuredLabels:
    """The holds of a graph whose releases are measured, and the steps whose growth decides."""

    def __init__(self, graph: SourceGraph) -> None:
        chosen = [one for one in graph.nodes.values() if isinstance(one, ChooseRelease) and one.release.measured]
        steps = {node: step for step, node in graph.nodes.items() if isinstance(step, Step)}
        self._plans = [LabelledPlan.under(one.input) for one in chosen]
        self._holds = {node: step for node, step in steps.items() if isinstance(node, Hold) and node.release.measured}
        unknown = (node for plan in self._plans for node in plan.steps if node.rows_per_row is None)
        self._counted = {node: (steps[node], MeasuredGrowth(all_taken=_taken(steps[node]))) for node in unknown}

    def decided(self) -> Iterator[tuple[Step, Emission]]:
        """Count rows, and let holds wait for others where labels have changed: each of those, with what it lets go."""
        if not self._holds:
            return
        for step, growth in self._counted.values():
            growth.count(_taken(step), step.counters.rows_out)
        wanted: dict[Node, set[Node]] = {hold: set() for hold in self._holds}
        for plan in self._plans:
            for (_, hold), label in plan.waits(self._rows_per_row).items():
                wanted[hold] |= label
        for hold, step in self._holds.items():
            assert isinstance(hold, Hold)
            assert isinstance(step.operator, HoldOperator)
            ports = tuple(port for port, other in enumerate(hold.others, 1) if other.input in wanted[hold])
            if ports != step.operator.waits_for:
                yield step, step.operator.wait_for(ports)

    def _rows_per_row(self, node: Node) -> float:
        if node not in self._counted:
            return 1.0 if node.rows_per_row is None else node.rows_per_row
        _, growth = self._counted[node]
        return 1.0 if growth.per_row is None else growth.per_row


def _taken(step: Step) -> int:
    """How many rows a step has taken in and works on: those that wait for another input do not count yet."""
    return step.counters.rows_in - step.operator.held_back()
