"""The temporal table: what streams say, and which elements contradict those before them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BackwardInterval, BadElement, BrokenPunctuation, UnknownEvent
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, equivalent, temporal_table_of
from slackwater.testing.strategies import batch_cuts, element_streams, temporal_tables
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from random import Random

    from slackwater.events.elements import Element

PAYLOAD = pa.schema({"p": pa.string()})
"""The payload of the drawn element streams."""


def _events(*events: tuple[object, int, int]) -> TemporalTable:
    return TemporalTable(TemporalEvent(*event) for event in events)


def test_a_table_is_a_multiset() -> None:
    """Equal events are counted, and removing one leaves the other."""
    stream: list[Element] = [Insert("A", 1, 4), Insert("A", 1, 4), Adjust("A", 1, 4, 1)]
    assert temporal_table_of(stream, upto=2) == _events(("A", 1, 4), ("A", 1, 4))
    assert temporal_table_of(stream, upto=2) != _events(("A", 1, 4))
    assert temporal_table_of(stream) == _events(("A", 1, 4))


def test_an_adjust_to_its_start_removes_an_event_and_it_may_come_again() -> None:
    """A removed event is not there: it cannot be adjusted, but it can be inserted."""
    stream: list[Element] = [Insert("A", 1, 4), Adjust("A", 1, 4, 1), Insert("A", 1, 7)]
    assert not list(temporal_table_of(stream, upto=2))
    assert temporal_table_of(stream) == _events(("A", 1, 7))


def test_an_event_that_lasts_for_no_time_stays_in_the_table() -> None:
    """A row with equal start and end is a row that somebody sent; only an adjust removes."""
    assert temporal_table_of([Insert("A", 3, 3)]) == _events(("A", 3, 3))


def test_every_prefix_has_a_table() -> None:
    """The length of a prefix counts elements, punctuations among them."""
    stream: list[Element] = [Insert("A", 1), Punctuate(2), Adjust("A", 1, FOREVER, 4)]
    ends = [[event.end for event in temporal_table_of(stream, upto=i)] for i in range(4)]
    assert ends == [[], [FOREVER], [FOREVER], [4]]
    assert [temporal_table_of(stream, upto=i).complete_before for i in (1, 2)] == [BEGINNING, 2]


BAD_ELEMENTS: list[tuple[Element, type[BadElement]]] = [
    (Insert("B", 9, 12), BrokenPunctuation),
    (Adjust("A", 2, 16, 9), BrokenPunctuation),
    (Adjust("F", 1, 8, 12), BrokenPunctuation),
    (Adjust("A", 2, 16, 2), BrokenPunctuation),
    (Punctuate(9), BrokenPunctuation),
    (Adjust("A", 2, 15, 17), UnknownEvent),
    (Adjust("Z", 20, 25, 20), UnknownEvent),
    (Insert("B", 12, 11), BackwardInterval),
    (Adjust("A", 2, 16, 1), BackwardInterval),
]
"""Elements that contradict the stream of the next test, and how."""


@pytest.mark.parametrize(("element", "error"), BAD_ELEMENTS, ids=[str(element) for element, _ in BAD_ELEMENTS])
def test_an_element_that_contradicts_the_stream_is_refused(element: Element, error: type[BadElement]) -> None:
    """A is half frozen, F fully frozen; the message names the element and its position, and nothing changes."""
    builder = TableBuilder()
    for before in (Insert("A", 2, 16), Insert("F", 1, 8), Punctuate(10)):
        builder.add(before)
    table = builder.table()
    with pytest.raises(error) as caught:
        builder.add(element)
    assert str(element) in str(caught.value)
    assert "at position 3 of the stream" in str(caught.value)
    assert builder.table() == table


@pytest.mark.parametrize(
    "element",
    [
        Insert("B", 10, 10),
        Adjust("A", 2, 16, 10),
        Adjust("E", 1, 10, 12),
        Adjust("U", 10, 11, 10),
        Punctuate(10),
        Punctuate(FOREVER),
    ],
    ids=str,
)
def test_an_element_exactly_at_the_punctuation_is_allowed(element: Element) -> None:
    """Complete before 10 says nothing about 10 itself; an event that starts there may even be removed."""
    stream: list[Element] = [Insert("A", 2, 16), Insert("E", 1, 10), Insert("U", 10, 11), Punctuate(10), element]
    temporal_table_of(stream)


def test_batches_and_elements_say_the_same() -> None:
    """A stream may be given as elements, as one batch, or as batches in order."""
    stream: list[Element] = [Insert(("a",), 3, 5), Punctuate(2), Adjust(("a",), 3, 5, 9), Insert((None,), 4, FOREVER)]
    batch = batch_of(stream, PAYLOAD)
    table = temporal_table_of(stream)
    assert temporal_table_of(batch) == table
    assert temporal_table_of([batch.slice(0, 2), batch.slice(2, 4)]) == table
    assert temporal_table_of([batch.slice(0, 2), batch.slice(2, 4)], upto=3) == temporal_table_of(stream, upto=3)


@given(st.data())
def test_the_table_does_not_depend_on_how_a_stream_is_cut(data: st.DataObject) -> None:
    """Cutting a stream into batches changes neither its events nor its last punctuation."""
    stream = data.draw(element_streams())
    batches = data.draw(batch_cuts(batch_of(stream, PAYLOAD)))
    assert_same_table(batches, stream)
    assert temporal_table_of(batches).complete_before == temporal_table_of(stream).complete_before


@given(st.lists(element_streams(max_elements=3), min_size=3, max_size=3))
def test_equivalence_is_reflexive_symmetric_and_transitive(streams: list[list[Element]]) -> None:
    """Streams fall into classes."""
    a, b, c = streams
    assert equivalent(a, a)
    assert equivalent(a, b) == equivalent(b, a)
    assert not (equivalent(a, b) and equivalent(b, c)) or equivalent(a, c)


@given(temporal_tables(), st.randoms(use_true_random=False))
def test_equality_ignores_the_order_and_the_punctuation(table: TemporalTable, random: Random) -> None:
    """Equal events make equal tables with equal hashes."""
    events = list(table)
    random.shuffle(events)
    other = TemporalTable(events, complete_before=99)
    assert other == table
    assert hash(other) == hash(table)
    assert str(other).splitlines()[1:] == str(table).splitlines()[1:]


@given(temporal_tables(), temporal_tables())
def test_the_differences_of_two_tables_make_up_for_each_other(a: TemporalTable, b: TemporalTable) -> None:
    """What a has more, put to b, is what b has more, put to a."""
    assert TemporalTable([*b, *a.minus(b)]) == TemporalTable([*a, *b.minus(a)])


def test_prefixes_of_different_length_may_be_equivalent() -> None:
    """The first three elements of one stream say what the first element of another says."""
    revised: list[Element] = [Insert("A", 6, 20), Adjust("A", 6, 20, 30), Adjust("A", 6, 30, 25)]
    plain: list[Element] = [Insert("A", 6, 25), Insert("B", 7, 8)]
    assert equivalent(revised, plain, upto=(3, 1))
    assert not equivalent(revised, plain, upto=(2, 1))
    assert not equivalent(revised, plain)


def test_a_table_reads_well() -> None:
    """Sorted by start; the representation can be pasted back."""
    table = TemporalTable([TemporalEvent("B", 2), TemporalEvent("A", 1, 4)], complete_before=3)
    assert str(table) == "complete before 3\n    A [1, 4)\n    B [2, forever)"
    assert eval(repr(table)) == table  # noqa: S307 - our own text
    assert str(TemporalTable()) == "complete before beginning\n    no events"


def test_tables_compare_with_tables_only_and_can_be_pickled() -> None:
    """A table is a plain value."""
    table = _events(("A", 1, 4))
    assert table != [TemporalEvent("A", 1, 4)]
    assert pickle.loads(pickle.dumps(table)) == table  # noqa: S301 - our own bytes
    assert (len(table), TemporalEvent("A", 1, 4) in table, table.count(TemporalEvent("A", 1, 4))) == (1, True, 1)


def test_a_key_is_payload_and_start() -> None:
    """Two events of one payload and start are not keyed, whatever their ends."""
    assert _events(("A", 1, 4), ("A", 2, 4)).is_keyed()
    assert not _events(("A", 1, 4), ("A", 1, 5)).is_keyed()
    assert not _events(("A", 1, 4), ("A", 1, 4)).is_keyed()
