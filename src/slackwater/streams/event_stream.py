"""All the steps that can follow a stream, ordered or not; the plan refuses those that need an order it lacks.

Every method is the same three lines: read what was written, make a plan node, return a new stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.operators.emission import LEFT_OUT
from slackwater.plan.nodes.aggregating import MapWindows, top_of_windows
from slackwater.plan.nodes.combining import FollowedBy, Join, Union
from slackwater.plan.nodes.deduplicate import Deduplicate
from slackwater.plan.nodes.releasing import ChooseRelease
from slackwater.plan.nodes.revisions import AssumeKeyed
from slackwater.plan.nodes.rows import AssignWindow, MapBatches, Select, Where, stamped, with_wide_dictionaries
from slackwater.plan.probe import name_outputs
from slackwater.plan.properties import Stamps
from slackwater.policies.keep import Keep
from slackwater.policies.matching import Overlap, Within
from slackwater.policies.windows import Hopping, Sliding, Tumbling
from slackwater.progress.instants import as_duration
from slackwater.streams.diverted_rows import nearest_diverted_stream
from slackwater.streams.grouped import GroupedStream
from slackwater.streams.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import narwhals as nw
    import pyarrow as pa

    from slackwater.columns.expressions import Computation
    from slackwater.operators.aggregate.map_windows import WindowFunction
    from slackwater.operators.map_batches import BatchFunction
    from slackwater.plan.node import Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.punctuations import Length
    from slackwater.policies.release import Release
    from slackwater.progress.instants import Duration
    from slackwater.streams.disordered import DisorderedStream
    from slackwater.streams.ordered import OrderedStream


class EventStream(Stream):
    """A stream of events and the steps that can follow it."""

    # ---- row by row ------------------------------------------------------------------------------------------------

    def where(self, predicate: Computation) -> Self:
        """Keep the rows that satisfy a Narwhals expression, or a function from an Arrow batch to booleans.

        It must answer for each row by itself. When the step is written it is tried on a few made-up rows, to learn
        that it does; a function should have no side effects.

        >>> import narwhals as nw, slackwater as sw
        >>> rows = sw.stream([{"at": 1, "x": 5}, {"at": 2, "x": 7}], time="at")
        >>> rows.where(nw.col("x") > 5).run().table.to_pylist()
        [{'at': 2, 'x': 7}]
        """
        return type(self)(Where(self.node, predicate))

    def select(self, *columns: str | nw.Expr, **computed: str | Computation) -> Self:
        """Choose columns by name and compute others; the time columns always stay.

        Positional expressions keep the name that Narwhals gives them; functions from an Arrow batch to an array need
        a name: `select("carrier", speed=nw.col("distance") / nw.col("air_time"))`. As with where(), computations
        treat each row by itself and are tried on made-up rows first.

        - `columns`: names of columns to keep, or Narwhals expressions, which keep the name that Narwhals gives them.
        - `computed`: further columns by name, each the name of another, an expression, or a function.

        >>> import narwhals as nw, slackwater as sw
        >>> flights = sw.stream([{"at": 1, "carrier": "AA", "km": 900, "hours": 2}], time="at")
        >>> flights.select("carrier", speed=nw.col("km") / nw.col("hours")).run().table.to_pylist()
        [{'at': 1, 'carrier': 'AA', 'speed': 450.0}]
        """
        return type(self)(Select(self.node, name_outputs(columns, computed, self.node.schema)))

    def map_batches(self, function: BatchFunction, *, schema: pa.Schema | None = None) -> Self:
        """Call a function of your own with many rows at once, where a row is dear to compute: a model, a look-up.

        It is given an Arrow batch of all columns and answers a batch or table of one row for each, in the same order;
        these get the times of their rows. It must treat each row by itself, for it may be called with any cut of the
        stream, and it is not called for rows that nobody is interested in any more. To leave rows out, use
        where().

        The columns of the answers are learnt by trying the function on a few made-up rows, or named by `schema`; then
        it is not tried. It should have no side effects.

        >>> import pyarrow as pa, pyarrow.compute as pc, slackwater as sw
        >>> def scored(rows):
        ...     return pa.record_batch({"x": rows["x"], "score": pc.multiply(rows["x"], 10)})
        >>> rows = sw.stream([{"at": 1, "x": 5}, {"at": 2, "x": 7}], time="at")
        >>> rows.map_batches(scored).run().table.to_pylist()
        [{'at': 1, 'x': 5, 'score': 50}, {'at': 2, 'x': 7, 'score': 70}]
        """
        return type(self)(MapBatches(self.node, function, schema))

    def tumbling(self, size: Length, offset: Length | None = None) -> Self:
        """Give each event the window [k*size, (k+1)*size) that it falls into; `offset` shifts all windows.

        Windows count from 1970 in UTC, whatever the zone of the column: "1d" is a day in UTC. The former time columns
        stay as payload; one that is called as a new one gets "_before" after its name.

        Say how long to wait behind it: then a row is late when its whole window is complete, and no answer comes later.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": at} for at in (1, 8, 2, 14)], time="at")
        >>> rows.tumbling(10).sort(patience=5).aggregate(n=sw.count()).run().table["n"].to_pylist()
        [3, 1]
        >>> rows.sort(patience=5).tumbling(10).aggregate(n=sw.count()).run().table["n"].to_pylist()
        [2, 1]
        """
        window = Tumbling(self._length(size), self._offset(offset))
        return type(self)(AssignWindow(stamped(self.node), window))

    def hopping(self, size: Length, hop: Length, offset: Length | None = None) -> DisorderedStream:
        """Give each event, once for each, the windows [k*hop, k*hop + size) that it falls into.

        The rows are not ordered by their windows any more. After an ordered stream, punctuations say which windows
        are complete, so that aggregate() may follow: it sums up each event once, however many windows share it. Other
        steps get a copy of the event for each of its windows, of which there may be a million at most.

        - `size`: how long a window is; `hop`: how far its start is from that of the next; `offset` shifts all windows.

        >>> import slackwater as sw
        >>> ordered = sw.stream([{"at": at} for at in (1, 7, 12)], time="at").assume_ordered()
        >>> counts = ordered.hopping(10, 5).aggregate(n=sw.count()).run().table
        >>> counts["window_start"].to_pylist(), counts["n"].to_pylist()
        ([-5, 0, 5, 10], [1, 2, 2, 1])
        """
        from slackwater.streams.disordered import DisorderedStream

        window = Hopping(self._length(size), self._length(hop), self._offset(offset))
        return DisorderedStream(AssignWindow(stamped(self.node), window))

    def sliding(self, size: Length) -> Self:
        """Let each event last for `size` from its time on.

        An aggregate behind it sums up every span in which the living events do not change; its work grows with the
        number of events that live at once.

        - `size`: how long each event lasts, from its time on.

        >>> import slackwater as sw
        >>> ordered = sw.stream([{"at": 1}, {"at": 4}], time="at").assume_ordered()
        >>> for row in ordered.sliding(5).aggregate(n=sw.count()).run().table.to_pylist():
        ...     print(*row.values())
        1 4 1
        4 6 2
        6 9 1
        """
        return type(self)(AssignWindow(stamped(self.node), Sliding(self._length(size))))

    def assume_keyed(self) -> Self:
        """Declare that no two rows have the same time and the same values in all other columns. It is checked.

        Replicas of such a stream are merged faster: ordered ones as they come (case R2), others with one node for each
        event that may still change (R3). The first row that comes twice is an error that names it; in a merge its
        replica leaves, and the others go on. Rows count as one event by time and payload, whatever their ends.

        Remembered are two hashes for each row of a time that is not complete, so declare it behind sort(). A live
        stream that never says what is complete is refused.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "x": "a"}, {"at": 1, "x": "b"}, {"at": 2, "x": "a"}]
        >>> blue, green = (sw.stream(rows, time="at").assume_ordered().assume_keyed() for _ in range(2))
        >>> print(sw.merge_replicas(blue, green).node.line)
        merge_replicas of 2, case R2
        """
        return type(self)(AssumeKeyed(stamped(self.node)))

    # ---- beside the main output -------------------------------------------------------------------------------------

    @property
    def late(self) -> DisorderedStream:
        """The rows that came too late for the nearest step above this stream, as a stream of its own.

        It can be filtered, written, and run together with the others: `run_together(hourly, hourly.late)`.
        """
        return nearest_diverted_stream(self)

    @property
    def left_out(self) -> DisorderedStream:
        """The rows that the nearest merge of replicas above this stream left out and diverted, as a stream of its own.

        `LeftOutRows.divert()` says which columns it has.
        """
        return nearest_diverted_stream(self, LEFT_OUT)

    # ---- in order of time ------------------------------------------------------------------------------------------

    def group_by(self, *keys: str) -> GroupedStream:
        """Aggregate per value of these columns: `group_by("carrier").aggregate(n=sw.count())`.

        >>> import slackwater as sw
        >>> rows = [{"at": 1, "k": "a"}, {"at": 4, "k": "b"}, {"at": 5, "k": "a"}]
        >>> per_key = sw.stream(rows, time="at").assume_ordered().tumbling(10).group_by("k")
        >>> sorted(per_key.aggregate(n=sw.count()).run().table["n"].to_pylist())
        [1, 2]
        """
        return GroupedStream(self.node, keys)

    def aggregate(self, **aggregates: Aggregate) -> OrderedStream:
        """Sum up the events of each window, or of each span in which the set of living events does not change.

        - `aggregates`: the columns of the answer by name: `n=sw.count()`, `speed=sw.mean("speed")`.

        >>> import slackwater as sw
        >>> ordered = sw.stream([{"at": 1, "v": 3}, {"at": 4, "v": 5}, {"at": 12, "v": 1}], time="at").assume_ordered()
        >>> ordered.tumbling(10).aggregate(n=sw.count(), most=sw.max("v")).run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'n': 2, 'most': 5}
        """
        return GroupedStream(self.node, ()).aggregate(**aggregates)

    def top_rows(self, k: int, *, by: str) -> OrderedStream:
        """Keep the k rows of each window that are greatest in a column, greatest first; whole rows, not values.

        Where rows are equal in that column the others decide, from left to right, the least first: so which rows are
        kept, and their order, does not depend on the order in which they came, and replicas of the result are merged by
        comparing one row after the other (case R1). NaNs are less than all numbers, and nulls less than those. Rows of
        a window are held until it is complete.

        >>> import slackwater as sw
        >>> sales = [{"at": 1, "who": "ann", "v": 5}, {"at": 2, "who": "bob", "v": 9}, {"at": 3, "who": "ann", "v": 9}]
        >>> best = sw.stream(sales, time="at").assume_ordered().tumbling(10).select("who", "v").top_rows(2, by="v")
        >>> best.run().table["who"].to_pylist()
        ['ann', 'bob']
        """
        from slackwater.streams.ordered import OrderedStream

        return OrderedStream(top_of_windows(with_wide_dictionaries(stamped(self.node)), k, by))

    def map_windows(
        self, function: WindowFunction, *, schema: pa.Schema | None = None, any_order: bool = False
    ) -> OrderedStream:
        """Call a function of your own with all rows of a window, and send what it answers, for each window once.

        It is given one Arrow batch, of all columns, when the window is complete, and answers a batch or table of any
        number of rows; these get the window's times. Rows come in the order in which they reached this step: after a
        sort, in order of the times they had before the window. Without a window, rows of one time are handed over
        together; rows with lifetimes, when both ends are the same.

        The columns of the answers are learnt by trying the function on a few made-up rows, or named by `schema`. It
        should have no side effects. `any_order=True` declares that it answers the same rows in the same order, however
        the rows of a window are ordered: replicas of the result are then merged as they come (case R1).

        >>> import pyarrow as pa, slackwater as sw
        >>> def spread(rows):
        ...     values = rows.column("v").to_pylist()
        ...     return pa.record_batch({"spread": [max(values) - min(values)]})
        >>> ordered = sw.stream([{"at": at, "v": at * at} for at in (1, 4, 12)], time="at").assume_ordered()
        >>> ordered.tumbling(10).map_windows(spread).run().table.to_pylist()[0]
        {'window_start': 0, 'window_end': 10, 'spread': 15}
        """
        from slackwater.streams.ordered import OrderedStream

        return OrderedStream(MapWindows(stamped(self.node), function, schema, any_order))

    def union(self, *others: EventStream) -> OrderedStream:
        """Put streams of the same columns together, in order of time. See `slackwater.union`.

        >>> import slackwater as sw
        >>> odd, even = (
        ...     sw.stream([{"at": at} for at in times], time="at").assume_ordered() for times in ((1, 3), (2, 4))
        ... )
        >>> odd.union(even).run().table["at"].to_pylist()
        [1, 2, 3, 4]
        """
        from slackwater.streams.ordered import OrderedStream

        nodes = [with_wide_dictionaries(_node_of(stream, "union")) for stream in (self, *others)]
        return OrderedStream(Union(tuple(nodes)))

    def join(self, other: EventStream, *, on: str | Sequence[str] = (), within: Length | None = None) -> OrderedStream:
        """Pair events that agree on the `on` columns and meet in time.

        With `within`, two events meet when their times differ by at most that, and the pair happens at the later of
        the two. Without, they meet when their lifetimes overlap, and the pair lasts as long as both do.

        >>> import slackwater as sw
        >>> a = sw.stream([{"at": 1, "k": "x"}], time="at").assume_ordered()
        >>> b = sw.stream([{"at": 3, "k": "x", "v": 7}], time="at").assume_ordered()
        >>> a.join(b, on="k", within=2).run().table.to_pylist()
        [{'matched_at': 3, 'at': 1, 'k': 'x', 'at_right': 3, 'v': 7}]
        """
        from slackwater.streams.ordered import OrderedStream

        left, right = _both_stamped(self.node, _node_of(other, "join"))
        meeting = Overlap() if within is None else Within.of(self._length(within))
        return OrderedStream(Join(left, right, _columns(on), meeting))

    def followed_by(self, then: EventStream, *, within: Length, on: str | Sequence[str] = ()) -> OrderedStream:
        """Pair each event with the first strictly later one of `then` that agrees on `on` and comes within the time.

        The pair happens when the second event does. Several simultaneous first ones make several pairs.

        - `then`: the stream of second events.
        - `within`: how much later they may be.
        - `on`: columns that both must agree on.

        >>> import narwhals as nw, slackwater as sw
        >>> rows = [{"at": 1, "user": "ann", "do": "look"}, {"at": 3, "user": "bob", "do": "buy"}]
        >>> rows += [{"at": 4, "user": "ann", "do": "buy"}]
        >>> ordered = sw.stream(rows, time="at").assume_ordered()
        >>> looks, buys = (ordered.where(nw.col("do") == do) for do in ("look", "buy"))
        >>> looks.followed_by(buys, on="user", within=5).run().table["matched_at"].to_pylist()
        [4]
        """
        from slackwater.streams.ordered import OrderedStream

        first, second = _both_stamped(self.node, _node_of(then, "followed_by"))
        return OrderedStream(FollowedBy(first, second, _columns(on), self._length(within)))

    def deduplicate(self, on: str | Sequence[str], *, within: Length, keep: str = "first") -> OrderedStream:
        """Keep one row of each event that arrives several times, in order of time.

        Rows that agree on the `on` columns are the same event if they are close in time: the earliest one, and all that
        are at most `within` later than that. The next one begins an event of its own. Of the rows of an event `keep`
        takes the "first", which goes out when its time is complete, or the "last", which waits for `within` more.
        Nulls are equal, and so are NaNs. Rows with lifetimes go by their starts.

        The result depends on what the rows are, not on how they came. Where several rows of an event have the same
        time, "first" takes the least of them by the other columns, from left to right, and "last" the greatest; nulls
        are greater than all else. Rows that are left out are counted as `duplicates`. Memory holds the keys of the
        last `within`, or, for "last", the rows.

        >>> import slackwater as sw
        >>> frames = [(1, "a", -90), (2, "b", -70), (3, "a", -60), (9, "a", -80)]
        >>> rows = [{"at": at, "frame": frame, "rssi": rssi} for at, frame, rssi in frames]
        >>> frames = sw.stream(rows, time="at").assume_ordered()
        >>> result = frames.deduplicate(on="frame", within=5).run()
        >>> result.table["rssi"].to_pylist(), result.counters["deduplicate#1"].duplicates
        ([-90, -70, -80], 1)
        >>> frames.deduplicate(on="frame", within=5, keep="last").run().table["rssi"].to_pylist()
        [-70, -60, -80]
        """
        from slackwater.streams.ordered import OrderedStream

        node = with_wide_dictionaries(stamped(self.node))
        return OrderedStream(Deduplicate(node, _columns(on), self._length(within), Keep.of(keep)))

    def release(self, release: Release) -> Self:
        """Choose what the rows of all sources behind this stream wait for while one of them lags; see `Release`.

        The rows that come out are the same, in the same order. What differs is how much is held meanwhile, and where,
        and how much work is left for the moment at which the slowest source has caught up. explain() shows where rows
        are held.

        - `release`: Release.by_operator(), as without it; Release.by_query(); or Release.by_memory().

        >>> import slackwater as sw
        >>> rows = [{"at": at, "k": 1} for at in range(3)]
        >>> a, b, c = (sw.stream(rows, time="at", name=name).assume_ordered() for name in "abc")
        >>> pairs = a.join(b, on="k", within=9).select("k").join(c, on="k", within=9)
        >>> late_c = pairs.release(sw.Release.by_memory(growth={"join#1": 3.0}))
        >>> late_c.explain().count("for c ")
        2
        >>> late_c.run().table.equals(pairs.run().table)
        True
        """
        return type(self)(ChooseRelease(self.node, release))

    def _length(self, length: Length) -> Duration:
        return as_duration(length, calendar=self.node.schema.calendar)

    def _offset(self, offset: Length | None) -> Duration:
        return 0 if offset is None else self._length(offset)


def _columns(on: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(on, str | list | tuple):
        raise PlanError(message("on= names columns", {"got": repr(on)}, 'write on="k", or on=["k", "l"]'))
    return (on,) if isinstance(on, str) else tuple(on)


def _node_of(stream: object, step: str) -> Node:
    if not isinstance(stream, EventStream):
        facts = {"got": f"{type(stream).__name__}: {stream!r}"}
        raise PlanError(message(f"{step} takes streams", facts, "make one with sw.stream(...) first"))
    return stream.node


def _both_stamped(left: Node, right: Node) -> tuple[Node, Node]:
    kinds = {left.properties.stamps, right.properties.stamps}
    if Stamps.LATENT in kinds and not kinds <= {Stamps.LATENT, Stamps.PROCESSED}:
        facts = {"left": left.line, "right": right.line}
        raise PlanError(message("one stream has times and the other has none yet", facts, "stamp both or neither"))
    return stamped(left), stamped(right)
