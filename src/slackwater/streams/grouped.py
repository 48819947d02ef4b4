"""A stream on its way to an aggregate: which columns make the groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.aggregating import aggregate
from slackwater.plan.nodes.bands import split_by_lateness
from slackwater.plan.nodes.early_aggregate import EarlyAggregate
from slackwater.plan.nodes.rows import stamped
from slackwater.policies.aggregates import Aggregate
from slackwater.policies.late import Late
from slackwater.policies.lateness import refuse_without_patience
from slackwater.streams.bounded import waiting, with_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.plan.node import Node
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length
    from slackwater.streams.bands import PatienceBands
    from slackwater.streams.ordered import OrderedStream
    from slackwater.streams.revised import RevisedStream

_DIVERT = Late.divert()


@dataclass(frozen=True, repr=False)
class GroupedStream:
    """Events and the columns to group them by; to be aggregated: once, in bands, or early.

    >>> import slackwater as sw
    >>> sw.stream([{"at": 1, "k": "a"}], time="at").group_by("k")
    <GroupedStream by k, time=at>
    """

    node: Node
    keys: tuple[str, ...]

    def __repr__(self) -> str:
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"<GroupedStream{by}, time={self.node.schema.time.name}>"

    def aggregate(self, **aggregates: Aggregate) -> OrderedStream:
        """Sum up each group, per window or per span in which its set of living events does not change.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 4, "k": "a"}, {"at": 12, "k": "b"}]
        >>> ordered = sw.stream(rows, time="at").assume_ordered()
        >>> ordered.tumbling(10).group_by("k").aggregate(n=sw.count()).run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}
        """
        from slackwater.streams.ordered import OrderedStream

        require_aggregates("aggregate(", aggregates)
        return OrderedStream(aggregate(stamped(self.node), self.keys, aggregates))

    def in_bands(
        self,
        *patiences: Length,
        every: Every | None = None,
        late: Late = _DIVERT,
        bounds: Bounds | None = None,
        ahead: Length | None = None,
        **aggregates: Aggregate,
    ) -> PatienceBands:
        """Sum up each group at several latencies, the shortest patience first. See `DisorderedStream.in_bands`.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 30, "k": "a"}, {"at": 4, "k": "a"}]
        >>> soon, final = sw.stream(rows, time="at").tumbling(10).group_by("k").in_bands(5, 50, n=sw.count())
        >>> final.run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2, 'band': 1}
        """
        from slackwater.streams.bands import bands_of_aggregates

        require_aggregates('in_bands("1s", "1m", ', aggregates)
        node = with_bounds(self.node, late, bounds, ahead)
        return bands_of_aggregates(node, self.keys, aggregates, patiences, every, late)

    def aggregate_early(
        self,
        patience: Length | None = None,
        *,
        every: Every | None = None,
        late: Late = _DIVERT,
        bounds: Bounds | None = None,
        ahead: Length | None = None,
        **aggregates: Aggregate,
    ) -> RevisedStream:
        """Sum up each window and group, send the answers at once, and revise them when later rows change them.

        Each batch of rows sends the answers that it has changed: the former one is removed, the new one inserted. An
        answer is final when its window can get no more rows: when the greatest time seen is a patience past its end.
        `every`, `late`, `bounds` and `ahead` are those of sort(). Without a patience or bounds the stream's own order
        or punctuations are obeyed. How often an answer is revised on the way depends on how rows are batched; what is
        final does not.

        `settle()` gives the final answers alone; replicas that answer early can be merged by merge_replicas(). An early
        sum must fit its type as a final one must.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 12, "k": "a"}, {"at": 3, "k": "a"}]
        >>> windows = sw.stream(rows, time="at").tumbling(10)
        >>> counts = windows.group_by("k").aggregate_early(patience=20, n=sw.count())
        >>> for row in counts.run().table.to_pylist():
        ...     print(row["change"], row["window_start"], row["k"], row["n"])
        insert 0 a 1
        insert 10 a 1
        remove 0 a 1
        insert 0 a 2
        >>> counts.settle().run().table["n"].to_pylist()
        [2, 1]
        """
        from slackwater.streams.revised import RevisedStream

        require_aggregates('aggregate_early(patience="1h", ', aggregates)
        node, lateness = waiting(self.node, patience, every, late, bounds, ahead)
        if lateness is not None:
            (node,) = split_by_lateness(node, lateness, in_order=False)
        else:
            refuse_without_patience(every, late, 'aggregate_early(patience="1h", ...)')
        return RevisedStream(EarlyAggregate(node, self.keys, aggregates))


def require_aggregates(call: str, aggregates: Mapping[str, Aggregate]) -> None:
    """Refuse a call, shown up to its aggregates, that has none or something else."""
    if not aggregates:
        step = call.partition("(")[0]
        raise PlanError(message(f"{step} was given no aggregates", {}, f"for example {call}n=sw.count())"))
    for name, what in aggregates.items():
        if not isinstance(what, Aggregate):
            facts = {"name": name, "got": repr(what)}
            raise PlanError(message("this is not an aggregate", facts, f"for example {call}{name}=sw.count())"))
