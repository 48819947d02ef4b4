"""Where replicas of one stream contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.compare_replicas import CompareReplicas
from slackwater.plan.nodes.replicas import as_replica
from slackwater.plan.nodes.revisions import CompleteAtEnd
from slackwater.progress.instants import FOREVER
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.event_stream import EventStream
from slackwater.streams.revised import RevisedStream

if TYPE_CHECKING:
    from slackwater.streams.replicas import Replica


def compare_replicas(first: Replica, second: Replica, *others: Replica, whole: bool = False) -> DisorderedStream:
    """Name the events that replicas do not agree on: the row, the number of the replica, and how it differs.

    A merge believes one replica and goes on; run this beside it (`sw.run_together`) to know whether they have the same
    story. Events are compared when they will not change any more in any replica. What most replicas say is right, or
    the one with the least number where there are as many on either side. The column `divergence` says of a replica that
    differs that the event is "missing" or "extra" there, or that it has it with another end: "missing end" for the one
    that the others have, "different end" for its own.

    A replica that ends may have been cut off, so what it lacks after its last row is no contradiction. For
    replicas that are known to be complete, such as two files, `whole=True` compares everything.

    >>> import slackwater as sw
    >>> blue = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}, {"at": 3, "x": "c"}], time="at").assume_ordered()
    >>> green = sw.stream([{"at": 1, "x": "a"}, {"at": 3, "x": "c"}], time="at").assume_ordered()
    >>> sw.compare_replicas(blue, green, whole=True).run().table.to_pylist()
    [{'at': 2, 'x': 'b', 'replica': 1, 'divergence': 'missing'}]
    """
    replicas = (first, second, *others)
    if not all(isinstance(replica, EventStream | RevisedStream) for replica in replicas):
        facts, hint = {"got": ", ".join(type(replica).__name__ for replica in replicas)}, "compare_replicas(a, b)"
        raise PlanError(message("compare_replicas takes streams", facts, hint))
    nodes = [as_replica(replica.node) for replica in replicas]
    if whole:
        nodes = [CompleteAtEnd(node, FOREVER) for node in nodes]
    return DisorderedStream(CompareReplicas(tuple(nodes)))
