"""DisorderedStream: events in the order they arrived; steps that need order are refused until it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.row_steps import AssumeOrdered
from slackwater.streams.event_stream import EventStream

if TYPE_CHECKING:
    from slackwater.streams.ordered import OrderedStream


class DisorderedStream(EventStream):
    """A stream in order of arrival."""

    def assume_ordered(self) -> OrderedStream:
        """Declare that events come in order of time. The first that does not is an error that names it.

        >>> import slackwater as sw
        >>> sw.stream([{"at": 1}, {"at": 1}, {"at": 5}], time="at").assume_ordered().run().table.num_rows
        3
        """
        from slackwater.streams.ordered import OrderedStream

        return OrderedStream(AssumeOrdered(self.node))
