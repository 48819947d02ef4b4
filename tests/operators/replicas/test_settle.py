"""Settling a revised stream: every event once, with its last end, in one order that depends on the events alone."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BrokenPunctuation, UnknownEvent
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.settle import SettleOperator
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.oracles.settling import Settle
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.settling_cases import any_tables

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from slackwater.events.elements import Element
    from slackwater.operators.emission import Emission

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
NO_ROWS = batch_of([], PAYLOAD).payload
_REVISED = Presentation(disorder=6, shuffle_ties=True, early_values=0.5, removed_extras=0.4, punctuations=0.4)


def _words(payload: Hashable) -> tuple[int, ...]:
    """What payloads of one start are ordered by: the words in which they are held."""
    row = batch_of([Insert(payload, 0, 1)], PAYLOAD).payload
    return tuple(RowCodec(PAYLOAD).encode(row).words.tolist())


def _emitted(emission: Emission) -> list[Element]:
    for batch in emission.batches:
        batch.check()
    return [element for batch in emission.batches for element in elements_of(batch)]


def _in_one_go(emitted: Iterable[Element]) -> list[Element]:
    """What a call says that takes several punctuations at once: of its own punctuations the last one."""
    elements = list(emitted)
    guarantees = [element for element in elements if isinstance(element, Punctuate)]
    return [element for element in elements if not isinstance(element, Punctuate)] + guarantees[-1:]


def _cut(elements: Sequence[Element], rng: Random, most: int) -> Iterator[list[Element]]:
    at = 0
    while at < len(elements):
        size = rng.randint(1, most)
        yield list(elements[at : at + size])
        at += size


def _cleansed(elements: Sequence[Element], rng: Random, most: int = 5, *, restore: bool = False) -> list[Element]:
    cleanse, emitted = SettleOperator(NO_ROWS), []
    for part in _cut(elements, rng, most):
        if restore:
            cleanse = SettleOperator(NO_ROWS, resume=cleanse.snapshot())
        emitted += _emitted(cleanse.on_batch(0, batch_of(part, PAYLOAD)))
        cleanse.check()
    emitted += _emitted(cleanse.on_end(0))
    assert cleanse.buffered() == 0
    return emitted


@given(table=any_tables(), seed=st.integers(0, 10**6), most=st.sampled_from([1, 4, 30]), restore=st.booleans())
def test_every_call_says_what_the_oracle_says(table: TemporalTable, seed: int, most: int, restore: bool) -> None:
    """Element by element, in the same order, and as much is held."""
    rng = Random(seed)
    cleanse, oracle = SettleOperator(NO_ROWS), Settle(_words)
    for part in _cut(present(table, seed, _REVISED), rng, most):
        if restore:
            cleanse = SettleOperator(NO_ROWS, resume=cleanse.snapshot())
        expected = [emitted for element in part for emitted in oracle.take(element)]
        assert _emitted(cleanse.on_batch(0, batch_of(part, PAYLOAD))) == _in_one_go(expected)
        cleanse.check()
        assert cleanse.buffered() == len(oracle.held())
        assert cleanse.idle_waiting_on() == (0 if oracle.held() else None)
    assert _emitted(cleanse.on_end(0)) == oracle.end()
    assert cleanse.buffered() == 0


@given(table=any_tables(), seeds=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), restore=st.booleans())
def test_streams_that_say_the_same_are_settled_to_the_same_rows(
    table: TemporalTable, seeds: tuple[int, int], restore: bool
) -> None:
    """Whatever their disorder, their revisions and their punctuations: the same inserts in the same order."""
    one, other = (_cleansed(present(table, seed, _REVISED), Random(seed), restore=restore) for seed in seeds)
    rows = [[emitted for emitted in sent if isinstance(emitted, Insert)] for sent in (one, other)]
    assert rows[0] == rows[1]
    assert temporal_table_of(one) == table


@given(table=any_tables(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_settled_replicas_merge_as_ordered_ones(table: TemporalTable, seed: int, replicas: int) -> None:
    """The paper's way to a simple merge: Cleanse before each input of case R1."""
    rng, merge = Random(seed), MergeOrderedSameTies(replicas, NO_ROWS)
    out: list[EventBatch] = []
    settled = [SettleOperator(NO_ROWS) for _ in range(replicas)]
    parts = [list(_cut(present(table, seed + port, _REVISED), rng, 5)) for port in range(replicas)]
    while any(parts):
        port = rng.choice([port for port, left in enumerate(parts) if left])
        for batch in settled[port].on_batch(0, batch_of(parts[port].pop(0), PAYLOAD)).batches:
            out += merge.on_batch(port, batch).batches
    for port in range(replicas):
        for batch in settled[port].on_end(0).batches:
            out += merge.on_batch(port, batch).batches
    assert temporal_table_of(out) == table


def _rows(*elements: Element) -> Any:
    return batch_of(elements, PAYLOAD)


def test_a_frozen_event_waits_for_an_older_one_that_is_not() -> None:
    """And the guarantee is held back to the start of that one."""
    cleanse = SettleOperator(NO_ROWS)
    sent = _rows(Insert(("old", 1), 2, 50), Insert(("young", 1), 4, 6), Punctuate(20))
    assert [str(one) for one in _emitted(cleanse.on_batch(0, sent))] == ["punctuate(2)"]
    done = _emitted(cleanse.on_batch(0, _rows(Adjust(("old", 1), 2, 50, 30), Punctuate(31))))
    assert [str(one) for one in done] == [
        "insert(('old', 1), 2, 30)",
        "insert(('young', 1), 4, 6)",
        "punctuate(31)",
    ]


def test_an_event_that_ends_at_the_punctuation_may_still_change() -> None:
    """As in temporal.freeze: only what ends before it is fully frozen."""
    cleanse = SettleOperator(NO_ROWS)
    assert [str(one) for one in _emitted(cleanse.on_batch(0, _rows(Insert(("a", 1), 2, 9), Punctuate(9))))] == [
        "punctuate(2)"
    ]
    assert [str(one) for one in _emitted(cleanse.on_batch(0, _rows(Punctuate(10))))] == [
        "insert(('a', 1), 2, 9)",
        "punctuate(10)",
    ]


def test_an_event_that_was_taken_back_holds_nobody_up() -> None:
    """It may also be sent again."""
    cleanse = SettleOperator(NO_ROWS)
    taken_back = _rows(Insert(("a", 1), 2, 50), Adjust(("a", 1), 2, 50, 2), Insert(("b", 1), 3, 4))
    assert _emitted(cleanse.on_batch(0, taken_back)) == []
    assert cleanse.buffered() == 1
    cleanse.on_batch(0, _rows(Insert(("a", 1), 2, 8)))
    cleanse.check()
    assert [str(one) for one in _emitted(cleanse.on_batch(0, _rows(Punctuate(9))))] == [
        "insert(('a', 1), 2, 8)",
        "insert(('b', 1), 3, 4)",
        "punctuate(9)",
    ]


@pytest.mark.parametrize(
    "adjust",
    [
        Adjust(("a", 1), 2, 8, 7),
        Adjust(("a", 1), 3, 9, 7),
        Adjust(("a", None), 2, 9, 7),
        Adjust(("b", 1), 2, 9, 7),
        Adjust(("gone", 1), 2, 9, 7),
        Adjust(("gone", 1), 2, 2, 7),
    ],
    ids=str,
)
def test_an_adjust_that_fits_no_event_is_refused(adjust: Adjust) -> None:
    """Another end, start or payload, or an event that was taken back."""
    cleanse = SettleOperator(NO_ROWS, "settle#1")
    cleanse.on_batch(0, _rows(Insert(("a", 1), 2, 9), Insert(("gone", 1), 2, 9), Adjust(("gone", 1), 2, 9, 2)))
    with pytest.raises(UnknownEvent, match=r"settle#1 got an adjust of an event that is not there\n.*adjust\("):
        cleanse.on_batch(0, _rows(Insert(("c", 1), 2, 9), adjust))


def test_one_event_cannot_be_adjusted_twice_from_one_end() -> None:
    """Of two equal events both can."""
    twice = [Adjust(("a", 1), 2, 9, 7)] * 2
    with pytest.raises(UnknownEvent, match="adjust"):
        SettleOperator(NO_ROWS).on_batch(0, _rows(Insert(("a", 1), 2, 9), *twice))
    both = SettleOperator(NO_ROWS)
    both.on_batch(0, _rows(*[Insert(("a", 1), 2, 9)] * 2, *twice))
    assert [str(one) for one in _emitted(both.on_end(0))] == ["insert(('a', 1), 2, 7)"] * 2 + ["punctuate(forever)"]


def test_a_broken_guarantee_is_refused_with_the_element() -> None:
    """In the batch of the punctuation, and in a later one; an adjust of what is frozen, too."""
    with pytest.raises(BrokenPunctuation, match="insert"):
        SettleOperator(NO_ROWS).on_batch(0, _rows(Punctuate(5), Insert(("a", 1), 4, 9)))
    cleanse = SettleOperator(NO_ROWS)
    cleanse.on_batch(0, _rows(Insert(("a", 1), 2, 4), Insert(("b", 1), 1, 9), Punctuate(5)))
    with pytest.raises(BrokenPunctuation, match="adjust"):
        cleanse.on_batch(0, _rows(Adjust(("a", 1), 2, 4, 9)))


def test_payloads_of_every_kind_are_distinguished_exactly() -> None:
    """Nulls, NaN, zeros, words, lists: an adjust finds the event with an equal payload, and only that one."""
    schema = pa.schema({"f": pa.float64(), "s": pa.string(), "l": pa.list_(pa.int64())})
    payloads: list[tuple[Any, ...]] = [
        (0.0, "a", [1]),
        (float("nan"), "a", [1]),
        (None, "a", [1]),
        (0.0, "", [1]),
        (0.0, None, None),
    ]
    payloads += [(0.0, "a", []), (0.0, "a", [None]), (0.0, "a" * 20, [1, 2]), (0.0, "a" * 20, [2, 1])]
    columns = [list(column) for column in zip(*payloads, strict=True)]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    start, end = np.zeros(len(payloads), dtype=np.int64), np.full(len(payloads), 50)
    batch = EventBatch.inserts(rows, start, end)
    adjusts = EventBatch(rows, start, 10 + np.arange(len(payloads)), np.ones(len(payloads), dtype=np.int8), end)
    cleanse = SettleOperator(rows.slice(0, 0))
    cleanse.on_batch(0, batch)
    cleanse.on_batch(0, adjusts)
    cleanse.check()
    expected = [(repr(row), 10 + number) for number, row in enumerate(rows.to_pylist())]
    (out, _) = cleanse.on_end(0).batches
    assert sorted(zip(map(repr, out.payload.to_pylist()), out.ends().tolist(), strict=True)) == sorted(expected)


def test_rows_without_columns_are_events_too() -> None:
    """They are all equal, and differ in their times alone."""
    no_columns = pa.schema([])
    cleanse = SettleOperator(batch_of([], no_columns).payload)
    sent: list[Element] = [*[Insert((), 3, 9)] * 2, Insert((), 1, 4), Adjust((), 3, 9, 5), Punctuate(10)]
    emitted = _emitted(cleanse.on_batch(0, batch_of(sent, no_columns)))
    assert [str(one) for one in emitted] == [
        *("insert((), 1, 4)", "insert((), 3, 5)", "insert((), 3, 9)"),
        "punctuate(10)",
    ]


def test_many_events_in_every_order() -> None:
    """Memory that grows and is moved together, many ties, many equal events, and many ends of one of them."""
    rng = Random(7)
    events = [
        TemporalEvent((f"word {n % 50}" * (n % 4), n % 3), n % 40, n % 40 + rng.randint(1, 60)) for n in range(4_000)
    ]
    events += [TemporalEvent(("same", 1), 20, 25)] * 2_000
    events += [TemporalEvent(("many ends", 1), 20, 25 + n) for n in range(300)]
    table = TemporalTable(events, FOREVER)
    sent = present(table, 3, Presentation(disorder=20, shuffle_ties=True, early_values=0.4, punctuations=0.01))
    one = _cleansed_quickly(sent, 700)
    assert temporal_table_of(one) == table
    assert [
        (emitted.start, _words(emitted.payload), emitted.end) for emitted in one if isinstance(emitted, Insert)
    ] == sorted((event.start, _words(event.payload), event.end) for event in table)


def _cleansed_quickly(sent: Sequence[Element], size: int) -> list[Element]:
    cleanse, emitted = SettleOperator(NO_ROWS), []
    for at in range(0, len(sent), size):
        emitted += _emitted(cleanse.on_batch(0, batch_of(sent[at : at + size], PAYLOAD)))
        if at % 5 == 0:
            cleanse = SettleOperator(NO_ROWS, resume=cleanse.snapshot())
    cleanse.check()
    return emitted + _emitted(cleanse.on_end(0))


def test_memory_follows_what_is_held() -> None:
    """A long stream of which little is held at any time never takes much."""
    cleanse = SettleOperator(NO_ROWS)
    for first in range(0, 40_000, 100):
        sent: list[Element] = [Insert((f"word {n}", n), n, n + 50) for n in range(first, first + 100)]
        sent += [Adjust((f"word {n}", n), n, n + 50, n + 40) for n in range(first, first + 100)]
        cleanse.on_batch(0, _rows(*sent, Punctuate(first + 90)))
    assert cleanse.buffered() <= 150
    state = cleanse.snapshot()
    assert len(state.events.nodes) <= 2_048
    assert len(state.heap) <= 150
