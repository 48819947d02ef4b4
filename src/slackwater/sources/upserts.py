"""upserts(): streams of updates by key, "the value of this key is from now on that", as changes of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.bands import split_by_lateness
from slackwater.plan.nodes.upserts import Upserts
from slackwater.policies.late import Late
from slackwater.policies.lateness import refuse_without_patience
from slackwater.sources.stream import stream
from slackwater.streams.bounded import waiting
from slackwater.streams.event_stream import EventStream
from slackwater.streams.revised import RevisedStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length

_DIVERT = Late.divert()


def upserts(
    source: Any,
    *,
    key: str | Sequence[str],
    time: str | None = None,
    until: str = "until",
    deleted: str | None = None,
    patience: Length | None = None,
    every: Every | None = None,
    late: Late = _DIVERT,
    bounds: Bounds | None = None,
    ahead: Length | None = None,
    name: str | None = None,
    schema: pa.Schema | None = None,
) -> RevisedStream:
    """Make a stream of the values that keys have, of rows that update them: each lasts until the next of its key.

    `source` is anything that `stream` takes, with its `time`, `name` and `schema`, or a stream that is not revised and
    has a time already. Rows are updates by `key`, one column or several, nulls being equal; they may come disordered.
    `patience`, `every`, `late`, `bounds` and `ahead` say how long to wait for late ones, and what becomes of them, as
    in sort(): a row that comes when its time is complete goes to the late output and changes nothing.

    What comes out is a revised stream. The value of a key is an event that lasts from the time of its row up to that of
    the next row of the key, in the column `until`. It goes out when its time is complete; if no next one is known by
    then, without an end, which is adjusted when there is one. `deleted` names a column of yes or no: a row with yes
    ends the value of its key, and brings no other. That column is not in the output.

    The result depends on what the rows are, not on how they came. Of several rows of one key and time one counts: a
    value before a deletion, and the greatest by the other columns, from left to right, nulls being greater than all
    else. The others are counted as `duplicates`. Memory holds the rows that wait, and one value for each key that has
    one. Choose rows behind this step, not before: a value ends when the next one comes, though nobody wants that.

    >>> rows = [
    ...     {"at": 3, "room": "a", "guest": "ann", "left": False},
    ...     {"at": 8, "room": "a", "guest": None, "left": True},
    ...     {"at": 5, "room": "a", "guest": "bob", "left": False},
    ... ]
    >>> guests = upserts(rows, time="at", key="room", deleted="left", patience=5)
    >>> guests.settle().run().table.to_pylist()
    [{'at': 3, 'until': 5, 'room': 'a', 'guest': 'ann'}, {'at': 5, 'until': 8, 'room': 'a', 'guest': 'bob'}]
    """
    updates = _stream_of(source, time, name, schema)
    if updates.properties.ordered:
        _refuse_waiting(patience=patience, bounds=bounds, ahead=ahead)
    node, lateness = waiting(updates.node, patience, every, late, bounds, ahead)
    if lateness is None:
        refuse_without_patience(every, late, 'upserts(..., patience="5s", ...)')
    else:
        (node,) = split_by_lateness(node, lateness, in_order=False)
    columns = (key,) if isinstance(key, str) else tuple(key)
    return RevisedStream(Upserts(node, columns, until, deleted))


def _stream_of(source: Any, time: str | None, name: str | None, schema: pa.Schema | None) -> EventStream:
    """The stream that is given, or made of what is."""
    if not isinstance(source, EventStream):
        if time is None:
            hint = "name the column of the times at which updates happened"
            raise PlanError(message("upserts needs time=", {"source": type(source).__name__}, hint))
        return stream(source, time=time, name=name, schema=schema)
    given = {"time": time, "name": name, "schema": schema}
    facts = {option: value for option, value in given.items() if value is not None}
    if facts:
        raise PlanError(message("this stream has a time and columns already", facts, f"leave {', '.join(facts)} out"))
    return source


def _refuse_waiting(**given: object) -> None:
    """Refuse to wait for late updates where none can come."""
    facts = {option: value for option, value in given.items() if value is not None}
    if facts:
        raise PlanError(
            message("this stream is in order: none of its rows is late", facts, f"leave {', '.join(facts)} out")
        )
