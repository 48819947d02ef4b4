"""One stream out of several replicas of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, overload

from slackwater.errors import PlanError, message
from slackwater.events.written_times import as_instant
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.replicas import Attendance, MergeReplicas, as_replica
from slackwater.policies.agreement import Agreement
from slackwater.policies.left_out_rows import LeftOutRows
from slackwater.streams.event_stream import EventStream
from slackwater.streams.ordered import OrderedStream
from slackwater.streams.revised import RevisedStream

if TYPE_CHECKING:
    from slackwater.events.written_times import Moment
    from slackwater.plan.node import Node
    from slackwater.progress.frontier import Port

    Replica = EventStream | RevisedStream

_DROP = LeftOutRows.drop()


@overload
def merge_replicas(
    first: Replica,
    *others: Replica,
    agreement: None = None,
    same_tie_order: bool = False,
    standby: Sequence[Replica] = (),
    complete_from: Mapping[Replica, Moment] | None = None,
    attachable: bool = False,
    left_out: LeftOutRows = _DROP,
) -> OrderedStream: ...
@overload
def merge_replicas(
    first: Replica,
    *others: Replica,
    agreement: Agreement,
    same_tie_order: bool = False,
    standby: Sequence[Replica] = (),
    complete_from: Mapping[Replica, Moment] | None = None,
    attachable: bool = False,
    left_out: LeftOutRows = _DROP,
) -> OrderedStream | RevisedStream: ...
def merge_replicas(
    first: Replica,
    *others: Replica,
    agreement: Agreement | None = None,
    same_tie_order: bool = False,
    standby: Sequence[Replica] = (),
    complete_from: Mapping[Replica, Moment] | None = None,
    attachable: bool = False,
    left_out: LeftOutRows = _DROP,
) -> OrderedStream | RevisedStream:
    """Emit once what several streams have, that are the same but for order, pace and revisions.

    Blue and green, two regions, a hot standby: each event goes out once, whoever has it. Ordered replicas whose events
    have a key (answers of an aggregate do), or whose rows of one time come in the same order in every replica
    (`same_tie_order=True` says so), are merged as they come. Of all others an event goes out when some replica has
    guaranteed that it will not change, and all that is older has gone out. Another `agreement` lets events go out
    before that: they may be revised then, and the result is a RevisedStream. Where no replica revises anything, an
    event cannot change once its start is complete, whatever its end. Where replicas are revised, one without an end
    waits for it, and so does all that is behind it, until all replicas have ended: `Agreement.half_frozen()` does not
    wait.

    An event that some replica lacks goes out if the one that is ahead has it: ordered replicas are followed by the
    newest time, others by the greatest punctuation. What is left out is counted (`Query.counters()`,
    `Query.replicas()`), and with `left_out=LeftOutRows.divert()` it goes to an output of its own (`Result.left_out`,
    `stream.left_out`); docs/decisions/0023 says what becomes of a missing event in each case. Streams that share only
    some of their rows are no replicas: unite them, and deduplicate().

    A replica must say how far it has come: by its order, or by punctuations. One that ends may have been cut off, so
    its end means nothing; when all have ended, the one that has come furthest is complete, and of several that
    have come as far one that most others agree with. One that fails, by its source, a step of its own or by going back
    in time, leaves, and the others go on; the query fails with the last. (On Spark sources and steps fail with the
    query, and rows that go back in time are late.)

    Replicas may come and go while the query runs: those on `standby` are not read until `Query.attach` says from
    when on they are complete. `complete_from` says that of replicas that take part at once. `attachable=True` is for
    replicas that are detached, or die, and come back. Such replicas are merged event by event, which remembers more.

    >>> import slackwater as sw
    >>> blue = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}], time="at").assume_ordered()
    >>> green = sw.stream([{"at": 1, "x": "a"}, {"at": 2, "x": "b"}, {"at": 3, "x": "c"}], time="at").assume_ordered()
    >>> sw.merge_replicas(blue, green).run().table.to_pydict()
    {'at': [1, 2, 3], 'x': ['a', 'b', 'c']}
    """
    replicas = (first, *others)
    if not all(isinstance(replica, EventStream | RevisedStream) for replica in replicas):
        facts = {"got": ", ".join(type(replica).__name__ for replica in replicas)}
        raise PlanError(
            message("merge_replicas takes streams", facts, "merge_replicas(a, b), not merge_replicas([a, b])")
        )
    if not isinstance(agreement, Agreement | None):
        facts, hint = {"got": repr(agreement)}, "write agreement=sw.Agreement.first(), or another of its kind"
        raise PlanError(message("agreement= takes an Agreement", facts, hint))
    if not isinstance(standby, Sequence) or not isinstance(complete_from, Mapping | None):
        facts, hint = (
            {"standby": standby, "complete_from": complete_from},
            "standby=[green], complete_from={green: time}",
        )
        raise PlanError(message("standby= is a list of replicas, and complete_from= maps some to a time", facts, hint))
    ports = {replica.node: port for port, replica in reversed(list(enumerate(replicas)))}
    later = {
        _port_of(replica, ports, "complete_from"): as_instant(moment, replica.node.schema.time, "complete_from")
        for replica, moment in (complete_from or {}).items()
    }
    attendance = Attendance(frozenset(_port_of(one, ports, "standby") for one in standby), later, attachable)
    nodes = tuple(as_replica(replica.node) for replica in replicas)
    chosen = (agreement or Agreement.frozen()).resolved(calendar=first.node.schema.calendar)
    merged = MergeReplicas(nodes, chosen, same_tie_order, attendance, ports, left_out)
    if merged.revises:
        return RevisedStream(merged)
    return OrderedStream(merged if merged.properties.ordered else Sort(merged))


def _port_of(replica: object, ports: Mapping[Node, Port], what: str) -> Port:
    node: Node | None = getattr(replica, "node", None)
    if node is None or node not in ports:
        facts = {"got": repr(replica) if node is None else node.line}
        raise PlanError(message(f"{what} names a stream that is not one of the replicas", facts))
    return ports[node]
