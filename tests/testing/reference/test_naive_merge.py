"""The naive merge: with an index for each replica it says what the merge with one index for all says."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.progress.instants import FOREVER
from slackwater.temporal.compatibility import check_compatible
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.oracles.merging import R3
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.reference.naive_merge import MergeRevisedApart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.elements import Element
    from slackwater.operators.emission import Emission

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
NO_ROWS = batch_of([], PAYLOAD).payload
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


def _rows(*elements: Element) -> Any:
    return batch_of(elements, PAYLOAD)


def _emitted(emission: Emission) -> list[Element]:
    for batch in emission.batches:
        batch.check()
    return [element for batch in emission.batches for element in elements_of(batch)]


def _interleaved(streams: Sequence[Sequence[Element]], rng: Random, most: int = 4) -> list[tuple[int, list[Element]]]:
    """The streams in pieces, each in its own order."""
    waiting = [list(stream) for stream in streams]
    turns = []
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        size = rng.randint(1, most)
        turns.append((port, waiting[port][:size]))
        waiting[port] = waiting[port][size:]
    return turns


def _streams(table: TemporalTable, seed: int, replicas: int) -> list[list[Element]]:
    return [present(table, seed + port, _REVISED) for port in range(replicas)]


@given(table=keyed_tables(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), restore=st.booleans())
def test_the_output_follows_every_replica_at_every_prefix(
    table: TemporalTable, seed: int, replicas: int, restore: bool
) -> None:
    """C1 to C3 after every batch; in the end the table; never more elements than came in."""
    streams, merge = _streams(table, seed, replicas), MergeRevisedApart(replicas, NO_ROWS)
    inputs, output = [TableBuilder() for _ in streams], TableBuilder()
    came: Counter[type] = Counter()
    went: Counter[type] = Counter()
    for port, elements in _interleaved(streams, Random(seed)):
        if restore:
            merge = MergeRevisedApart(replicas, NO_ROWS, resume=merge.snapshot())
        for element in elements:
            inputs[port].add(element)
            came[type(element)] += 1
        for element in _emitted(merge.on_batch(port, _rows(*elements))):
            output.add(element)
            went[type(element)] += 1
        merge.check()
        check_compatible(output.table(), [one.table() for one in inputs])
    assert list(output.table()) == list(table)
    assert went[Insert] <= came[Insert]
    assert went[Insert] + went[Adjust] <= came[Insert] + came[Adjust]
    for port in range(replicas):
        merge.on_end(port)
    assert merge.buffered() == 0


@given(table=keyed_tables(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_the_output_is_that_of_the_papers_algorithm(table: TemporalTable, seed: int, replicas: int) -> None:
    """Element by element between two punctuations, in any order there."""
    merge, oracle = MergeRevisedApart(replicas, NO_ROWS), R3(replicas)
    for port, elements in _interleaved(_streams(table, seed, replicas), Random(seed)):
        for element in elements:
            expected = oracle.take(port, element)
            got = _emitted(merge.on_batch(port, _rows(element)))
            assert sorted(map(str, got)) == sorted(map(str, expected))
            assert not expected or got[-1:] == expected[-1:] or not isinstance(expected[-1], Punctuate)


@st.composite
def _tables_that_differ(draw: st.DrawFn) -> list[TemporalTable]:
    """One table, and such that lack some of its events or give them other ends: replicas that contradict each other."""
    table = draw(keyed_tables())
    tables = [table]
    for _ in range(draw(st.integers(1, 2))):
        events = []
        for event in table:
            longer = draw(st.sampled_from([0, 0, 0, 2, None]))
            if longer is not None:
                events.append(TemporalEvent(event.payload, event.start, min(event.end + longer, FOREVER)))
        tables.append(TemporalTable(events, FOREVER))
    return tables


@given(tables=_tables_that_differ(), seed=st.integers(0, 10**6), most=st.sampled_from([1, 4, 20]))
def test_every_call_says_what_the_merge_with_one_index_says(tables: list[TemporalTable], seed: int, most: int) -> None:
    """Of replicas that contradict each other, too: the same answers, the same counts, as much is held."""
    streams = [present(table, seed + port, _REVISED) for port, table in enumerate(tables)]
    apart, shared = MergeRevisedApart(len(tables), NO_ROWS), MergeRevisedWithKey(len(tables), NO_ROWS)
    for port, elements in _interleaved(streams, Random(seed), most):
        emitted, expected = (_emitted(merge.on_batch(port, _rows(*elements))) for merge in (apart, shared))
        assert Counter(map(str, emitted)) == Counter(map(str, expected))
        assert [one for one in emitted if isinstance(one, Punctuate)] == [
            one for one in expected if isinstance(one, Punctuate)
        ]
        apart.check()
        assert apart.complete_before == shared.complete_before
        assert apart.other_ends == shared.other_ends
        assert apart.passed_over == shared.left_out().passed_over
        assert apart.buffered() == shared.buffered()
    for port in range(len(tables)):
        emitted, expected = (_emitted(merge.on_end(port)) for merge in (apart, shared))
        assert Counter(map(str, emitted)) == Counter(map(str, expected))


def test_a_replica_joins_when_the_output_has_come_as_far_as_it_sends_from() -> None:
    """What it had sent by then counts from then on."""
    merge = MergeRevisedApart(1, NO_ROWS)
    merge.attach(1, complete_from=10)
    merge.on_batch(0, _rows(Insert(("a", 1), 2, 9), Insert(("b", 1), 12, 20)))
    merge.on_batch(1, _rows(Insert(("b", 1), 12, 20), Punctuate(30)))
    emitted = _emitted(merge.on_batch(0, _rows(Punctuate(10))))
    assert [one.complete_before for one in emitted if isinstance(one, Punctuate)] == [10, 30]
    merge.check()


def test_a_replica_that_was_detached_begins_anew() -> None:
    """What it sent before does not count: only what it sends now."""
    merge = MergeRevisedApart(2, NO_ROWS)
    merge.on_batch(0, _rows(Insert(("a", 1), 5, 9)))
    merge.detach(0)
    assert not merge.on_batch(0, _rows(Insert(("x", 1), 6, 9))).batches
    merge.attach(0, complete_from=0)
    merge.on_batch(1, _rows(Punctuate(0)))
    emitted = _emitted(merge.on_batch(0, _rows(Insert(("b", 1), 5, 7), Punctuate(6))))
    assert list(map(str, emitted)) == ["insert(('b', 1), 5, 7)", "adjust(('a', 1), 5, 9, 5)", "punctuate(6)"]


def test_a_broken_guarantee_is_refused_with_the_element() -> None:
    """As by every merge."""
    with pytest.raises(BrokenPunctuation, match="insert"):
        MergeRevisedApart(1, NO_ROWS).on_batch(0, _rows(Punctuate(5), Insert(("a", 1), 4, 9)))


def _words(count: int) -> list[tuple[str, int]]:
    return [(f"word {n}" * (n % 5), n) for n in range(count)]


def test_many_events_and_many_corrections_at_once() -> None:
    """More corrections, and more that is done with, than fit into one call; memory that grows, and is moved."""
    merge, events = MergeRevisedApart(2, NO_ROWS), _words(9_000)
    out = [*merge.on_batch(0, _rows(*(Insert(event, n % 7, 50) for n, event in enumerate(events)))).batches]
    sent = (Insert(event, n % 7, 40) for n, event in enumerate(events))
    out += merge.on_batch(1, _rows(*sent, Punctuate(45))).batches
    assert merge.buffered() == 0
    merge.check()
    assert set(temporal_table_of(out)) == {TemporalEvent(event, n % 7, 40) for n, event in enumerate(events)}
    for first in range(100, 4_000, 10):
        merge.on_batch(0, _rows(*(Insert(("x", n), n, n + 5) for n in range(first, first + 10)), Punctuate(first)))
    assert merge.buffered() <= 30
    state = merge.snapshot()
    assert len(state.emitted.nodes) <= 1_200
    assert len(state.own[0].nodes) <= 1_200


def test_a_replica_that_lacks_much_of_what_was_guaranteed_is_given_it() -> None:
    """More than it has room for, and it goes on sending after that; each is counted once."""
    merge, events = MergeRevisedApart(2, NO_ROWS), _words(5_000)
    out = [*merge.on_batch(0, _rows(*(Insert(event, 1, 50) for event in events), Punctuate(5))).batches]
    new = [Insert(("new", n), 30, 60) for n in range(3_000)]
    out += merge.on_batch(1, _rows(Punctuate(4), Punctuate(20), *new, Punctuate(25))).batches
    assert merge.other_ends == 5_000
    merge.check()
    out += merge.on_batch(1, _rows(Punctuate(100))).batches
    assert merge.other_ends == 5_000
    assert merge.buffered() == 0
    expected = [
        *(TemporalEvent(event, 1, 50) for event in events),
        *(TemporalEvent(("new", n), 30, 60) for n in range(3_000)),
    ]
    assert temporal_table_of(out) == TemporalTable(expected)
