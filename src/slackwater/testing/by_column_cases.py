"""The torture cases of the merge by a column: consistent replicas in one stream, some of which die, and their table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
from slackwater.operators.replicas.by_bounds import MergeByBoundsOperator
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.proofs import with_patience
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from slackwater.progress.instants import Duration
    from slackwater.temporal.table import TemporalTable
    from slackwater.testing.torture import Streams

ItemT = TypeVar("ItemT")
"""What a stream is made of."""

NAMES = ("blue", None, "green")
"""What replicas are called; null is a name like any other."""


def in_order_of_arrival(events: Iterable[Insert], patience: Duration, rng: Random) -> list[Insert]:
    """Bring events into disorder, so that none comes when a newer one is more than the patience past it.

    >>> from random import Random
    >>> arrived = in_order_of_arrival([Insert("a", at) for at in range(9)], patience=3, rng=Random(1))
    >>> [event.start for event in arrived]
    [0, 1, 3, 2, 4, 5, 6, 8, 7]
    """
    return sorted(events, key=lambda event: event.start + rng.randint(0, patience))


def interleaved(replicas: Sequence[Sequence[ItemT]], rng: Random) -> list[ItemT]:
    """Bring streams together at random, each in its own order."""
    turns = [port for port, replica in enumerate(replicas) for _ in replica]
    rng.shuffle(turns)
    left = [iter(replica) for replica in replicas]
    return [next(left[port]) for port in turns]


def until_dead(arrived: Sequence[Insert], rng: Random) -> list[Insert]:
    """What a replica sends that dies before it comes to the newest event, so that it is not the furthest."""
    newest = max((event.start for event in arrived), default=0)
    first = next((place for place, event in enumerate(arrived) if event.start == newest), 0)
    return list(arrived[: rng.randint(0, first)])


def named(events: Iterable[Any], name: str | None) -> list[Insert]:
    """The events of a table as a replica sends them, its name behind their payload."""
    return [Insert((*event.payload, name), event.start, event.end) for event in events]


@st.composite
def _consistent_replicas(
    draw: st.DrawFn, payload: pa.Schema, tables: st.SearchStrategy[TemporalTable], patience: Duration
) -> Streams:
    table, rng = draw(tables), draw(st.randoms(use_true_random=False))
    replicas = [in_order_of_arrival(named(table, name), patience, rng) for name in NAMES]
    some_die = draw(st.booleans())
    if some_die:
        replicas[1:] = [until_dead(replica, rng) for replica in replicas[1:]]
    together: list[Element] = list(interleaved(replicas, rng))
    return (batch_of(together if some_die else _punctuated(together, rng), payload),)


def _punctuated(together: Sequence[Element], rng: Random) -> list[Element]:
    """Punctuate, here and there, where it is true of all replicas."""
    punctuated: list[Element] = []
    for place, element in enumerate(together):
        ahead = [later.start for later in together[place:] if isinstance(later, Insert)]
        punctuated += [Punctuate(min(ahead))] * (rng.random() < 0.1)  # noqa: PLR2004 - now and then
        punctuated.append(element)
    return punctuated


def _each_once(streams: Streams) -> Iterator[Insert]:
    """Of equal events as many as the replica has that has most."""
    return _each_once_of(event for event in elements_of(streams[0]) if isinstance(event, Insert))


def _each_once_of(events: Iterable[Insert]) -> Iterator[Insert]:
    counts: Counter[tuple[Any, Insert]] = Counter()
    for event in events:
        payload: tuple[Any, ...] = event.payload  # type: ignore[assignment]
        counts[payload[-1], Insert(payload[:-1], event.start, event.end)] += 1
    for event in {event for _, event in counts}:
        yield from [event] * max(counts[name, event] for name in NAMES)


@st.composite
def _landed(draw: st.DrawFn, replicas: st.SearchStrategy[Streams], payload: pa.Schema) -> Streams:
    """The same, and when each row arrived: some together."""
    (batch,) = draw(replicas)
    tick, landed = 0, []
    for element in elements_of(batch):
        tick += draw(st.integers(0, 1))
        landed.append(element if isinstance(element, Punctuate) else _with(element, tick))
    return (batch_of(landed, payload),)


def _with(event: Any, tick: int) -> Insert:
    return Insert((*event.payload[:-1], tick, event.payload[-1]), event.start, event.end)


def _each_once_wherever_landed(streams: Streams) -> Iterator[Insert]:
    """When a row arrived is no part of the event."""
    events = [event for event in elements_of(streams[0]) if isinstance(event, Insert)]
    plain = [Insert((*event.payload[:-2], event.payload[-1]), event.start, event.end) for event in events]  # type: ignore[index]
    yield from _each_once_of(plain)


def by_column_cases(payload: pa.Schema) -> Iterator[TortureCase]:
    """One case for each way in which the merge works."""
    yield from _by_patience(payload)
    yield from _by_bounds(payload)


def _by_bounds(payload: pa.Schema) -> Iterator[TortureCase]:
    """Replicas whose rows say when they arrived, and are out of order by less than the patience."""
    disorder, patience = 4, 9
    named_payload = pa.schema([*payload, pa.field("replica", pa.string())])
    landed = pa.schema([*payload, pa.field("landed", pa.int64()), pa.field("replica", pa.string())])
    times = (TimeColumn("at", pa.int64()), TimeColumn("until", pa.int64()))
    schema = EventSchema(landed, *times, ("at", "until", *landed.names))
    bounds = Bounds.disorder(disorder) & Bounds.uniform(200) & Bounds.lull(50)
    rules = with_patience(bounds.rules(Units(calendar=False, clock_calendar=False)), patience, "patience")
    for keyed in (False, True):

        def build(state: Any, keyed: bool = keyed) -> MergeByBoundsOperator:
            beats = HeartbeatSettings(rules, "replica", "landed", 1, None)
            late = Late.raise_error()
            return MergeByBoundsOperator(schema, "replica", patience, late, beats, keyed=keyed, resume=state)

        tables = keyed_tables() if keyed else tables_with_duplicates()
        yield TortureCase(
            f"merge_replicas by bounds, {'with' if keyed else 'without'} a key",
            MergeByBoundsOperator,
            build,
            _landed(_consistent_replicas(named_payload, tables, disorder), landed),
            _each_once_wherever_landed,
            ordered=False,
        )


def _by_patience(payload: pa.Schema) -> Iterator[TortureCase]:
    patience = 4
    named_payload = pa.schema([*payload, pa.field("replica", pa.string())])
    times = (TimeColumn("at", pa.int64()), TimeColumn("until", pa.int64()))
    schema = EventSchema(named_payload, *times, ("at", "until", *named_payload.names))
    for every, keyed in ((Every.rows(2), False), (Every.time(3), True), (Every.batch(), False)):
        cadence = every.resolved(calendar=False)

        def build(state: Any, cadence: Any = cadence, keyed: bool = keyed) -> MergeByColumnOperator:
            late = Late.raise_error()
            return MergeByColumnOperator(schema, "replica", patience, cadence, late, keyed=keyed, resume=state)

        tables = keyed_tables() if keyed else tables_with_duplicates()
        yield TortureCase(
            f"merge_replicas by a column, {every}, {'with' if keyed else 'without'} a key",
            MergeByColumnOperator,
            build,
            _consistent_replicas(named_payload, tables, patience),
            _each_once,
            ordered=False,
        )
