"""A source of a query in process, as control records are applied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.steered import Steered
from slackwater.plan.node import SourceNode
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.punctuation import Ground, Punctuation
from slackwater.runners.steering import Way

if TYPE_CHECKING:
    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.source_driver import SourceDriver


class SourceWay(Way):
    """A source, which is punctuated as if it had punctuated itself."""

    def __init__(self, graph: SourceGraph, driver: SourceDriver) -> None:
        node = graph.nodes[driver]
        assert isinstance(node, SourceNode)
        self.source = node
        self.name = node.name
        self.calendar = node.schema.calendar
        self._graph = graph
        self._driver = driver
        self._punctuated: Instant = BEGINNING
        if node.properties.latent:
            self.why_fixed = "its rows have no times yet"
        elif not node.properties.insert_only:
            self.why_fixed = "it is a log, which says itself how far it is complete"

    @property
    def first_step(self) -> Step | None:
        """The first step that decides how far it is complete, where there is one."""
        return next((step for step in self.steps() if isinstance(step.operator, Steered)), None)

    def newest(self) -> Instant:
        """The greatest time of its rows so far."""
        return self._driver.newest

    def reached(self) -> Instant:
        """Up to where it is complete: as its first step says; without one by its rows, which come in order then."""
        if self._driver.end_sent:
            return FOREVER
        step = self.first_step
        if step is None:
            return self._driver.newest
        assert isinstance(step.operator, Steered)
        return step.operator.reached()

    def punctuate(self, bound: Instant) -> None:
        """Punctuate behind the rows that it has sent."""
        if bound > self._punctuated and not self._driver.end_sent:
            self._punctuated = bound
            self._graph.put(self._driver, self._driver.batch_of(Punctuation(bound, Ground.HEARTBEAT)))

    def steps(self) -> list[Step]:
        """All steps that its rows may come to."""
        return self._graph.steps_behind(self._driver)
