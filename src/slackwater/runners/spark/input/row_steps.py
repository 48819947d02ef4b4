"""The steps before the shards, which treat each row by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.plan.node import StepNode


class RowSteps:
    """Lets events pass some steps, one after the other; built once for a task."""

    def __init__(self, steps: Sequence[StepNode], where: str) -> None:
        self._operators = [step.build(f"{step.verb} of {where}") for step in steps]

    def through(self, events: EventBatch) -> list[EventBatch]:
        """What is left of events, if anything is."""
        treated = [events]
        for operator in self._operators:
            treated = [after for before in treated for after in operator.on_batch(0, before).batches]
        return [some for some in treated if some.rows]

    def each(self, chunks: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """The same of many, one by one."""
        for events in chunks:
            yield from self.through(events)
