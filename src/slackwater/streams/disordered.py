"""DisorderedStream: events in the order they arrived; only steps that need no order are allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.probe import name_outputs
from slackwater.plan.row_steps import AssignWindow, AssumeOrdered, Select, Where
from slackwater.policies.windows import Hopping, Sliding, Tumbling
from slackwater.progress.instants import as_duration
from slackwater.streams.grouped import GroupedStream
from slackwater.streams.stream import Stream

if TYPE_CHECKING:
    from typing import Self

    import narwhals as nw

    from slackwater.operators.expressions import Computation
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration
    from slackwater.streams.ordered import OrderedStream


class RowStream(Stream):
    """Steps that treat each row by itself: the same on ordered and disordered streams."""

    def where(self, predicate: Computation) -> Self:
        """Keep the rows that satisfy a Narwhals expression, or a function from an Arrow batch to booleans.

        >>> import narwhals as nw, slackwater as sw
        >>> rows = sw.stream([{"at": 1, "x": 5}, {"at": 2, "x": 7}], time="at")
        >>> rows.where(nw.col("x") > 5).run().table.to_pylist()
        [{'at': 2, 'x': 7}]
        """
        return type(self)(Where(self.node, predicate))

    def select(self, *columns: str | nw.Expr, **computed: str | Computation) -> Self:
        """Choose columns by name and compute others; the time columns always stay.

        Positional expressions keep the name that Narwhals gives them; functions from an Arrow batch to an array need
        a name: `select("carrier", speed=nw.col("distance") / nw.col("air_time"))`.
        """
        return type(self)(Select(self.node, name_outputs(columns, computed, self.node.schema)))

    def group_by(self, *keys: str) -> GroupedStream:
        """Aggregate per value of these columns: `group_by("carrier").aggregate(n=sw.count())`."""
        return GroupedStream(self.node, keys)

    def aggregate(self, **aggregates: Aggregate) -> OrderedStream:
        """Sum up the events of each window, or of each span in which the set of living events does not change."""
        return GroupedStream(self.node, ()).aggregate(**aggregates)

    def _length(self, length: Length) -> Duration:
        return as_duration(length, calendar=self.node.schema.calendar)


class DisorderedStream(RowStream):
    """A stream in order of arrival. Steps that need order are refused until it has one."""

    def tumbling(self, size: Length, offset: Length | None = None) -> DisorderedStream:
        """Give each event the window [k*size, (k+1)*size) that it falls into."""
        return DisorderedStream(tumbling(self, size, offset))

    def hopping(self, size: Length, hop: Length, offset: Length | None = None) -> DisorderedStream:
        """Give each event, once for each, the windows [k*hop, k*hop + size) that it falls into."""
        return DisorderedStream(hopping(self, size, hop, offset))

    def sliding(self, size: Length) -> DisorderedStream:
        """Let each event last for `size` from its time on."""
        return DisorderedStream(sliding(self, size))

    def assume_ordered(self) -> OrderedStream:
        """Declare that events come in order of time. The first that does not is an error."""
        from slackwater.streams.ordered import OrderedStream

        return OrderedStream(AssumeOrdered(self.node))


def tumbling(stream: RowStream, size: Length, offset: Length | None) -> AssignWindow:
    """Plan a tumbling window."""
    shift = 0 if offset is None else stream._length(offset)  # noqa: SLF001 - same family
    return AssignWindow(stream.node, Tumbling(stream._length(size), shift))  # noqa: SLF001


def hopping(stream: RowStream, size: Length, hop: Length, offset: Length | None) -> AssignWindow:
    """Plan a hopping window."""
    shift = 0 if offset is None else stream._length(offset)  # noqa: SLF001
    return AssignWindow(stream.node, Hopping(stream._length(size), stream._length(hop), shift))  # noqa: SLF001


def sliding(stream: RowStream, size: Length) -> AssignWindow:
    """Plan a sliding window."""
    return AssignWindow(stream.node, Sliding(stream._length(size)))  # noqa: SLF001
