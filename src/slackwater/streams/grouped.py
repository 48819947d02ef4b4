"""A stream on its way to an aggregate: which columns make the groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.aggregating_steps import aggregate
from slackwater.plan.row_steps import stamped
from slackwater.policies.aggregates import Aggregate

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.streams.ordered import OrderedStream


@dataclass(frozen=True)
class GroupedStream:
    """Events and the columns to group them by; the one thing to do with it is aggregate()."""

    node: Node
    keys: tuple[str, ...]

    def aggregate(self, **aggregates: Aggregate) -> OrderedStream:
        """Sum up each group, per window or per span in which its set of living events does not change.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 4, "k": "a"}, {"at": 12, "k": "b"}]
        >>> ordered = sw.stream(rows, time="at").assume_ordered()
        >>> ordered.tumbling(10).group_by("k").aggregate(n=sw.count()).run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}
        """
        from slackwater.streams.ordered import OrderedStream

        if not aggregates:
            raise PlanError(message("aggregate was asked for nothing", {}, "for example aggregate(n=sw.count())"))
        for name, what in aggregates.items():
            if not isinstance(what, Aggregate):
                facts = {"name": name, "got": repr(what)}
                raise PlanError(message("this is not an aggregate", facts, f"for example aggregate({name}=sw.count())"))
        return OrderedStream(aggregate(stamped(self.node), self.keys, aggregates))
