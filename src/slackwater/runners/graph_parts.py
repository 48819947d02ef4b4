"""The parts of an operator graph: outputs, where batches leave; arcs, the queues that carry them on; and steps.

A step is an operator at its place. What a runner notes there stands with it, also where only one of them does so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.operators.emission import DIVERTED, OutputName
from slackwater.operators.operator import Operator, StatelessOperator
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.runners.result import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port


Sink: TypeAlias = "Callable[[EventBatch], None]"
"""Takes the batches of an output; only those that hold rows, for punctuations are an inner matter."""


class Arc:
    """A queue between a producer and one input of its consumer. `None` in the queue is the end of the stream."""

    __slots__ = ("asleep", "attached", "consumer", "cut", "ended", "port", "producer", "queue", "wanted_from")

    def __init__(self, producer: Output, consumer: Step, port: Port) -> None:
        # A step, also where the arc begins at one of its side outputs; or where rows enter the graph.
        self.producer = producer
        self.consumer = consumer
        self.port = port
        self.queue: deque[EventBatch | None] = deque()
        # What only concerns time before this is of no interest to the consumer.
        self.wanted_from: Instant = BEGINNING
        # Whether the consumer listens; if not, whether its source is left unread; and whether the end has come.
        self.attached, self.asleep, self.ended = True, False, False
        # Whether a replica that has left needed it, and nobody else: then nothing goes this way.
        self.cut = False

    def clear(self) -> int:
        """Forget what waits; return how many elements did."""
        waited = sum(len(batch) for batch in self.queue if batch is not None)
        self.queue.clear()
        return waited


class Output:
    """Where batches leave: the arcs that carry them on, the sinks that take them, and the counters that count them."""

    __slots__ = (
        "arcs",
        "complete_before",
        "counters",
        "ignored_before",
        "late",
        "name",
        "ordered",
        "sinks",
        "sinks_want_from",
    )

    def __init__(self, name: str, counters: Counters, *, late: bool = False) -> None:
        self.name = name
        self.late = late
        self.counters = counters
        self.arcs: list[Arc] = []
        self.sinks: list[Sink] = []
        self.sinks_want_from: Instant = BEGINNING
        self.ignored_before: Instant = BEGINNING
        # For outputs that have sinks: whether rows come in order, and up to where they have all been sent.
        self.ordered = False
        self.complete_before: Instant = BEGINNING

    @property
    def outputs(self) -> tuple[Output, ...]:
        """All outputs of who puts this one out: itself, and those beside it."""
        return (self,)

    def note_progress(self, batch: EventBatch) -> None:
        """Learn from a batch that is sent how far the output is complete."""
        if batch.kind is not None:
            self.complete_before = max(self.complete_before, int(batch.punctuations().max(initial=BEGINNING)))
        if self.ordered and batch.rows:
            self.complete_before = max(self.complete_before, int(batch.data().start[-1]))

    def wanted_from(self) -> Instant:
        """What only concerns time before this is of no interest to anybody who reads the output."""
        least = min((arc.wanted_from for arc in self.arcs), default=FOREVER)
        return min(least, self.sinks_want_from) if self.sinks else least

    def ignore_before(self, bound: Instant) -> None:
        """Learn what nobody is interested in who reads it. Whoever puts out what others made can do nothing."""


class Step(Output):
    """An operator at its place in the graph; the step itself is its main output, `side` has those beside it."""

    __slots__ = ("held_back", "holds", "idle_since", "inputs", "open_inputs", "operator", "side")

    def __init__(self, name: str, operator: Operator[Any], ports: int, side: Iterable[OutputName] = ()) -> None:
        super().__init__(name, Counters())
        self.operator = operator
        self.inputs: list[Arc] = []
        # Late rows and those left out did not go on: the operator counts them, so that they are not among the rows out.
        self.side = {
            output: Output(f"{name} ({output})", Counters(), late=True)
            if output in DIVERTED
            else Output(f"{name} ({output})", self.counters)
            for output in side
        }
        self.open_inputs = ports
        self.holds = not isinstance(operator, StatelessOperator)
        self.held_back = 0
        self.idle_since: Instant | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The main output, and those beside it."""
        return (self, *self.side.values())

    def wanted_from(self) -> Instant:
        """What only concerns time before this is of no interest to anybody who reads one of the outputs."""
        return min(super().wanted_from(), *(output.wanted_from() for output in self.side.values()), FOREVER)

    def ignore_before(self, bound: Instant) -> None:
        """Let the operator know what nobody is interested in; it may let go of what it holds."""
        self.operator.ignore_before(bound)
        self.counters.buffered = self.operator.buffered()

    def waiting_arc(self) -> Arc | None:
        """The first input with something in its queue."""
        for arc in self.inputs:
            if arc.queue:
                return arc
        return None

    def next_from_here(self) -> Step | None:
        """Forward to a consumer for whom something was put out, encore if something is left, None to backtrack."""
        for arc in self.arcs:
            if arc.queue:
                return arc.consumer
        if self.side:
            for output in self.side.values():
                for arc in output.arcs:
                    if arc.queue:
                        return arc.consumer
        for arc in self.inputs:
            if arc.queue:
                return self
        return None
