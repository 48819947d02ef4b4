"""Several plans of one query race: the merged stream follows whichever is ahead, and the others skip what it has sent.

Plans that give the same stream may be fast at different times: one that is dear for small values, one for large ones.
Each is driven by a thread of its own and pushes what it gives into a merge of replicas. The merge says what it needs no
more; a plan that has fallen behind leaves that out, and is there when the other becomes slow (fast-forward).
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections V-D and VI-E.3.

Invariant: the merged stream has what each plan would have sent alone. No thread is started here: plans are driven by
threads of the user's, or by hand. The same can be done between processes, with any transport instead of the push:
what counts is that `PushSource.wanted_from` of one query comes to `Query.ignore_before` of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.errors import NeedsOrder, PlanError, StepFailed, message
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.sources.push import CAPACITY, PushSource
from slackwater.sources.stream import stream
from slackwater.streams.event_stream import EventStream
from slackwater.streams.ordered import OrderedStream
from slackwater.streams.replicas import merge_replicas

if TYPE_CHECKING:
    from slackwater.progress.clock import Clock

BATCH_ROWS = 1_000
"""Rows that a plan takes at once: what it has begun it ends, though the others may have sent it in the meantime."""


class Race:
    """Ordered plans of one query, and the stream that they give together.

    `merged` is to be run, or gone on with, once; `run_plan` drives a plan to its end. One that fails leaves the race.
    Without feedback every plan does all its work, which shows what feedback is worth.

    >>> from threading import Thread
    >>> import narwhals as nw, slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": at % 5} for at in range(1_000)], time="at").assume_ordered()
    >>> race = sw.Race(rows.where(nw.col("x") > 2), rows.where(~(nw.col("x") <= 2)))
    >>> threads = [Thread(target=race.run_plan, args=[plan]) for plan in range(2)]
    >>> for thread in threads:
    ...     thread.start()
    >>> race.merged.run().table.num_rows
    400
    >>> for thread in threads:
    ...     thread.join()
    """

    def __init__(
        self,
        *plans: EventStream,
        batch_rows: int = BATCH_ROWS,
        capacity: int = CAPACITY,
        clock: Clock | None = None,
        feedback: bool = True,
    ) -> None:
        if not plans:
            raise PlanError(message("a race needs plans", {}, "Race(one, another)"))
        for plan in plans:
            _require_order(plan)
        self._feedback = feedback
        self._sources = [
            PushSource(plan.schema, name=f"plan {number}", capacity=capacity) for number, plan in enumerate(plans)
        ]
        replicas = [_replica(source, plan) for source, plan in zip(self._sources, plans, strict=True)]
        self.merged = _of_known_replicas(merge_replicas(*replicas))
        self._queries = [
            plan.open(source.push, clock=clock, batch_rows=batch_rows)
            for source, plan in zip(self._sources, plans, strict=True)
        ]

    def run_plan(self, plan: int) -> None:
        """Drive a plan to its end, in the calling thread, or until nobody reads the merged stream any more.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": at} for at in range(10)], time="at").assume_ordered()
        >>> race = sw.Race(rows, rows.select())
        >>> race.run_plan(0)
        >>> race.run_plan(1)
        >>> race.merged.run().table.num_rows
        10
        """
        source, query = self._sources[plan], self._queries[plan]
        try:
            with query:
                while not query.finished:
                    if not self.step(plan):
                        query.wait_for_more()
        except StepFailed:
            if not source.closed:
                raise
        finally:
            source.close()

    def step(self, plan: int) -> bool:
        """Let a plan take a batch from each of its sources; say whether there may be more to do now.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": at} for at in range(10)], time="at").assume_ordered()
        >>> race = sw.Race(rows, batch_rows=4)
        >>> while race.step(0):
        ...     pass
        >>> race.merged.run().table.num_rows
        10
        """
        source, query = self._sources[plan], self._queries[plan]
        if self._feedback:
            query.ignore_before(source.wanted_from)
        moved = query.step()
        if query.finished:
            source.close()
        return moved


def _require_order(plan: object) -> None:
    if not isinstance(plan, EventStream) or not plan.properties.insert_only:
        facts, hint = {"got": type(plan).__name__}, "Race(a, b), not Race([a, b]); settle revisions first"
        raise PlanError(message("a race needs streams whose events are not revised", facts, hint))
    if plan.properties.latent or not plan.properties.ordered:
        raise NeedsOrder.at("race", plan.node.line)
    sources = [node for node in walk(plan.node) if isinstance(node, SourceNode)]
    if any(getattr(source.feed, "only_on_spark", False) for source in sources):
        facts = {"because": "there all plans of a query take a micro-batch together, and none falls behind"}
        hint = "merge_replicas(one, other) emits each event once"
        raise PlanError(message("plans race in process, and not on Spark", facts, hint))


def _replica(source: PushSource, plan: EventStream) -> OrderedStream:
    """What a plan gives, as a stream of the query that merges."""
    time, until = plan.node.schema.time, plan.node.schema.until
    return stream(source, time=time.name, until=None if until is None else until.name).assume_ordered()


def _of_known_replicas(merged: OrderedStream) -> OrderedStream:
    """The same merge, which need not find out whether plans of one query share their rows."""
    merge = merged.node.input if isinstance(merged.node, Sort) else merged.node
    assert isinstance(merge, MergeReplicas)
    known = replace(merge, known=True)
    return OrderedStream(Sort(known) if isinstance(merged.node, Sort) else known)
