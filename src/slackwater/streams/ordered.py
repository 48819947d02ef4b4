"""OrderedStream: events in order of time; everything is allowed, and nothing waits longer than it must."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.combining_steps import FollowedBy, Join, Union
from slackwater.plan.row_steps import stamped
from slackwater.policies.matching import Overlap, Within
from slackwater.streams.disordered import DisorderedStream, RowStream, hopping, sliding, tumbling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.policies.punctuations import Length


class OrderedStream(RowStream):
    """A stream in order of time, with or without ties."""

    def tumbling(self, size: Length, offset: Length | None = None) -> OrderedStream:
        """Give each event the window [k*size, (k+1)*size) that it falls into."""
        return OrderedStream(tumbling(self._stamped(), size, offset))

    def hopping(self, size: Length, hop: Length, offset: Length | None = None) -> DisorderedStream:
        """Give each event, once for each, the windows [k*hop, k*hop + size) that it falls into.

        The rows are no longer ordered by their windows, but punctuations say which windows are complete, so that
        aggregate() may follow.
        """
        return DisorderedStream(hopping(self._stamped(), size, hop, offset))

    def sliding(self, size: Length) -> OrderedStream:
        """Let each event last for `size` from its time on."""
        return OrderedStream(sliding(self._stamped(), size))

    def union(self, *others: OrderedStream) -> OrderedStream:
        """Put streams of the same columns together, in order of time. See `slackwater.union`."""
        return OrderedStream(Union((self.node, *(other.node for other in others))))

    def join(
        self, other: OrderedStream, *, on: str | Sequence[str] = (), within: Length | None = None
    ) -> OrderedStream:
        """Pair events that agree on the `on` columns and meet in time.

        With `within`, two events meet when their times differ by at most that, and the pair happens at the later of
        the two. Without, they meet when their lifetimes overlap, and the pair lasts as long as both do.

        >>> import slackwater as sw
        >>> a = sw.stream([{"at": 1, "k": "x"}], time="at").assume_ordered()
        >>> b = sw.stream([{"at": 3, "k": "x", "v": 7}], time="at").assume_ordered()
        >>> a.join(b, on="k", within=2).run().table.to_pylist()
        [{'matched_at': 3, 'at': 1, 'k': 'x', 'at_right': 3, 'v': 7}]
        """
        left, right = self._both_stamped(other)
        meeting = Overlap() if within is None else Within.of(self._length(within))
        return OrderedStream(Join(left.node, right.node, _columns(on), meeting))

    def followed_by(self, then: OrderedStream, *, within: Length, on: str | Sequence[str] = ()) -> OrderedStream:
        """Pair each event with the first strictly later one of `then` that agrees on `on` and comes within the time.

        The pair happens when the second event does. Several simultaneous first ones make several pairs.
        """
        first, second = self._both_stamped(then)
        return OrderedStream(FollowedBy(first.node, second.node, _columns(on), self._length(within)))

    def _stamped(self) -> OrderedStream:
        return OrderedStream(stamped(self.node))

    def _both_stamped(self, other: OrderedStream) -> tuple[OrderedStream, OrderedStream]:
        if self.properties.latent != other.properties.latent:
            facts = {"left": self.node.line, "right": other.node.line}
            raise PlanError(message("one stream has times and the other has none yet", facts, "stamp both or neither"))
        return self._stamped(), other._stamped()


def _columns(on: str | Sequence[str]) -> tuple[str, ...]:
    return (on,) if isinstance(on, str) else tuple(on)


def union(first: OrderedStream, *others: OrderedStream) -> OrderedStream:
    """Put ordered streams of the same columns together, in order of time.

    >>> import slackwater as sw
    >>> odd = sw.stream([{"at": 1}, {"at": 3}], time="at").assume_ordered()
    >>> even = sw.stream([{"at": 2}], time="at").assume_ordered()
    >>> sw.union(odd, even).run().table.to_pydict()
    {'at': [1, 2, 3]}
    """
    return first.union(*others)
