"""The worked examples of the LMerge papers: logical content, freezing and compatibility.

Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, and the technical report of the
same title. Tables and examples are numbered as in ICDE 2012; where the report differs, the test says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.errors import BrokenPunctuation, Incompatible
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.policies.agreement import Agreement, Revise
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.compatibility import (
    check_compatible,
    check_compatible_multiset,
    first_violation,
    violations,
)
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.open_close import Close, Open, OpenClose, from_open_close, to_open_close
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, equivalent, temporal_table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.elements import Element

UF, HF, FF = Freeze.UNFROZEN, Freeze.HALF_FROZEN, Freeze.FULLY_FROZEN
"""The papers' annotations."""


def _table(complete_before: int, *events: tuple[str, int, int]) -> TemporalTable:
    return TemporalTable((TemporalEvent(*event) for event in events), complete_before)


# Tables I and II: DHCP leases.

LEASES = _table(FOREVER, ("A", 6, 12), ("B", 8, 10))
"""The effective lease summary."""

PHY1: list[Element] = [
    Insert("B", 8, FOREVER),
    Insert("A", 6, 12),
    Adjust("B", 8, FOREVER, 10),
    Punctuate(11),
    Punctuate(FOREVER),
]
"""Table II, stream Phy1."""

PHY2: list[Element] = [
    Insert("A", 6, 7),
    Insert("B", 8, 15),
    Adjust("A", 6, 7, 12),
    Adjust("B", 8, 15, 10),
    Punctuate(FOREVER),
]
"""Table II, stream Phy2."""

ALLOC, MODIFY = "alloc", "modify"
"""The two kinds of entry in a lease log (a and m in the report)."""


def _leases(log: Iterable[tuple[str, str, int, int]]) -> list[Element]:
    """Table I: alloc adds a lease; modify, which names user and start only, gives it another end."""
    ends: dict[tuple[str, int], int] = {}
    stream: list[Element] = []
    for what, user, start, end in log:
        key = (user, start)
        stream.append(Insert(user, start, end) if what == ALLOC else Adjust(user, start, ends[key], end))
        ends[key] = end
    return stream


def test_table_i_both_logs_send_the_same_leases() -> None:
    """Phy1 and Phy2 differ in order and revisions, and give one lease summary; so do a(), m() in the report."""
    phy1 = _leases([(ALLOC, "B", 8, FOREVER), (ALLOC, "A", 6, 12), (MODIFY, "B", 8, 10)])
    phy2 = _leases([(ALLOC, "A", 6, 7), (ALLOC, "B", 8, 15), (MODIFY, "A", 6, 12), (MODIFY, "B", 8, 10)])
    assert temporal_table_of(phy1) == temporal_table_of(phy2) == LEASES
    assert phy1 == PHY1[:3]
    assert phy2 == PHY2[:4]


def test_table_ii_the_streams_are_valid_and_equivalent() -> None:
    """Punctuations included (f() in the report's table I), both streams are consistent and end in the same table."""
    assert equivalent(PHY1, PHY2)
    assert temporal_table_of(PHY1) == LEASES
    assert [temporal_table_of(stream).complete_before for stream in (PHY1, PHY2)] == [FOREVER, FOREVER]


def test_table_ii_every_prefix_reconstitutes() -> None:
    """The tables on the way are not always equal, though every prefix has one."""
    ends = [[event.end for event in temporal_table_of(PHY2, upto=i)] for i in range(6)]
    assert ends == [[], [7], [7, 15], [12, 15], [12, 10], [12, 10]]
    assert not equivalent(PHY1, PHY2, upto=(2, 2))
    assert equivalent(PHY1, PHY2, upto=(3, 4))


def test_table_ii_prefixes_of_the_two_streams_are_compatible() -> None:
    """Until Phy1 has guaranteed something, each can follow the other (the report, below its table I)."""
    for i in range(4):
        for j in range(5):
            check_compatible(temporal_table_of(PHY1, upto=i), [temporal_table_of(PHY2, upto=j)])
            check_compatible(temporal_table_of(PHY2, upto=j), [temporal_table_of(PHY1, upto=i)])


def test_punctuation_stable_11_cannot_be_propagated_yet() -> None:
    """An output with A [6, 7) and B [8, 15) must not guarantee 11: A would be frozen, and B kept from shrinking."""
    output = [*PHY2[:2], Punctuate(11)]
    inputs = [temporal_table_of(PHY1, upto=4), temporal_table_of(PHY2, upto=2)]
    check_compatible(temporal_table_of(PHY2, upto=2), inputs)

    with pytest.raises(BrokenPunctuation):
        temporal_table_of([*output, Adjust("A", 6, 7, 12)])
    with pytest.raises(BrokenPunctuation):
        temporal_table_of([*output, Adjust("B", 8, 15, 10)])

    found = [
        (violation.condition, _at_fault(violation.output_events))
        for violation in violations(temporal_table_of(output), inputs)
    ]
    assert found == [("C2", "A"), ("C2", "B"), ("C3", "A"), ("C3", "B")]


def test_punctuation_stable_11_may_follow_the_two_corrections() -> None:
    """Once A ends at 12 and B at 10, the guarantee can be passed on."""
    output = [*PHY2[:4], Punctuate(11)]
    check_compatible(temporal_table_of(output), [temporal_table_of(PHY1, upto=4), temporal_table_of(PHY2, upto=2)])


def _at_fault(events: tuple[TemporalEvent, ...]) -> str:
    return "".join(str(event.payload) for event in events)


# Examples 2 and 3: other elements, same table.

OPEN_CLOSE_TABLE = _table(BEGINNING, ("A", 1, 4), ("B", 2, 5), ("C", 3, FOREVER))

S: list[OpenClose] = [Open("A", 1), Open("B", 2), Open("C", 3), Close("A", 4), Close("B", 5)]
U: list[OpenClose] = [Open("A", 1), Close("A", 4), Open("B", 2), Close("B", 5), Open("C", 3)]
W: list[OpenClose] = [Open("B", 2), Close("B", 6), Open("A", 1), Open("C", 3), Close("A", 4), Close("B", 5)]


@pytest.mark.parametrize("stream", [S, U, W], ids=["S[5]", "U[5]", "W[6]"])
def test_example_2_the_open_close_prefixes_are_equivalent(stream: list[OpenClose]) -> None:
    """S[5], U[5] and W[6] represent one table (example 3 in the report), and survive the way there and back."""
    elements = from_open_close(stream)
    assert temporal_table_of(elements) == OPEN_CLOSE_TABLE
    assert to_open_close(elements) == stream


def test_example_2_close_b_5_revises_close_b_6() -> None:
    """W[5] still says that B ends at 6."""
    elements = from_open_close(W)
    assert TemporalEvent("B", 2, 6) in temporal_table_of(elements, upto=5)
    assert elements[-1] == Adjust("B", 2, 6, 5)


def test_example_3_two_adjusts_make_one_insert() -> None:
    """Insert (A, 6, 20), then 30, then 25, is insert (A, 6, 25); example 5 in the report."""
    assert equivalent([Insert("A", 6, 20), Adjust("A", 6, 20, 30), Adjust("A", 6, 30, 25)], [Insert("A", 6, 25)])


def test_section_ii_a_stream_that_cancels_for_ever_alternates_between_two_tables() -> None:
    """The stream e, cancel(e), e, cancel(e), ... has a table at each prefix, and no limit."""
    stream: list[Element] = [Insert("e", 1, 2), Adjust("e", 1, 2, 1)] * 4
    assert [len(temporal_table_of(stream, upto=i)) for i in range(9)] == [0, 1, 0, 1, 0, 1, 0, 1, 0]


# Table III (table II in the report): chattiness.

TABLE_III: list[tuple[list[Element], ...]] = [
    # In1, In2, Out1, Out2, Out3
    ([Insert("A", 6, 10)], [], [Insert("A", 6, 10)], [], [Insert("A", 6, 10)]),
    ([], [Insert("A", 6, 12)], [Adjust("A", 6, 10, 12)], [], []),
    ([], [Insert("B", 7, 14)], [Insert("B", 7, 14)], [], [Insert("B", 7, 14)]),
    ([Adjust("A", 6, 10, 15)], [], [Adjust("A", 6, 12, 15)], [], []),
    ([], [Adjust("A", 6, 12, 15)], [], [], []),
    (
        [],
        [Punctuate(16)],
        [Punctuate(16)],
        [Insert("A", 6, 15), Insert("B", 7, 14), Punctuate(16)],
        [Adjust("A", 6, 10, 15), Punctuate(16)],
    ),
]
"""One row per instant of system time; an empty list where a stream says nothing."""


def _column(number: int, rows: int = len(TABLE_III)) -> list[Element]:
    return [element for row in TABLE_III[:rows] for element in row[number]]


@pytest.mark.parametrize("output", [2, 3, 4], ids=["Out1", "Out2", "Out3"])
def test_table_iii_every_output_says_what_the_inputs_say(output: int) -> None:
    """Out1, Out2 and Out3 are equivalent to In2; In1, as far as shown, still lacks B, which it will have to add."""
    assert equivalent(_column(output), _column(1))
    assert equivalent(_column(output), [*_column(0), Insert("B", 7, 14)])


@pytest.mark.parametrize("output", [2, 3, 4], ids=["Out1", "Out2", "Out3"])
@pytest.mark.parametrize("rows", range(1, 7))
def test_table_iii_every_output_is_compatible_at_each_instant(output: int, rows: int) -> None:
    """Aggressive, conservative or between: each can follow both inputs after every row."""
    inputs = [temporal_table_of(_column(number, rows)) for number in (0, 1)]
    check_compatible(temporal_table_of(_column(output, rows)), inputs)
    check_compatible_multiset(temporal_table_of(_column(output, rows)), inputs)


def test_table_iii_chattier_outputs_say_more_elements() -> None:
    """Out1 says 5 elements, Out3 4, Out2 3; all of them hold the same two events."""
    assert [len(_column(output)) for output in (2, 4, 3)] == [5, 4, 3]


def test_table_iii_an_output_that_passed_on_only_the_first_values_could_not_guarantee_16() -> None:
    """Out3 without its last adjust would freeze A at 10."""
    output = temporal_table_of([Insert("A", 6, 10), Insert("B", 7, 14), Punctuate(16)])
    violation = first_violation(output, [temporal_table_of(_column(number)) for number in (0, 1)])
    assert str(violation) == "C2: fully frozen event has no fully frozen support"


# Section III-B (III-D in the report): I1, I2 and the outputs O1, O2, O3.

I1 = _table(14, ("A", 2, 16), ("B", 3, 10), ("C", 4, 18), ("D", 15, 20))
I2 = _table(11, ("A", 2, 12), ("B", 3, 10), ("C", 4, 18), ("E", 17, 21))
O1 = _table(11, ("A", 2, FOREVER), ("B", 3, 10), ("C", 4, FOREVER))
O2 = _table(14, ("A", 2, 16), ("B", 3, 10), ("C", 4, 18), ("D", 15, 20), ("E", 17, 21))
O3 = _table(13, ("A", 2, 12), ("C", 4, 18), ("D", 15, 20))


@pytest.mark.parametrize(
    ("table", "annotations"),
    [
        (I1, [HF, FF, HF, UF]),
        (I2, [HF, FF, HF, UF]),
        (O1, [HF, FF, HF]),
        (O2, [HF, FF, HF, UF, UF]),
        (O3, [FF, HF, UF]),
    ],
    ids=["I1", "I2", "O1", "O2", "O3"],
)
def test_section_iii_b_the_freeze_annotations_are_those_of_the_paper(
    table: TemporalTable, annotations: list[Freeze]
) -> None:
    """HF, FF or UF beside each event."""
    assert [freeze_of(event, table.complete_before) for event in table] == annotations


@pytest.mark.parametrize("output", [O1, O2], ids=["O1", "O2"])
def test_section_iii_b_o1_and_o2_are_compatible(output: TemporalTable) -> None:
    """A conservative output and an aggressive one."""
    check_compatible(output, [I1, I2])
    check_compatible_multiset(output, [I1, I2])


def test_section_iii_b_o3_is_not_compatible_for_two_reasons() -> None:
    """A is frozen at 12 against I1 (so it may not be there, and what must be there is not); B is missing for good."""
    found = [
        (violation.condition, _at_fault(violation.output_events), _at_fault(violation.input_events))
        for violation in violations(O3, [I1, I2])
    ]
    assert found == [("C2", "A", "AA"), ("C3", "A", "AA"), ("C3", "", "B")]
    with pytest.raises(Incompatible, match="C2: fully frozen event has no fully frozen support"):
        check_compatible(O3, [I1, I2])
    with pytest.raises(Incompatible, match="R4"):
        check_compatible_multiset(O3, [I1, I2])


def test_section_iii_b_no_element_can_correct_o3() -> None:
    """Neither can A be given the end 16, nor can B be added, after O3's guarantee of 13."""
    for element in (Adjust("A", 2, 12, 16), Insert("B", 3, 10)):
        with pytest.raises(BrokenPunctuation):
            TableBuilder(O3).add(element)


def test_section_iii_b_o2_may_have_to_remove_events_and_can() -> None:
    """D and E are unfrozen, so each can be taken back; A, half frozen, cannot."""
    builder = TableBuilder(O2)
    builder.add(Adjust("D", 15, 20, 15))
    builder.add(Adjust("E", 17, 21, 17))
    with pytest.raises(BrokenPunctuation):
        builder.add(Adjust("A", 2, 16, 2))


def test_section_iii_b_an_output_at_the_largest_stable_point_has_the_same_frozen_events() -> None:
    """The simplified condition: the FF events of I1 and, by payload and start, its HF events; the rest is free."""
    check_compatible(_table(14, ("A", 2, FOREVER), ("B", 3, 10), ("C", 4, 14), ("Z", 14, 15)), [I1, I2])
    without_c = _table(14, ("A", 2, FOREVER), ("B", 3, 10))
    assert str(first_violation(without_c, [I1, I2])).startswith("C3")
    with_x = _table(14, ("A", 2, 16), ("B", 3, 10), ("C", 4, 18), ("X", 4, 18))
    assert str(first_violation(with_x, [I1, I2])).startswith("C2")


# Table III: chattiness.

CHATTER: list[tuple[int, Element]] = [
    (0, Insert(("A",), 6, 10)),
    (1, Insert(("A",), 6, 12)),
    (1, Insert(("B",), 7, 14)),
    (0, Adjust(("A",), 6, 10, 15)),
    (1, Adjust(("A",), 6, 12, 15)),
    (1, Punctuate(16)),
]
"""What In1 (0) and In2 (1) say, line by line."""

OUTPUTS = {
    "Out1": (
        Agreement.first().revising(Revise.ALWAYS),
        ["insert(A, 6, 10)", "adjust(A, 6, 10, 12)", "insert(B, 7, 14)", "adjust(A, 6, 12, 15)", "punctuate(16)"],
    ),
    "Out2": (Agreement.frozen(), ["insert(A, 6, 15)", "insert(B, 7, 14)", "punctuate(16)"]),
    "Out3": (
        Agreement.first(),
        ["insert(A, 6, 10)", "insert(B, 7, 14)", "adjust(A, 6, 10, 15)", "punctuate(16)"],
    ),
}
"""The three outputs, and the agreements that make them."""


@pytest.mark.parametrize("output", OUTPUTS)
def test_table_3_each_output_is_an_agreement(output: str) -> None:
    """Every change at once; nothing before it is stable; the first version at once, changes when they are stable."""
    agreement, expected = OUTPUTS[output]
    payload = pa.schema({"p": pa.string()})
    merge = MergeRevisedWithKey(2, batch_of([], payload).payload, agreement=agreement)
    emitted = [
        str(one).replace("('A',)", "A").replace("('B',)", "B")
        for port, element in CHATTER
        for batch in merge.on_batch(port, batch_of([element], payload)).batches
        for one in elements_of(batch)
    ]
    assert emitted == expected
