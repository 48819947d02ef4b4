"""RevisedStream: events whose ends may change after they were sent; what is built on them settles them first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.events.changes import ChangeLog
from slackwater.operators.emission import LEFT_OUT
from slackwater.plan.nodes.revisions import AssumeKeyed, SelectRevised, Settle, WhereRevised
from slackwater.plan.nodes.rows import with_wide_dictionaries
from slackwater.plan.probe import name_outputs
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.diverted_rows import nearest_diverted_stream
from slackwater.streams.ordered import OrderedStream
from slackwater.streams.stream import Stream

if TYPE_CHECKING:
    from typing import NoReturn, Self

    import narwhals as nw

    from slackwater.columns.expressions import Computation


class NotOnRevised(PlanError, AttributeError):
    """A step that other streams have, asked of a stream whose events are revised."""


class RevisedStream(Stream):
    """A stream of inserts, adjusts and removals, in no order.

    Run, it shows the changes themselves: the columns of the events, a column "change" (insert, adjust or remove), and,
    where events have ends, the end before the change, in a column called as that of the ends with "_before" after it.
    What all of them come to is the table of `settle()`. On Spark, where rows are written in no order, a column
    "sequence" puts them in one: `sw.changes(rows, ..., sequence="sequence")` reads what was written on both runners.

    >>> import slackwater as sw
    >>> rows = [
    ...     {"change": "insert", "at": 1, "until": 9, "user": "ann"},
    ...     {"change": "adjust", "at": 1, "until": 4, "until_before": 9, "user": "ann"},
    ... ]
    >>> leases = sw.changes(rows, time="at", until="until")
    >>> leases.run().table.to_pylist()[1]
    {'at': 1, 'until': 4, 'user': 'ann', 'change': 'adjust', 'until_before': 9}
    >>> leases.settle().run().table.to_pylist()
    [{'at': 1, 'until': 4, 'user': 'ann'}]
    """

    @property
    def shown_as(self) -> ChangeLog:
        """The columns of the changes."""
        return ChangeLog(self.node.schema)

    def where(self, predicate: Computation) -> Self:
        """Keep the events that satisfy a predicate, with all their revisions. See `EventStream.where`.

        The predicate sees no ends: it must answer for an event and for its revisions alike.

        >>> import narwhals as nw, slackwater as sw
        >>> rows = [{"change": word, "at": at} for word, at in (("insert", 1), ("insert", 5), ("remove", 1))]
        >>> sw.changes(rows, time="at").where(nw.col("at") < 3).run().table["change"].to_pylist()
        ['insert', 'remove']
        """
        return type(self)(WhereRevised(self.node, predicate))

    def select(self, *columns: str | nw.Expr, **computed: str | Computation) -> Self:
        """Choose and compute columns; the time columns always stay. See `EventStream.select`.

        Computations see no ends: they must answer for an event and for its revisions alike.

        >>> import slackwater as sw
        >>> leases = sw.changes([{"change": "insert", "at": 1, "user": "ann", "room": 7}], time="at")
        >>> leases.select("room").run().table.to_pylist()
        [{'at': 1, 'room': 7, 'change': 'insert'}]
        """
        return type(self)(SelectRevised(self.node, name_outputs(columns, computed, self.node.schema)))

    def assume_keyed(self) -> Self:
        """Declare that no two events have the same time and payload at once, as `changes(..., keyed=True)` does.

        >>> import slackwater as sw
        >>> leases = sw.changes([{"change": "insert", "at": 1, "user": "ann"}], time="at")
        >>> leases.assume_keyed().properties.keyed
        True
        """
        return type(self)(AssumeKeyed(self.node))

    def settle(self) -> OrderedStream:
        """Put the events in order of time, with all revisions applied: each is sent once, with its last end.

        An event is sent when a punctuation shows that its end will not change any more, and all that began before it
        have been sent; at the end of the stream, everything is.

        >>> import slackwater as sw
        >>> rows = [{"change": word, "at": at} for word, at in (("insert", 5), ("insert", 1), ("remove", 5))]
        >>> sw.changes(rows, time="at").settle().run().table.to_pylist()
        [{'at': 1}]
        """
        return OrderedStream(Settle(with_wide_dictionaries(self.node)))

    @property
    def late(self) -> DisorderedStream:
        """The rows that came too late for the nearest step above this stream, as a stream of its own."""
        return nearest_diverted_stream(self)

    @property
    def left_out(self) -> DisorderedStream:
        """The rows that the nearest merge of replicas above this stream left out and diverted, as a stream of its own.

        `LeftOutRows.divert()` says which columns it has.
        """
        return nearest_diverted_stream(self, LEFT_OUT)

    if not TYPE_CHECKING:  # a type checker should say by itself that there is no such step

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to do instead of a step that only other streams have."""
            if name in _ELSEWHERE:
                facts = {"stream": self.node.line}
                hint = f"settle() it first: stream.settle().{name}(...)"
                raise NotOnRevised(
                    message(f"{name} cannot follow a stream whose events are revised later", facts, hint)
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_ELSEWHERE = {name for kind in (OrderedStream, DisorderedStream) for name in dir(kind) if not name.startswith("_")}
"""What other streams can do; what this one can do, too, is found before it is asked for here."""
