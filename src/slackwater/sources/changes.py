"""changes(): streams that already carry inserts, adjusts, removals and punctuations, from any source of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.events.changes import CHANGE, ChangeSchema
from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.revisions import AssumeKeyed, LateChanges
from slackwater.plan.properties import Extent, Properties
from slackwater.policies.punctuations import Punctuations
from slackwater.sources.stream import feed_of
from slackwater.streams.revised import RevisedStream

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.policies.late import Late


def changes(
    source: Any,
    *,
    time: str,
    until: str | None = None,
    prior: str | None = None,
    kind: str = CHANGE,
    sequence: str | None = None,
    keyed: bool = False,
    punctuated: bool = True,
    late: Late | None = None,
    name: str | None = None,
    schema: pa.Schema | None = None,
) -> RevisedStream:
    """Make a stream of rows that say how events change: a log of changes, or the output of another system.

    `source` is anything that `stream` takes, live sources included. The column `kind` says what a row is, in any letter
    case:

    - "insert": an event that lasts from `time` to `until`;
    - "adjust": the event with this payload and time that lasted to `prior` lasts to `until` instead;
    - "remove": the event with this payload and time that lasted to `prior` is taken away; `until` is not looked at;
    - "punctuate": no later row concerns time before `time`; no other column is looked at.

    A null in `until` or `prior` means "not known yet". `prior` is by default called as `until` with "_before" after it,
    as in what a RevisedStream shows. Without `until`, events happen at one time: they are inserted and removed.

    `sequence` names a column that numbers the rows, as that of a log written by Spark does; it is no part of the
    events. All other columns are: leave out what a sink has added, such as the `batch_id` of folders. In process rows
    are applied as they come, so put a table in order first. On Spark the rows of a micro-batch are taken together:
    what all changes of an event come to is one change, whatever their order, and the greatest of their punctuations
    counts when all are in.

    A row that contradicts a punctuation before it is refused, unless `late` says otherwise: then it is diverted or
    dropped, and so are all later changes of an event that the stream lacks for that reason. An event whose end was
    brought forward too late keeps the former one. `punctuated=False` says that there are none: the stream
    is complete at its end, and not before. `keyed=True` says that no two events ever have the same time and payload at
    once, which is checked; replicas with a key are merged faster, and by every agreement.

    >>> rows = [
    ...     {"change": "insert", "at": 2, "x": "a"},
    ...     {"change": "insert", "at": 1, "x": "b"},
    ...     {"change": "remove", "at": 2, "x": "a"},
    ... ]
    >>> changes(rows, time="at").settle().run().table.to_pylist()
    [{'at': 1, 'x': 'b'}]
    """
    for flag, value in (("keyed", keyed), ("punctuated", punctuated)):
        if not isinstance(value, bool):
            raise PlanError(message(f"{flag}= is True or False", {"got": repr(value)}))
    feed = feed_of(source, name, schema)
    columns = ChangeSchema.of_changes(feed.schema, time, until, prior, kind, sequence, punctuated=punctuated)
    extent = Extent.POINTS if until is None else Extent.INTERVALS
    facts = Properties(extent=extent, punctuated=punctuated, insert_only=False)
    node = SourceNode(name or feed.name, feed, columns, facts, Punctuations.none())
    checked = node if late is None else LateChanges(node, late)
    return RevisedStream(AssumeKeyed(checked) if keyed else checked)
