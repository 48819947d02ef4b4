"""OrderedStream: events in order of time; every step may follow."""

from __future__ import annotations

from slackwater.streams.event_stream import EventStream


class OrderedStream(EventStream):
    """A stream in order of time, with or without ties."""

    def settle(self) -> OrderedStream:
        """Return the stream itself: it is in order, and none of its events is revised. See `RevisedStream.settle`.

        >>> import slackwater as sw
        >>> ordered = sw.stream([{"at": 1}], time="at").assume_ordered()
        >>> ordered.settle() is ordered
        True
        """
        return self


def union(first: EventStream, *others: EventStream) -> OrderedStream:
    """Put ordered streams of the same columns together, in order of time.

    >>> import slackwater as sw
    >>> odd = sw.stream([{"at": 1}, {"at": 3}], time="at").assume_ordered()
    >>> even = sw.stream([{"at": 2}], time="at").assume_ordered()
    >>> sw.union(odd, even).run().table.to_pydict()
    {'at': [1, 2, 3]}
    """
    return first.union(*others)
