"""Streams that are sources of one another's progress: what is known between them says how far each is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.related import relate
from slackwater.streams.disordered import DisorderedStream

if TYPE_CHECKING:
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.late import Late
    from slackwater.policies.punctuations import Length


def related(
    first: DisorderedStream,
    second: DisorderedStream,
    *others: DisorderedStream,
    bounds: Bounds,
    patience: Length | None = None,
    every: Every | None = None,
    late: Late | None = None,
    ahead: Length | None = None,
) -> tuple[DisorderedStream, ...]:
    """Say what is known between several streams: orders are at most 5s behind clicks. Return them in the same order.

    Each stream is a source, called by its `name=`, and bounds speak of it by that. With every row that arrives, of
    whichever stream, it follows how far each of them is complete; so a join or union of them does not wait for one that
    pauses longer than its bounds say. Each goes by its own heartbeat, and sort() behind it needs no patience.

    - `bounds`: what is known of each stream and between them; every stream needs one that speaks of its rows.
    - `patience`: no row of any stream is further behind the newest of all; so nothing waits for longer.
    - `every`: how fine arrivals are looked at, where a column says when rows arrived.
    - `late`: what becomes of rows behind the heartbeat of their stream, which broke a bound: by default they go to the
      late output. A sort() or in_bands() with a patience decides by its own policy, unless it is given here.
    - `ahead`: rows further ahead of the clock move nothing and go to the late output, as in sort().

    Rows arrive by the clock, or for files and backfills when a column of each stream says so (`arrived=`). What
    waits to be read of several streams is put in the order in which it arrived, whichever is read first; by the clock
    it arrives together. On Spark a query must read all of the streams.

    >>> import slackwater as sw
    >>> rows = {"clicks": [(1, 10), (2, 20), (9, 30)], "orders": [(3, 15), (4, 19)]}
    >>> clicks, orders = (
    ...     sw.stream([{"landed": one, "at": at} for one, at in some], time="at", arrived="landed", name=name)
    ...     for name, some in rows.items()
    ... )
    >>> bounds = sw.Bounds.in_order() & sw.Bounds({("clicks", "orders"): [sw.Bound(5)]})
    >>> clicks, orders = sw.related(clicks, orders, bounds=bounds)
    >>> sw.union(clicks.sort(), orders.sort()).run().table["at"].to_pylist()
    [10, 15, 19, 20, 30]
    """
    streams = (first, second, *others)
    for stream in streams:
        if not isinstance(stream, DisorderedStream):
            facts, hint = (
                {"got": type(stream).__name__},
                "give it streams as stream() makes them, and sort() them behind it",
            )
            raise PlanError(message("related() takes streams in order of arrival", facts, hint))
    nodes = relate([stream.node for stream in streams], bounds, patience, every, ahead, late)
    return tuple(DisorderedStream(node) for node in nodes)
