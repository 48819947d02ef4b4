"""One stream out of several replicas of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.merging_steps import MergeReplicas
from slackwater.plan.ordering_steps import Sort
from slackwater.plan.row_steps import with_wide_dictionaries
from slackwater.policies.agreement import Agreement
from slackwater.streams.event_stream import EventStream
from slackwater.streams.ordered import OrderedStream

if TYPE_CHECKING:
    from slackwater.plan.node import Node


def merge_replicas(first: EventStream, *others: EventStream, agreement: Agreement | None = None) -> OrderedStream:
    """Tell once what several streams tell, that are the same but for order, pace, and gaps.

    Blue and green, two regions, a hot standby: each event goes out once, whoever tells it. Ordered replicas whose
    events have a key (answers of an aggregate do) are merged as they come. Of all others an event goes out when some
    replica has promised that it will not change, and all that is older has gone out.

    A replica must say how far it has come: by its order, or by punctuations. One that ends may have been cut off, so
    its end says nothing; when all have ended, the one that has come furthest has told everything.

    >>> import slackwater as sw
    >>> blue = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}], time="at").assume_ordered()
    >>> green = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}, {"at": 3, "x": "c"}], time="at").assume_ordered()
    >>> sw.merge_replicas(blue, green).run().table.to_pydict()
    {'at': [1, 2, 3], 'x': ['a', 'b', 'c']}
    """
    replicas = (first, *others)
    if not all(isinstance(replica, EventStream) for replica in replicas):
        facts = {"got": ", ".join(type(replica).__name__ for replica in replicas)}
        raise PlanError(
            message("merge_replicas takes streams", facts, "merge_replicas(a, b), not merge_replicas([a, b])")
        )
    nodes: tuple[Node, ...] = tuple(with_wide_dictionaries(replica.node) for replica in replicas)
    merged = MergeReplicas(nodes, agreement or Agreement.frozen())
    return OrderedStream(merged if merged.properties.ordered else Sort(merged))
