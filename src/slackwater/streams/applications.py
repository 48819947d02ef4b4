"""What replicas are for: to outlive failures, to be as fast as the fastest, to start from a snapshot, to change over.

Each is a small composition of merge_replicas() and of replicas that come and go.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section I.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, SlackwaterError, message
from slackwater.events.written_times import as_instant
from slackwater.plan.nodes.revisions import CompleteAtEnd
from slackwater.policies.agreement import Agreement
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.event_stream import EventStream
from slackwater.streams.replicas import merge_replicas
from slackwater.streams.revised import RevisedStream

if TYPE_CHECKING:
    from slackwater.events.written_times import Moment
    from slackwater.streams.ordered import OrderedStream
    from slackwater.streams.query import Query
    from slackwater.streams.replicas import Replica


def high_availability(first: Replica, second: Replica, *others: Replica, attachable: bool = False) -> OrderedStream:
    """Emit each event once, in order, as long as one of several copies of a query lives.

    With n copies, n - 1 may fall silent or fail at any time, and nothing is lost or doubled. One that fails leaves: its
    source raises, a step does that only it needs, or it goes back in time; `Query.replicas()` says why. The query fails
    with the last one. One that was cut off is detached before its source is closed (see `Query.detach`). With
    `attachable=True` copies come back, by `Query.attach(copy, complete_from=...)` on their own source or, where that
    has ended, by `Query.attach(new, complete_from=..., instead_of=old)`. Copies are then merged event by event, and
    each event goes out when its end is past, so that those who come back cannot contradict it.

    >>> import slackwater as sw
    >>> rows = [{"at": at, "x": "abcd"[at]} for at in range(4)]
    >>> copies = [sw.stream(rows[:alive], time="at").assume_ordered() for alive in (1, 4, 2)]
    >>> high_availability(*copies).run().table["x"].to_pylist()
    ['a', 'b', 'c', 'd']
    """
    return merge_replicas(first, second, *others, attachable=attachable)


def fast_availability(first: Replica, second: Replica, *others: Replica) -> OrderedStream | RevisedStream:
    """Emit each event as soon as the fastest of several copies does, whichever that is at the moment.

    Copies that come in order, with a key, stay in order. Of others an event goes out before it is sure: it may be
    revised when the copies turn out to disagree with the one that was first. `settle()` waits until it is.

    >>> import slackwater as sw
    >>> rows = [{"at": at, "x": "abcd"[at]} for at in range(4)]
    >>> quick, slow = (sw.stream(one, time="at").sort(patience=2) for one in (rows, rows[::-1]))
    >>> fast_availability(quick, slow).settle().run().table["x"].to_pylist()
    ['a', 'b', 'c', 'd']
    """
    return merge_replicas(first, second, *others, agreement=Agreement.first())


def jumpstart(seed: EventStream | RevisedStream, live: Replica, *, since: Moment) -> RevisedStream:
    """Begin with a snapshot of what went before, and go on with the live stream, without a gap or a repeat.

    `seed` has an end, and every event that starts before `since`, with the end that was known when it was taken;
    it need not be in order. `live` has every event that lasts until `since` or longer, those that began before it
    included; what it has of events before that is left aside. An end that was not final in the seed is revised by
    the live stream, so that the result is a RevisedStream; `settle()` gives the events in order, when they are final.

    >>> import slackwater as sw
    >>> seed = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}], time="at")
    >>> live = sw.stream([{"at": 2, "x": "b"}, {"at": 3, "x": "c"}], time="at").assume_ordered()
    >>> jumpstart(seed, live, since=3).settle().run().table.to_pydict()
    {'at': [1, 2, 3], 'x': ['a', 'b', 'c']}
    """
    if not all(isinstance(stream, EventStream | RevisedStream) for stream in (seed, live)):
        facts = {"seed": type(seed).__name__, "live": type(live).__name__}
        raise PlanError(message("jumpstart takes streams", facts, "make them by stream(...) or changes(...)"))
    before = as_instant(since, seed.node.schema.time, "since")
    kind = RevisedStream if isinstance(seed, RevisedStream) else DisorderedStream
    snapshot = kind(CompleteAtEnd(seed.node, before))
    # The live stream is named first: where both have come as far when they end, it is the one to be believed.
    merged = merge_replicas(live, snapshot, agreement=Agreement.first(), complete_from={live: since})
    assert isinstance(merged, RevisedStream), "replicas that join later are merged event by event"
    return merged


def cutover(query: Query, old: Replica, new: Replica, *, complete_from: Moment) -> None:
    """Change over from one replica of a running query to another, without a gap or a repeat.

    `new` waits, or was detached; from `complete_from` on it is complete. It is attached; the query is driven until
    it has joined, that is until the merged stream is complete up to there; then `old` is detached. It is for the thread
    that drives the query, and waits as long as the old replica needs to come as far.

    >>> import pyarrow as pa, slackwater as sw
    >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
    >>> blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
    >>> seen = []
    >>> query = sw.merge_replicas(blue, green, standby=[green]).open(lambda rows: seen.extend(rows["at"].to_pylist()))
    >>> sources[0].push([{"at": at} for at in range(10)])
    >>> sources[1].push([{"at": at} for at in range(5, 15)])
    >>> cutover(query, blue, green, complete_from=6)
    >>> query.close()
    >>> seen == list(range(15))
    True
    """
    query.attach(new, complete_from=complete_from)
    while query.waits_to_join(new):
        query.work()
        if not query.waits_to_join(new):
            break
        if query.finished or any(one.alone for one in query.replicas()):
            facts = {"standing": "; ".join(map(str, query.replicas()))}
            hint = "a replica joins when another one has come as far as it is complete from"
            raise SlackwaterError(message("the new replica cannot join any more", facts, hint))
        query.wait_for_more()
    if query.why_left(new):
        facts = {"replica": new.node.line, "reason": query.why_left(new)}
        raise SlackwaterError(message("the new replica has left before it had joined", facts, "attach it again"))
    query.detach(old)
