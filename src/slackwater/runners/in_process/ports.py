"""The arcs of the query graph: queues from one step to an input of another."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.operators.operator import Operator, StatelessOperator
from slackwater.runners.runner import Counters

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant
    from slackwater.runners.in_process.demand import SourceDriver


Sink: TypeAlias = "Callable[[EventBatch], None]"
"""Takes the batches of an output; only those that hold rows, for punctuations are an inner matter."""


class Arc:
    """A queue between a producer and one input of its consumer. `None` in the queue is the end of the stream."""

    __slots__ = ("consumer", "port", "producer", "queue")

    def __init__(self, producer: Step | SourceDriver, consumer: Step, port: Port) -> None:
        self.producer = producer
        self.consumer = consumer
        self.port = port
        self.queue: deque[EventBatch | None] = deque()


class Step:
    """An operator at its place in the graph."""

    __slots__ = (
        "counters",
        "held_back",
        "holds",
        "idle_since",
        "inputs",
        "name",
        "open_inputs",
        "operator",
        "outputs",
        "sinks",
    )

    def __init__(self, name: str, operator: Operator[Any], ports: int) -> None:
        self.name = name
        self.operator = operator
        self.inputs: list[Arc] = []
        self.outputs: list[Arc] = []
        self.sinks: list[Sink] = []
        self.open_inputs = ports
        self.counters = Counters()
        self.holds = not isinstance(operator, StatelessOperator)
        self.held_back = 0
        self.idle_since: Instant | None = None

    def waiting_arc(self) -> Arc | None:
        """The first input with something in its queue."""
        for arc in self.inputs:
            if arc.queue:
                return arc
        return None

    def next_from_here(self) -> Step | None:
        """Forward to a consumer for whom something was put out, encore if something is left, None to backtrack."""
        for arc in self.outputs:
            if arc.queue:
                return arc.consumer
        for arc in self.inputs:
            if arc.queue:
                return self
        return None
