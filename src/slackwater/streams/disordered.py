"""DisorderedStream: events in the order they arrived; steps that need order are refused until it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.bands import split_by_lateness
from slackwater.plan.nodes.by_origin import sort_within_origins
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.replicas_by_column import MergeByColumn, merge_by_bounds
from slackwater.plan.nodes.rows import AssumeOrdered, stamped, with_wide_dictionaries
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.lateness import Lateness, refuse_without_patience
from slackwater.policies.left_out_rows import LeftOutRows
from slackwater.streams.bounded import waiting, with_bounds
from slackwater.streams.event_stream import EventStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.punctuations import Length
    from slackwater.streams.bands import PatienceBands, SubPlan
    from slackwater.streams.by_origin import StreamByOrigin
    from slackwater.streams.ordered import OrderedStream

_DIVERT = Late.divert()
_DROP = LeftOutRows.drop()


class DisorderedStream(EventStream):
    """A stream in order of arrival."""

    def assume_ordered(self, *, strictly: bool = False) -> OrderedStream:
        """Declare that events come in order of time. The first that does not is an error that names it.

        `strictly=True` declares that no two events have the same time, too: replicas of such a stream are merged by the
        newest time alone.

        >>> import slackwater as sw
        >>> sw.stream([{"at": 1}, {"at": 1}, {"at": 5}], time="at").assume_ordered().run().table.num_rows
        3
        """
        from slackwater.streams.ordered import OrderedStream

        if not isinstance(strictly, bool):
            raise PlanError(message("strictly is True or False", {"got": repr(strictly)}))
        return OrderedStream(AssumeOrdered(self.node, strictly=strictly))

    def sort(
        self,
        patience: Length | None = None,
        *,
        every: Every | None = None,
        late: Late = _DIVERT,
        bounds: Bounds | None = None,
        ahead: Length | None = None,
    ) -> OrderedStream:
        """Put events in order of time, waiting for late ones as long as the patience; equal times as they came.

        A time is complete when the greatest time seen is a patience past it; an event exactly at that bound is still
        in time. `every` says how often the bound moves, by default ten times in a patience. `late` says what becomes
        of older events: by default they go to the late output, with the bound they missed and by how much. After a
        window, patience counts by the times that events had before it; after tumbling() an event is late when its
        window is complete.

        Without a patience the stream's own punctuations are obeyed; one that has none is sorted at its end.

        `bounds` say what is known of the sources whose rows come together in this stream: how far their clocks differ,
        how long rows are under way. Then a time is complete as soon as that is proven, and a source that pauses holds
        up the others no longer than its bounds say; a patience beside them is a bound on all, so nothing waits longer.
        Rows that break a bound are late where the stream is past them, and are counted. `every` is how fine arrivals
        are looked at. Rows whose time is more than `ahead` ahead of the clock move nothing and go to the late output;
        where there is no clock, those that are ahead of all rows before them: no pause of all sources may be longer.

        >>> import slackwater as sw
        >>> ordered = sw.stream([{"at": at} for at in (1, 5, 3, 9, 2)], time="at").sort(patience=3)
        >>> result = ordered.run()
        >>> result.table["at"].to_pylist(), result.late.to_pylist()
        ([1, 3, 5, 9], [{'at': 2, 'late_bound': 6, 'late_by': 4}])
        >>> sent = [(1, "a", 1), (2, "b", 1), (3, "a", 4), (4, "a", 9), (5, "b", 2)]
        >>> rows = [{"landed": landed, "who": who, "at": at} for landed, who, at in sent]
        >>> both = sw.stream(rows, time="at", origin="who", arrived="landed")
        >>> both.sort(bounds=sw.Bounds.in_order() & sw.Bounds.uniform(7)).run().table["at"].to_pylist()
        [1, 1, 2, 4, 9]
        """
        from slackwater.streams.ordered import OrderedStream

        node, lateness = waiting(self.node, patience, every, late, bounds, ahead)
        if lateness is None:
            refuse_without_patience(every, late, 'sort(patience="5s", ...)')
            return OrderedStream(Sort(node))
        (ordered,) = split_by_lateness(node, lateness, in_order=True)
        return OrderedStream(ordered)

    def sort_within_origins(
        self, *, bounds: Bounds, every: Every | None = None, late: Late = _DIVERT
    ) -> StreamByOrigin:
        """Put the rows of every source in order of time, each as far as that source is complete by its own bounds.

        `sort(bounds=...)` gives one order of all, so that a row waits for the slowest source. Where nothing that
        follows mixes sources, it need not: here a row is late, or goes out, by the heartbeat of its own source. There
        is no order among sources; punctuations say up to where all are complete.
        Steps that treat each row by itself may follow, and `group_by(...)` with the column that names the source, each
        group of which is sent when its own source is complete past it. What mixes sources is refused. On Spark the rows
        of one source are in one shard, so that there are as many busy shards as sources at most.

        - `bounds`: what is known of the sources, as in sort(); `Bounds.disorder("5s")` says how far rows are behind
          those of their own source.
        - `every`: how fine arrivals are looked at; `late`: what becomes of late rows: diverted, dropped, or an error.

        >>> import slackwater as sw
        >>> sent = [(1, "a", 4), (2, "b", 1), (3, "a", 3), (4, "a", 9), (5, "a", 10)]  # b pauses
        >>> rows = [{"landed": landed, "who": who, "at": at} for landed, who, at in sent]
        >>> rows = sw.stream(rows, time="at", origin="who", arrived="landed")
        >>> by_origin = rows.sort_within_origins(bounds=sw.Bounds.disorder(2), every=sw.Every.time(1))
        >>> query = by_origin.open(lambda rows: print(rows["who"].to_pylist(), rows["at"].to_pylist()), on_late=print)
        >>> _ = query.step()
        ['a', 'a'] [3, 4]
        >>> query.close()
        ['b', 'a', 'a'] [1, 9, 10]
        """
        from slackwater.streams.by_origin import StreamByOrigin

        return StreamByOrigin(sort_within_origins(with_wide_dictionaries(stamped(self.node)), bounds, every, late))

    def deduplicate(
        self,
        on: str | Sequence[str],
        *,
        within: Length,
        keep: str = "first",
        patience: Length | None = None,
        every: Every | None = None,
        late: Late = _DIVERT,
        bounds: Bounds | None = None,
        ahead: Length | None = None,
    ) -> OrderedStream:
        """Keep one row of each event that arrives several times, in order of time. See `EventStream.deduplicate`.

        `patience`, `every`, `late`, `bounds` and `ahead` say how long to wait for late rows, and what becomes of them,
        as in sort(): a row that comes when its time is complete goes to the late output, whether it repeats another or
        not. Without a patience or bounds the stream's own punctuations are obeyed; one that has none is refused.

        >>> import slackwater as sw
        >>> arrived = [(1, "a"), (4, "b"), (2, "a"), (12, "c"), (3, "b")]
        >>> frames = sw.stream([{"at": at, "frame": frame} for at, frame in arrived], time="at")
        >>> result = frames.deduplicate(on="frame", within=5, patience=5).run()
        >>> result.table["frame"].to_pylist(), result.late.to_pylist()
        (['a', 'b', 'c'], [{'at': 3, 'frame': 'b', 'late_bound': 7, 'late_by': 4}])
        """
        node, lateness = waiting(self.node, patience, every, late, bounds, ahead)
        if lateness is None:
            refuse_without_patience(every, late, 'deduplicate(..., patience="5s", ...)')
            return super().deduplicate(on, within=within, keep=keep)
        (in_time,) = split_by_lateness(node, lateness, in_order=False)
        return type(self)(in_time).deduplicate(on, within=within, keep=keep)

    def merge_replicas(
        self,
        by: str,
        patience: Length,
        *,
        every: Every | None = None,
        late: Late = _DIVERT,
        left_out: LeftOutRows = _DROP,
        bounds: Bounds | None = None,
    ) -> OrderedStream:
        """Emit once, and in order, what several replicas have whose rows come in this stream.

        The column named in `by` says which replica a row is from, null being a replica like any other; all other
        columns are what replicas have in common. Each goes by its own rows, as it would behind a sort() with this
        patience: how far it has come, and which of its rows are late. The output has no such column, the late
        rows do. An event goes out when some replica is a patience past it: one that dies or lags holds up nobody.

        Replicas may appear while the query runs. Those that are there before any of them is a patience past something
        are complete. Of one that appears later, only what lies a patience past its first row is believed to be all:
        from when the others have come as far, it may lead. If they fall silent before that, it takes over as soon as it
        is two patiences past its first row without them; what any of them has sent goes out, and `Query.replicas()`
        says before which time events may be missing. So the output never stands still for longer. A replica that comes
        back after it has missed rows must come under a new name; nothing is ever forgotten about old ones, a few bytes
        each. At the end all that is held goes out, whoever has sent it.

        What is left out, because the replica that led lacked it or the output had passed its time, is counted, and with
        `left_out=LeftOutRows.divert()` goes to an output of its own.

        `bounds` say what is known of the replicas, each of which is a source of its own: `Bounds.disorder("1s")` that
        its rows are out of order by no more, `Bounds.delay("5s")` that they arrive within so long after their time. A
        replica that sends rows is complete as far as that proves, and what bounds prove that none of them can send any
        more goes out at once, whoever has sent it: one that has died is not waited for. The patience stays as the
        longest wait. With `Bounds.in_order(strictly=True)` each row goes out with the micro-batch that brings it: so
        answers of windows are merged, which are newer in later micro-batches. A replica that sends its backlog after a
        pause breaks a bound: its rows are counted, but they are late only by what it has shown itself. With `arrived=`
        that column is not compared, and not in the output.

        >>> import slackwater as sw
        >>> sent = [("blue", 1), ("green", 1), ("blue", 3), ("blue", 2), ("green", 2), ("green", 3), ("green", 9)]
        >>> rows = [{"at": at, "x": 10 * at, "replica": who} for who, at in sent]
        >>> sw.stream(rows, time="at").merge_replicas(by="replica", patience=2).run().table.to_pydict()
        {'at': [1, 2, 3, 9], 'x': [10, 20, 30, 90]}
        """
        from slackwater.streams.ordered import OrderedStream

        node = with_wide_dictionaries(self.node)
        if bounds is None:
            lateness = Lateness.chosen([patience], every, late, calendar=node.schema.calendar)
            return OrderedStream(Sort(MergeByColumn(node, lateness, by, left_out)))
        lateness = Lateness.chosen([patience], Every.batch(), late, calendar=node.schema.calendar)
        return OrderedStream(Sort(merge_by_bounds(node, lateness, by, left_out, bounds, every, self.node)))

    def in_bands(
        self,
        *patiences: Length,
        every: Every | None = None,
        late: Late = _DIVERT,
        bounds: Bounds | None = None,
        ahead: Length | None = None,
        partial: SubPlan | None = None,
        merge: SubPlan | None = None,
        **aggregates: Aggregate,
    ) -> PatienceBands:
        """Give a stream for each patience, the shortest first: early answers soon, fuller ones later, in one pass.

        Alone it gives the events themselves, in order; what follows is computed for each stream by itself. With
        aggregates each event is summed up once, and partial results go from band to band: after
        `tumbling("1h").in_bands("1m", "1h", n=sw.count())` memory holds counts, not events. With `partial` and `merge`,
        functions from an ordered stream to an ordered stream, the same is done for your own query: `partial` sums up a
        part of the events, and `merge` puts the results of two parts together.

        Answers have a column `band`: of two for the same window and key, the one of the greater band replaces the
        other. Rows too late for the last patience are treated as by sort(). On Spark rows of tumbling windows are
        summed up where they are read, and sums are moved: all rows, or, if late ones are wanted, those that cannot be.

        - `patiences`: how long each stream waits, the shortest first; `every` and `late` are those of sort().
        - `bounds`, `ahead`: those of sort(). What they prove to be complete no stream waits for, however patient it is.
        - `aggregates`: what is summed up, by name; or `partial` and `merge`, a query of your own.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": at} for at in (1, 12, 3, 25, 14, 2)], time="at")
        >>> soon, final = rows.tumbling(10).in_bands(5, 20, n=sw.count()).run()
        >>> soon.table["n"].to_pylist(), final.table["n"].to_pylist()
        ([2, 1, 1], [3, 2, 1])
        """
        from slackwater.streams import bands

        if (partial is None) != (merge is None) or (partial and aggregates):
            hint = "give aggregates, or both partial= and merge=, or none of them"
            raise PlanError(message("in_bands takes aggregates, or partial= together with merge=", {}, hint))
        if partial is not None and merge is not None:
            node = with_bounds(self.node, late, bounds, ahead)
            return bands.bands_of_sub_plan(node, partial, merge, patiences, every, late)
        if aggregates:
            return self.group_by().in_bands(
                *patiences, every=every, late=late, bounds=bounds, ahead=ahead, **aggregates
            )
        return bands.bands_of_events(with_bounds(self.node, late, bounds, ahead), patiences, every, late)
