"""StreamByOrigin: rows that come as far as their own source is complete, in order within each source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.bands import outputs_of
from slackwater.plan.nodes.by_origin import aggregate_within_origins
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.policies.windows import Hopping
from slackwater.progress.instants import format_duration
from slackwater.streams.bands import Bands
from slackwater.streams.event_stream import EventStream
from slackwater.streams.grouped import require_aggregates

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.punctuations import Length


class StreamByOrigin(EventStream):
    """A stream in order within each source, and in none among sources; made by `sort_within_origins()`.

    Steps that treat each row by itself may follow, and aggregates of groups that are of one source. Whatever mixes
    sources is refused: a union or join, a further sort, groups without the column that names the source.
    """

    def hopping(self, size: Length, hop: Length, offset: Length | None = None) -> StreamByOrigin:  # type: ignore[override]
        """Give each event, once for each, the windows [k*hop, k*hop + size) that it falls into.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 7, "who": "a"}], time="at", origin="who")
        >>> hopping = rows.sort_within_origins(bounds=sw.Bounds.in_order()).hopping(10, 5)
        >>> hopping.run().table["window_start"].to_pylist()
        [0, 5]
        """
        window = Hopping(self._length(size), self._length(hop), self._offset(offset))
        return StreamByOrigin(AssignWindow(self.node, window))

    def group_by(self, *keys: str) -> GroupedByOrigin:  # type: ignore[override]
        """Aggregate per value of these columns; the one that names the source is among them.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 7, "who": "a"}], time="at", origin="who")
        >>> rows.sort_within_origins(bounds=sw.Bounds.in_order()).tumbling(10).group_by("who")
        <GroupedByOrigin by who, time=window_start>
        """
        return GroupedByOrigin(self.node, keys)


@dataclass(frozen=True, repr=False)
class GroupedByOrigin:
    """Events and the columns to group them by, the one that names their source among them."""

    node: Node
    keys: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<GroupedByOrigin by {', '.join(self.keys)}, time={self.node.schema.time.name}>"

    def aggregate(self, **aggregates: Aggregate) -> StreamByOrigin:
        """Sum up each group, per window, and send it when its own source is complete past it.

        >>> import slackwater as sw
        >>> sent = [(1, "a", 2), (2, "b", 4), (3, "a", 12), (4, "a", 25)]  # b pauses, and holds up nobody
        >>> rows = [{"landed": landed, "who": who, "at": at} for landed, who, at in sent]
        >>> rows = sw.stream(rows, time="at", origin="who", arrived="landed")
        >>> counts = rows.sort_within_origins(bounds=sw.Bounds.in_order()).tumbling(10).group_by("who")
        >>> query = counts.aggregate(n=sw.count()).open(lambda rows: print(rows["who"].to_pylist()), on_late=print)
        >>> _ = query.step()
        ['a']
        >>> query.close()
        ['b', 'a', 'a']
        """
        require_aggregates("aggregate(", aggregates)
        return StreamByOrigin(aggregate_within_origins(self.node, self.keys, aggregates))

    def in_bands(self, *patiences: Length, **aggregates: Aggregate) -> BandsByOrigin:
        """Sum up each group at several latencies: early answers soon, fuller ones later, none computed twice.

        Each stream waits a patience behind the newest row of the *same* source, or as long as bounds say that rows may
        still come, whichever is shorter. Answers have a column `band`: the one of the greater band replaces the other.

        - `patiences`: how long each stream waits, the shortest first.
        - `aggregates`: what is summed up, by name.

        >>> import slackwater as sw
        >>> sent = [(1, "a", 2), (2, "b", 4), (3, "a", 17), (4, "a", 3), (5, "a", 40)]
        >>> rows = [{"landed": landed, "who": who, "at": at} for landed, who, at in sent]
        >>> rows = sw.stream(rows, time="at", origin="who", arrived="landed")
        >>> by_origin = rows.tumbling(10).sort_within_origins(bounds=sw.Bounds.patience(30), every=sw.Every.time(1))
        >>> for result in by_origin.group_by("who").in_bands(5, 20, n=sw.count()).run():
        ...     print([(row["who"], row["window_start"], row["n"]) for row in result.table.to_pylist()])
        [('a', 0, 1), ('b', 0, 1), ('a', 10, 1), ('a', 40, 1)]
        [('a', 0, 2), ('b', 0, 1), ('a', 10, 1), ('a', 40, 1)]
        """
        require_aggregates('in_bands("1s", "1m", ', aggregates)
        if not patiences:
            hint = 'name them, the shortest first: in_bands("1s", "1m", "1h", ...)'
            raise PlanError(message("in_bands needs at least one patience", {}, hint))
        step = aggregate_within_origins(self.node, self.keys, aggregates, patiences)
        calendar = self.node.schema.calendar
        waits = tuple(format_duration(wait) if calendar else str(wait) for wait in step.patiences)
        return BandsByOrigin(tuple(StreamByOrigin(output) for output in outputs_of(step, len(waits))), waits)


class BandsByOrigin(Bands[StreamByOrigin]):
    """One stream by origin for each patience; stream i has every event that is no later than patience i.

    They share their work, so run them together: by run(), open() or run_together(*streams).
    """
