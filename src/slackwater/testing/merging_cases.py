"""The torture cases of the merges: replicas that present one table in different ways, and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from slackwater.events.elements import Insert, batch_of
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.ordered_replicas import OrderedReplicas
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.strictly_ordered import MergeStrictlyOrdered
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slackwater.testing.torture import Streams

_REPLICAS = 3
_LAST = 20
_BORDERS = (BEGINNING + 1, BEGINNING + 2, FOREVER - 2, FOREVER - 1)
"""The first and the last times that an event can begin at."""


def starts_of_events(last: int) -> st.SearchStrategy[int]:
    """From 0 to the last one, so that they coincide; now and then at the borders of all time."""
    return st.one_of(*[st.integers(0, last)] * 7, st.sampled_from(_BORDERS))


def ends_after(start: int, longest: int) -> st.SearchStrategy[int]:
    """Soon after the start, or FOREVER: such an event has no end yet."""
    soon = st.integers(start + 1, start + longest).map(lambda end: min(end, FOREVER))
    return st.one_of(soon, soon, soon, st.just(FOREVER))


@st.composite
def keyed_tables(draw: st.DrawFn, *, ties: bool = True, most: int = 14) -> TemporalTable:
    """Complete tables of which start and payload, a word and a number, are a key; without ties the start alone is."""
    starts = draw(st.lists(starts_of_events(_LAST), max_size=most, unique=not ties))
    events = {(draw(st.sampled_from("ab")), start): draw(ends_after(start, 9)) for start in starts}
    return TemporalTable((TemporalEvent((k, 1), start, end) for (k, start), end in events.items()), FOREVER)


@st.composite
def tables_with_duplicates(draw: st.DrawFn, most: int = 14) -> TemporalTable:
    """Complete tables in which events may be equal, or differ in their ends alone."""
    starts = draw(st.lists(starts_of_events(6), max_size=most))
    events = (TemporalEvent((draw(st.sampled_from("ab")), 1), at, draw(ends_after(at, 5))) for at in starts)
    return TemporalTable(events, FOREVER)


@st.composite
def replicas_of_one_table(
    draw: st.DrawFn,
    payload: pa.Schema,
    presentation: Presentation,
    tables: st.SearchStrategy[TemporalTable],
    *,
    alike: bool = False,
) -> Streams:
    """Streams of the same table; `alike` means in the same order."""
    table = draw(tables)
    seed = draw(st.integers(0, 10**6))
    presented = (present(table, seed + (0 if alike else port), presentation) for port in range(_REPLICAS))
    return tuple(batch_of(elements, payload) for elements in presented)


def merging_cases(payload: pa.Schema) -> Iterator[TortureCase]:
    """One case for each merge."""
    ordered = Presentation(punctuations=0.3)
    shuffled = Presentation(shuffle_ties=True, punctuations=0.3)
    revised = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)
    keyed, strict, any_table = keyed_tables(), keyed_tables(ties=False), tables_with_duplicates()
    for operator, streams in (
        (MergeStrictlyOrdered, replicas_of_one_table(payload, ordered, strict)),
        (MergeOrderedSameTies, replicas_of_one_table(payload, ordered, any_table, alike=True)),
        (MergeOrderedWithKey, replicas_of_one_table(payload, shuffled, keyed)),
        (MergeRevisedWithKey, replicas_of_one_table(payload, revised, keyed)),
        (MergeMultiset, replicas_of_one_table(payload, revised, any_table)),
    ):
        yield _case(operator, streams, payload)


def _case(operator: Any, streams: st.SearchStrategy[Streams], payload: pa.Schema) -> TortureCase:
    return TortureCase(
        operator.__name__,
        operator,
        lambda state: operator(_REPLICAS, batch_of([], payload).payload, resume=state),
        streams,
        lambda streams: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])],
        ordered=issubclass(operator, OrderedReplicas),
    )
