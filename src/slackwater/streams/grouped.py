"""A stream on its way to an aggregate: which columns make the groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.aggregating_steps import aggregate
from slackwater.plan.row_steps import stamped
from slackwater.policies.aggregates import Aggregate
from slackwater.policies.late import Late

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.plan.node import Node
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length
    from slackwater.streams.bands import Streams
    from slackwater.streams.ordered import OrderedStream

_DIVERT = Late.divert()


@dataclass(frozen=True)
class GroupedStream:
    """Events and the columns to group them by; to be aggregated, once or in bands."""

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

        _require_aggregates("aggregate(", aggregates)
        return OrderedStream(aggregate(stamped(self.node), self.keys, aggregates))

    def in_bands(
        self, *patiences: Length, every: Every | None = None, late: Late = _DIVERT, **aggregates: Aggregate
    ) -> Streams:
        """Sum up each group at several latencies, the shortest patience first. See `DisorderedStream.in_bands`.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 30, "k": "a"}, {"at": 4, "k": "a"}]
        >>> soon, final = sw.stream(rows, time="at").tumbling(10).group_by("k").in_bands(5, 50, n=sw.count())
        >>> final.run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2, 'band': 1}
        """
        from slackwater.streams.bands import bands_of_aggregates

        _require_aggregates('in_bands("1s", "1m", ', aggregates)
        return bands_of_aggregates(self.node, self.keys, aggregates, patiences, every, late)


def _require_aggregates(call: str, aggregates: Mapping[str, Aggregate]) -> None:
    """Refuse a call, shown up to its aggregates, that has none or something else."""
    if not aggregates:
        step = call.partition("(")[0]
        raise PlanError(message(f"{step} was asked for nothing", {}, f"for example {call}n=sw.count())"))
    for name, what in aggregates.items():
        if not isinstance(what, Aggregate):
            facts = {"name": name, "got": repr(what)}
            raise PlanError(message("this is not an aggregate", facts, f"for example {call}{name}=sw.count())"))
