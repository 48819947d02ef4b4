"""C1 to C3 and the multiset condition, against the definition of compatibility itself.

The definition: for every way in which the inputs can go on and become equivalent, the output can go on to the same
table. On a universe of a few events all continuations can be tried, element by element, so it can be decided
without any theory. The checkers must agree with it on every output and every mutually consistent set of inputs.
"""

from __future__ import annotations

import operator
from collections import Counter
from functools import cache
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadElement, Incompatible
from slackwater.events.elements import Adjust, Insert
from slackwater.progress.instants import FOREVER
from slackwater.temporal.compatibility import (
    check_compatible,
    check_compatible_multiset,
    first_multiset_violation,
    first_violation,
    violations,
)
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.presentations import present
from slackwater.testing.strategies import keyed_tables, presentations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypothesis.strategies import DrawFn

    from slackwater.events.elements import Element

Futures: TypeAlias = "frozenset[TemporalTable]"
"""All tables that a stream can still come to."""

Compare: TypeAlias = "Callable[[int, int], bool]"
"""An inequality of instants."""

LASTING = [TemporalEvent("A", start, end) for start in range(2) for end in range(start + 1, 4)]
"""Two starts, and ends up to 3."""

FLEETING = [TemporalEvent("A", start, end) for start in range(2) for end in range(start, 3)]
"""Two starts, and ends up to 2; events that last for no time among them."""


class Universe:
    """All tables over a few events, and all that each can become."""

    def __init__(self, events: Iterable[TemporalEvent], guarantees: range, *, keyed: bool) -> None:
        self.events, self.guarantees, self.keyed = tuple(events), guarantees, keyed
        self.most_events = 2
        self.tables = tuple(self._tables())
        self._elements = tuple(_elements_about(self.events))
        self._futures_of = cache(self._search)

    def _tables(self) -> Iterator[TemporalTable]:
        """Every table with at most two events, at every punctuation."""
        for size in range(self.most_events + 1):
            for events in combinations_with_replacement(self.events, size):
                for complete_before in self.guarantees:
                    table = TemporalTable(events, complete_before)
                    if table.is_keyed() or not self.keyed:
                        yield table

    def futures(self, table: TemporalTable) -> Futures:
        """Every table that a stream with this table can still come to."""
        return self._futures_of(table, table.complete_before)

    def _search(self, start: TemporalTable, complete_before: int) -> Futures:
        """Try every element, again and again. Punctuations only forbid, so none needs to be tried."""
        reached, todo = {start}, [start]
        while todo:
            table = todo.pop()
            for element in self._elements:
                after = _after(TemporalTable(table, complete_before), element)
                if after is not None and after not in reached and self._fits(after):
                    reached.add(after)
                    todo.append(after)
        return frozenset(reached)

    def _fits(self, table: TemporalTable) -> bool:
        # One event more than the tables at hand have, so that a full table can still grow.
        return len(table) <= self.most_events + 1 and (table.is_keyed() or not self.keyed)

    def can_follow(self, output: TemporalTable, inputs: Sequence[TemporalTable]) -> bool | None:
        """The definition of compatibility; None when the inputs are not mutually consistent."""
        common = frozenset.intersection(*(self.futures(table) for table in inputs))
        return common <= self.futures(output) if common else None


def _elements_about(events: tuple[TemporalEvent, ...]) -> Iterator[Element]:
    for event in events:
        yield Insert(event.payload, event.start, event.end)
        yield Adjust(event.payload, event.start, event.end, event.start)
        for other in events:
            if event.start == other.start and event != other:
                yield Adjust(event.payload, event.start, event.end, other.end)


def _after(table: TemporalTable, element: Element) -> TemporalTable | None:
    builder = TableBuilder(table)
    try:
        builder.add(element)
    except BadElement:
        return None
    return builder.table()


def _compare(
    universe: Universe,
    inputs: Iterable[Sequence[TemporalTable]],
    is_compatible: Callable[[TemporalTable, Sequence[TemporalTable]], bool],
) -> Counter[tuple[bool, bool]]:
    """Count how often the definition and a checker gave which two answers."""
    answers: Counter[tuple[bool, bool]] = Counter()
    for table in inputs:
        for output in universe.tables:
            truth = universe.can_follow(output, table)
            if truth is not None:
                answers[truth, is_compatible(output, table)] += 1
    return answers


def _keyed(output: TemporalTable, inputs: Sequence[TemporalTable]) -> bool:
    return first_violation(output, inputs) is None


def _multiset(output: TemporalTable, inputs: Sequence[TemporalTable]) -> bool:
    return first_multiset_violation(output, inputs) is None


def _singles(universe: Universe) -> list[tuple[TemporalTable, ...]]:
    return [(table,) for table in universe.tables]


def _pairs(universe: Universe) -> Iterator[tuple[TemporalTable, ...]]:
    return combinations_with_replacement(universe.tables, 2)


def _table(complete_before: int, *events: tuple[str, int, int]) -> TemporalTable:
    return TemporalTable((TemporalEvent(*event) for event in events), complete_before)


@pytest.mark.parametrize("events", [LASTING, FLEETING], ids=["lasting", "fleeting"])
def test_with_one_input_the_conditions_say_what_the_definition_says(events: list[TemporalEvent]) -> None:
    """Every output against every single input: C1 to C3 hold exactly when every future can be followed."""
    universe = Universe(events, range(3), keyed=True)
    answers = _compare(universe, _singles(universe), _keyed)
    assert set(answers) == {(True, True), (False, False)}, answers


def test_with_two_inputs_the_conditions_say_what_the_definition_says() -> None:
    """Every output against every two mutually consistent inputs, also when they are not equally far."""
    universe = Universe(LASTING, range(3), keyed=True)
    answers = _compare(universe, _pairs(universe), _keyed)
    assert set(answers) == {(True, True), (False, False)}, answers


@pytest.mark.parametrize("inputs", [_singles, _pairs], ids=["one input", "two inputs"])
def test_the_multiset_condition_says_what_the_definition_says(
    inputs: Callable[[Universe], Iterable[tuple[TemporalTable, ...]]],
) -> None:
    """The same when an event may be there twice, for outputs that keep up and for outputs that lag behind."""
    universe = Universe([event for event in FLEETING if event.end > event.start], range(3), keyed=False)
    answers = _compare(universe, inputs(universe), _multiset)
    assert set(answers) == {(True, True), (False, False)}, answers


def test_c2_as_printed_refuses_outputs_that_can_follow_but_accepts_none_that_cannot() -> None:
    """The reason why C2 here asks for L <= L_m where the paper prints L_m <= L."""
    universe = Universe(LASTING, range(3), keyed=True)
    printed = _compare(universe, _pairs(universe), lambda output, inputs: _read_flat(output, inputs, operator.ge))
    assert printed[True, False] > 0
    assert printed[False, True] == 0


@given(st.data())
def test_the_conditions_agree_with_a_flat_reading_of_the_paper(data: st.DataObject) -> None:
    """On larger random prefixes, each bullet of the paper written down separately gives the same answer."""
    table = data.draw(keyed_tables())
    inputs = [data.draw(_prefix_tables(table)) for _ in range(data.draw(st.integers(1, 3)))]
    output = data.draw(st.one_of(st.sampled_from(inputs), _prefix_tables(table)))
    output = TemporalTable(output, data.draw(st.sampled_from([output.complete_before, 5, 12, 20])))
    assert _keyed(output, inputs) == _read_flat(output, inputs, operator.le)


@given(st.data())
def test_every_replica_is_compatible_with_itself_and_with_all_that_are_behind_it(data: st.DataObject) -> None:
    """Following the input that is complete furthest is always right, in both cases."""
    table = data.draw(keyed_tables())
    inputs = [data.draw(_prefix_tables(table)) for _ in range(3)]
    output = max(inputs, key=lambda one: one.complete_before)
    check_compatible(output, inputs)
    check_compatible_multiset(output, inputs)


@st.composite
def _prefix_tables(draw: DrawFn, table: TemporalTable) -> TemporalTable:
    """What some replica of a table may have sent so far."""
    stream = present(table, draw(st.integers(0, 99)), draw(presentations()))
    return temporal_table_of(stream, upto=draw(st.integers(0, len(stream))))


def _read_flat(output: TemporalTable, inputs: Sequence[TemporalTable], ahead: Compare) -> bool:
    """C1, C2 and C3 bullet by bullet; `ahead` compares L with L_m where C2 does so."""
    last = output.complete_before
    sightings = [
        (table.complete_before, event, freeze_of(event, table.complete_before)) for table in inputs for event in table
    ]
    half, fully = Freeze.HALF_FROZEN, Freeze.FULLY_FROZEN
    if last > max(table.complete_before for table in inputs) or not output.is_keyed():
        return False
    for event in output:
        same = [(last_m, seen, freeze) for last_m, seen, freeze in sightings if seen.key == event.key]
        if event.start < last <= event.end and not any(
            (freeze is half and ahead(last, last_m)) or (freeze is fully and last <= seen.end)
            for last_m, seen, freeze in same
        ):
            return False
        if event.end < last and not any(freeze is fully and seen == event for _, seen, freeze in same):
            return False
    for payload, start in {event.key for _, event, _ in sightings}:
        same = [sighting for sighting in sightings if sighting[1].key == (payload, start)]
        half_frozen = any(event.key == (payload, start) and start < last <= event.end for event in output)
        ends = [event.end for _, event, freeze in same if freeze is fully]
        last_ms = [last_m for last_m, _, freeze in same if freeze is half]
        for end in ends:
            added = last <= start
            adjusted = start < last <= end and half_frozen
            there = end < last and TemporalEvent(payload, start, end) in output
            if not (added or adjusted or there):
                return False
        if last_ms and not ends and not (last <= start or (last <= max(last_ms) and half_frozen)):
            return False
    return True


@pytest.mark.parametrize(
    ("output", "violation"),
    [
        (_table(13), "C1: output is complete before 13, the inputs only before 12"),
        (_table(12, ("X", 4, 30)), "C2: half frozen event has no support that it could still be adjusted to"),
        (_table(12, ("B", 3, 12)), "C2: half frozen event has no support that it could still be adjusted to"),
        (_table(12, ("A", 2, 11)), "C2: fully frozen event has no fully frozen support"),
        (_table(12, ("B", 3, 9)), "C2: fully frozen event has no fully frozen support"),
        (_table(0, ("A", 2, 11), ("A", 2, 12)), "C2: output has two events of one payload and start"),
        (_table(12, ("B", 3, 10)), "C3: half frozen event of an input is not half frozen in the output"),
        (
            _table(12, ("A", 2, FOREVER)),
            "C3: fully frozen event of an input is not in the output and cannot be put there any more",
        ),
        (
            _table(10, ("A", 2, FOREVER)),
            "C3: fully frozen event of an input is not in the output and cannot be put there any more",
        ),
    ],
)
def test_the_first_violated_condition_is_named(output: TemporalTable, violation: str) -> None:
    """One input: A half frozen, B fully frozen, C unfrozen."""
    table = _table(12, ("A", 2, 16), ("B", 3, 10), ("C", 14, 20))
    assert str(first_violation(output, [table])) == violation


@pytest.mark.parametrize("complete_before", [0, 2, 3, 10, 12])
def test_an_output_may_lag_behind_and_still_have_open_ends(complete_before: int) -> None:
    """Events whose end is not closed in the output may have any end there."""
    table = _table(12, ("A", 2, 16), ("B", 3, 10), ("C", 14, 20))
    b_ends = 10 if complete_before > 10 else FOREVER
    check_compatible(_table(complete_before, ("A", 2, FOREVER), ("B", 3, b_ends)), [table])


def test_incompatible_carries_the_condition_and_the_events() -> None:
    """The exception names what is wrong in its text and holds it as values."""
    table = _table(12, ("B", 3, 10))
    with pytest.raises(Incompatible) as caught:
        check_compatible(_table(12, ("B", 3, 9)), [table])
    assert caught.value.condition == "C2"
    assert caught.value.output_events == (TemporalEvent("B", 3, 9),)
    assert caught.value.input_events == (TemporalEvent("B", 3, 10),)
    assert str(caught.value).splitlines()[1:] == ["    output  B [3, 9)", "    inputs  B [3, 10)"]


def test_all_violations_come_in_the_order_of_the_conditions() -> None:
    """C1 before C2 before C3, events by their start."""
    table = _table(12, ("A", 2, 16), ("B", 3, 10))
    found = list(violations(_table(14, ("A", 2, 13), ("X", 1, 5)), [table]))
    assert [violation.condition for violation in found] == ["C1", "C2", "C2", "C3", "C3"]
    assert [str(violation.output_events[0]) for violation in found[1:3]] == ["X [1, 5)", "A [2, 13)"]


def test_the_multiset_condition_counts_equal_events() -> None:
    """Two equal fully frozen events need two, and half frozen ones of one payload and start are counted."""
    table = _table(12, ("A", 2, 16), ("A", 2, 18), ("B", 3, 10), ("B", 3, 10))
    check_compatible_multiset(_table(12, ("A", 2, 14), ("A", 2, 14), ("B", 3, 10), ("B", 3, 10)), [table])
    once = first_multiset_violation(_table(12, ("A", 2, 14), ("A", 2, 14), ("B", 3, 10)), [table])
    assert once is not None
    assert (once.condition, once.input_events) == ("R4", (TemporalEvent("B", 3, 10),))
    with pytest.raises(Incompatible, match="another number of half frozen events"):
        check_compatible_multiset(_table(12, ("A", 2, 14), ("B", 3, 10), ("B", 3, 10)), [table])
    with pytest.raises(Incompatible, match="C1"):
        check_compatible_multiset(_table(13), [table])


def test_inputs_without_a_key_are_refused_by_the_keyed_check() -> None:
    """C1 to C3 say nothing about them, so an answer would be a guess."""
    with pytest.raises(ValueError, match="payload and start are a key"):
        check_compatible(_table(0), [_table(0, ("A", 1, 2), ("A", 1, 3))])


def test_without_inputs_there_is_nothing_to_be_compatible_with() -> None:
    """Both checks refuse an empty list."""
    for check in (check_compatible, check_compatible_multiset):
        with pytest.raises(ValueError, match="one or more inputs"):
            check(_table(0), [])
