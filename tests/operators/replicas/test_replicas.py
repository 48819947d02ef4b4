"""Merges of replicas: the output is the table that all send, and can follow any of them at every instant."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadElement, BrokenOrder, BrokenPunctuation
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.strictly_ordered import MergeStrictlyOrdered
from slackwater.policies.agreement import Agreement, Emit, Revise
from slackwater.progress.instants import BEGINNING
from slackwater.temporal.compatibility import check_compatible, check_compatible_multiset
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.oracles.merging import R0, R1, R2, R3, R4, LogicalMerge
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.elements import Element
    from slackwater.operators.replicas.replica_merge import ReplicaMerge

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
NO_ROWS = pa.RecordBatch.from_pylist([], PAYLOAD)


_ORDERED = Presentation(punctuations=0.3)
_SHUFFLED = Presentation(shuffle_ties=True, punctuations=0.3)
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


@dataclass(frozen=True)
class Case:
    """An operator, the paper's algorithm, what its replicas send, and how."""

    operator: Any
    algorithm: type[LogicalMerge]
    tables: st.SearchStrategy[TemporalTable]
    presentation: Presentation
    alike: bool = False

    def streams(self, table: TemporalTable, seed: int, replicas: int) -> list[list[Element]]:
        """What each replica sends."""
        return [present(table, seed + (0 if self.alike else port), self.presentation) for port in range(replicas)]

    def build(self, replicas: int, resume: Any = None) -> ReplicaMerge[Any]:
        """The operator, fresh or from a snapshot."""
        return self.operator(replicas, NO_ROWS, "merge", resume)


CASES = {
    "R0": Case(MergeStrictlyOrdered, R0, keyed_tables(ties=False), _ORDERED),
    "R1": Case(MergeOrderedSameTies, R1, tables_with_duplicates(), _ORDERED, alike=True),
    "R2": Case(MergeOrderedWithKey, R2, keyed_tables(), _SHUFFLED),
    "R3": Case(MergeRevisedWithKey, R3, keyed_tables(), _REVISED),
    "R4": Case(MergeMultiset, R4, tables_with_duplicates(), _REVISED),
}


def _interleaved(streams: Sequence[Sequence[Element]], rng: Random) -> list[tuple[int, list[Element]]]:
    """The streams in pieces, each in its own order."""
    waiting = [list(stream) for stream in streams]
    turns = []
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        size = rng.randint(1, 4)
        turns.append((port, waiting[port][:size]))
        waiting[port] = waiting[port][size:]
    return turns


@pytest.mark.parametrize("case", CASES)
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), restore=st.booleans())
def test_the_output_follows_every_replica_at_every_prefix(
    case: str, data: st.DataObject, seed: int, replicas: int, restore: bool
) -> None:
    """C1 to C3 after every batch; in the end the table; never more inserts, and never more elements, than came in.

    Theorem 1 of the report is printed with inserts on its right side alone. That is not true of a replica that revises
    an event which has gone out: what its adjust freezes must go out, too.
    """
    chosen, rng = CASES[case], Random(seed)
    table = data.draw(chosen.tables)
    streams, operator = chosen.streams(table, seed, replicas), chosen.build(replicas)
    compatible = check_compatible if table.is_keyed() and case != "R4" else check_compatible_multiset
    inputs, output = [TableBuilder() for _ in streams], TableBuilder()
    came: Counter[type] = Counter()
    went: Counter[type] = Counter()
    for port, elements in _interleaved(streams, rng):
        if restore:
            operator = chosen.build(replicas, operator.snapshot())
        for element in elements:
            inputs[port].add(element)
            came[type(element)] += 1
        for batch in operator.on_batch(port, batch_of(elements, PAYLOAD)).batches:
            batch.check()
            for element in elements_of(batch):
                output.add(element)
                went[type(element)] += 1
        operator.check()
        compatible(output.table(), [one.table() for one in inputs])
    assert list(output.table()) == list(table)
    assert went[Insert] <= came[Insert]
    assert went[Insert] + went[Adjust] <= came[Insert] + came[Adjust]
    assert went[Punctuate] <= came[Punctuate]
    for port in range(replicas):
        operator.on_end(port)
    assert operator.buffered() == 0


_AGREEMENTS = [
    agreement.revising(revise).lagging(lag)
    for agreement in (
        Agreement.first(),
        Agreement.quorum_of(0.5),
        Agreement.quorum_of(1),
        Agreement.leading(),
        Agreement.newest(),
        Agreement.fullest(),
        Agreement.half_frozen(),
        Agreement.frozen(),
    )
    for revise, lag in ((Revise.WHEN_FROZEN, 0), (Revise.ALWAYS, 0), (Revise.LEADING, 3))
]


@pytest.mark.parametrize("case", ["R3", "R4"])
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    replicas=st.integers(1, 4),
    agreement=st.sampled_from(_AGREEMENTS),
    restore=st.booleans(),
)
def test_every_agreement_follows_every_replica_at_every_prefix(
    case: str, data: st.DataObject, seed: int, replicas: int, agreement: Agreement, restore: bool
) -> None:
    """C1 to C3 after every batch, and in the end the table; what is emitted when it is frozen is never revised."""
    operator, table = CASES[case].operator, data.draw(CASES[case].tables)
    streams = CASES[case].streams(table, seed, replicas)
    merge = operator(replicas, NO_ROWS, agreement=agreement)
    compatible = check_compatible if case == "R3" else check_compatible_multiset
    inputs, output = [TableBuilder() for _ in streams], TableBuilder()
    went: Counter[type] = Counter()
    for port, elements in _interleaved(streams, Random(seed)):
        if restore:
            merge = operator(replicas, NO_ROWS, "merge", merge.snapshot(), agreement)
        for element in elements:
            inputs[port].add(element)
        for batch in merge.on_batch(port, batch_of(elements, PAYLOAD)).batches:
            for element in elements_of(batch):
                output.add(element)
                went[type(element)] += 1
        merge.check()
        compatible(output.table(), [one.table() for one in inputs])
    assert list(output.table()) == list(table)
    assert agreement.emit is not Emit.FROZEN or went[Adjust] == 0


@given(
    table=keyed_tables(),
    seed=st.integers(0, 10**6),
    replicas=st.integers(1, 4),
    agreement=st.sampled_from(_AGREEMENTS),
)
def test_where_there_is_a_key_counting_equal_events_makes_no_difference(
    table: TemporalTable, seed: int, replicas: int, agreement: Agreement
) -> None:
    """Under every agreement both merges emit the same elements, in any order between two punctuations."""
    with_key = MergeRevisedWithKey(replicas, NO_ROWS, agreement=agreement)
    counting = MergeMultiset(replicas, NO_ROWS, agreement=agreement)
    for port, elements in _interleaved(CASES["R3"].streams(table, seed, replicas), Random(seed)):
        for element in elements:
            one, other = (_emitted(merge, port, element) for merge in (with_key, counting))
            assert sorted(map(str, one)) == sorted(map(str, other))


def _emitted(merge: ReplicaMerge[Any], port: int, *elements: Element) -> list[Element]:
    emission = merge.on_batch(port, batch_of(elements, PAYLOAD))
    return [element for batch in emission.batches for element in elements_of(batch)]


@pytest.mark.parametrize("agreement", [Agreement.quorum_of(1), Agreement.quorum_of(0.5)], ids=str)
def test_of_equal_events_as_many_are_emitted_as_a_quorum_has(agreement: Agreement) -> None:
    """Half of three replicas are two of them."""
    merge, event = MergeMultiset(3, NO_ROWS, agreement=agreement), Insert(("a", 1), 2, 9)
    assert _emitted(merge, 0, event, event, event) == []
    second = [event] * 2 if agreement.quorum < 1 else []
    assert _emitted(merge, 1, event, event) == second
    assert _emitted(merge, 2, event) == ([] if agreement.quorum < 1 else [event])


def test_of_equal_events_the_one_is_revised_that_was() -> None:
    """The second replica lacks one of three, and gives another one a new end; the one it lacks may still come."""
    merge = MergeMultiset(2, NO_ROWS, agreement=Agreement.first().revising(Revise.ALWAYS))
    event = ("a", 1)
    _emitted(merge, 0, *(Insert(event, 0, end) for end in (9, 12, 15)))
    assert _emitted(merge, 1, Insert(event, 0, 9), Insert(event, 0, 11)) == []
    assert _emitted(merge, 1, Adjust(event, 0, 9, 7)) == [Adjust(event, 0, 9, 7)]
    assert _emitted(merge, 1, Insert(event, 0, 16)) == [Adjust(event, 0, 15, 16)]
    assert _emitted(merge, 1, Adjust(event, 0, 11, 0)) == [Adjust(event, 0, 12, 0)]


# ---- replicas that come and go -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    froms=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    restore=st.booleans(),
)
def test_one_replica_after_another_sends_the_table(
    case: str, data: st.DataObject, seed: int, froms: list[int], restore: bool
) -> None:
    """Each sends what lasts until its own time or longer, joins while the one before is there, and takes over."""
    chosen, rng = CASES[case], Random(seed)
    table = data.draw(chosen.tables)
    merge, output = chosen.build(1), TableBuilder()

    def send_some(port: int) -> None:
        nonlocal merge
        if restore:
            merge = chosen.build(port + 1, merge.snapshot())
        size = rng.randint(1, 4)
        some, left[port] = left[port][:size], left[port][size:]
        for element in _emitted(merge, port, *some):
            output.add(element)
        merge.check()

    left = [present(table, seed, chosen.presentation)]
    for new, since in enumerate(froms, start=1):
        for _ in range(rng.randint(0, 4)):
            send_some(new - 1)
        merge.attach(new, since)
        left.append(present(table, seed + (0 if chosen.alike else new), replace(chosen.presentation, late_start=since)))
        while new in merge.waits_to_join():
            send_some(rng.choice([new - 1, new] if left[new] else [new - 1]))
        merge.detach(new - 1)
    while left[-1]:
        send_some(len(froms))
    assert list(output.table()) == list(table)


@pytest.mark.parametrize("case", CASES)
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    agreement=st.sampled_from(_AGREEMENTS),
    restore=st.booleans(),
)
def test_replicas_that_come_and_go_at_any_time_are_followed_at_every_prefix(
    case: str, data: st.DataObject, seed: int, agreement: Agreement, restore: bool
) -> None:
    """One stays; others come, send everything from the beginning, are cut off, and come back to begin anew.

    C1 to C3 after every batch with all that ever were there, under every agreement; in the end the table.
    """
    chosen, rng = CASES[case], Random(seed)
    table = data.draw(chosen.tables)
    compatible = check_compatible if table.is_keyed() and case != "R4" else check_compatible_multiset
    options = {"agreement": agreement} if case in {"R3", "R4"} else {}
    merge, output = chosen.operator(1, NO_ROWS, "merge", **options), TableBuilder()
    left, inputs = [present(table, seed, chosen.presentation)], [TableBuilder()]
    here, ever = {0}, list(inputs)
    while left[0]:
        if restore:
            merge = chosen.operator(len(left), NO_ROWS, "merge", merge.snapshot(), **options)
        what = rng.random()
        if what < 0.1 and len(here) < 4:
            port = rng.choice([*{*range(len(left))} - here, len(left)])
            sent = present(table, seed + (0 if chosen.alike else rng.randint(1, 99)), chosen.presentation)
            left[port : port + 1], inputs[port : port + 1] = [sent], [TableBuilder()]
            ever.append(inputs[port])
            merge.attach(port, complete_from=BEGINNING)
            here.add(port)
        elif what < 0.15 and len(here) > 1:
            gone = rng.choice(sorted(here - {0}))
            merge.detach(gone)
            here.discard(gone)
        port = rng.choice(sorted(port for port in here if left[port]))
        size = rng.randint(1, 4)
        some, left[port] = left[port][:size], left[port][size:]
        for element in some:
            inputs[port].add(element)
        for element in _emitted(merge, port, *some):
            output.add(element)
        merge.check()
        compatible(output.table(), [one.table() for one in ever])
    assert list(output.table()) == list(table)


@pytest.mark.parametrize("case", CASES)
def test_a_replica_that_comes_later_keeps_nobody_from_sending_what_lies_before(case: str) -> None:
    """It is ahead when it comes; what it sent counts when it has joined, also of others that wait."""
    merge = CASES[case].build(1)
    rows = [Insert(("a", time), time, time + 1) for time in (50, 60, 90, 100, 110)]
    emitted = _emitted(merge, 0, rows[0])
    merge.attach(1, complete_from=100)
    merge.attach(2, complete_from=105)
    emitted += [*_emitted(merge, 2, rows[4], Punctuate(111)), *_emitted(merge, 1, rows[3], rows[4], Punctuate(106))]
    emitted += [*_emitted(merge, 0, rows[1]), *_emitted(merge, 0, rows[2], Punctuate(100))]
    assert sorted((one for one in emitted if isinstance(one, Insert)), key=lambda one: one.start) == rows
    assert merge.waits_to_join() == []
    assert merge.complete_before in {110, 111}


@pytest.mark.parametrize("agreement", [Agreement.first(), Agreement.frozen(), Agreement.first().lagging(20)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_gap_that_nobody_can_know_stays_a_gap(case: str, agreement: Agreement) -> None:
    """The first ends at 50 and the second sends from 100 on: in the end what both have sent is there."""
    chosen = CASES[case]
    merge = chosen.operator(1, NO_ROWS, agreement=agreement) if case in {"R3", "R4"} else chosen.build(1)
    before, after = Insert(("a", 1), 50, 51), Insert(("b", 1), 100, 101)
    emitted = [*_emitted(merge, 0, before, Punctuate(51))]
    merge.attach(1, complete_from=100)
    emitted += _emitted(merge, 1, after, Punctuate(101))
    assert merge.waits_to_join() == [1]
    for port in (0, 1):
        emitted += [element for batch in merge.on_end(port).batches for element in elements_of(batch)]
    assert list(temporal_table_of([batch_of(emitted, PAYLOAD)])) == [
        TemporalEvent(event.payload, event.start, event.end) for event in (before, after)
    ]


# ---- against the papers' algorithms --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_the_output_is_that_of_the_papers_algorithm(case: str, data: st.DataObject, seed: int, replicas: int) -> None:
    """Element by element between two punctuations, in any order there."""
    chosen = CASES[case]
    streams = chosen.streams(data.draw(chosen.tables), seed, replicas)
    operator, oracle = chosen.build(replicas), chosen.algorithm(replicas)
    for port, elements in _interleaved(streams, Random(seed)):
        for element in elements:
            expected = oracle.take(port, element)
            emission = operator.on_batch(port, batch_of([element], PAYLOAD))
            got = [one for batch in emission.batches for one in elements_of(batch)]
            assert sorted(map(str, got)) == sorted(map(str, expected))
            assert not expected or got[-1:] == expected[-1:] or not isinstance(expected[-1], Punctuate)


def _rows(*elements: Element) -> Any:
    return batch_of(elements, PAYLOAD)


def test_a_replica_that_has_not_joined_cannot_move_the_punctuation() -> None:
    """Also when it is the only one left: then it can be asked for."""
    merge = MergeRevisedWithKey(1, NO_ROWS)
    merge.on_batch(0, _rows(Insert(("a", 1), 2, 9), Punctuate(3)))
    merge.attach(1, complete_from=10)
    assert merge.waits_to_join() == [1]
    assert not merge.on_batch(1, _rows(Punctuate(30))).batches
    merge.detach(0)
    assert merge.waits_to_join() == [1]
    assert merge.complete_before == 3


def test_a_replica_joins_when_the_output_has_come_as_far_as_it_sends_from() -> None:
    """What it had sent by then counts from then on."""
    merge = MergeRevisedWithKey(1, NO_ROWS)
    merge.attach(1, complete_from=10)
    merge.on_batch(0, _rows(Insert(("a", 1), 2, 9), Insert(("b", 1), 12, 20)))
    merge.on_batch(1, _rows(Insert(("b", 1), 12, 20), Punctuate(30)))
    emission = merge.on_batch(0, _rows(Punctuate(10)))
    punctuations = [one for batch in emission.batches for one in elements_of(batch) if isinstance(one, Punctuate)]
    assert [one.complete_before for one in punctuations] == [10, 30]
    assert merge.waits_to_join() == []


def test_a_replica_that_was_detached_begins_anew() -> None:
    """What it sent before does not count: only what it sends now."""
    merge = MergeRevisedWithKey(2, NO_ROWS)
    merge.on_batch(0, _rows(Insert(("a", 1), 5, 9)))
    merge.detach(0)
    assert not merge.on_batch(0, _rows(Insert(("x", 1), 6, 9))).batches
    merge.attach(0, complete_from=0)
    merge.on_batch(1, _rows(Punctuate(0)))
    out = merge.on_batch(0, _rows(Insert(("b", 1), 5, 7), Punctuate(6)))
    emitted = [str(one) for batch in out.batches for one in elements_of(batch)]
    assert emitted == ["insert(('b', 1), 5, 7)", "adjust(('a', 1), 5, 9, 5)", "punctuate(6)"]


@pytest.mark.parametrize("operator", [MergeRevisedWithKey, MergeMultiset])
def test_of_replicas_that_ended_equally_far_the_one_that_knows_more_is_believed(operator: Any) -> None:
    """Both have come to 3; what the second sends at 3 beyond the first is not lost."""
    for agreement in (Agreement.first(), Agreement.frozen()):
        merge = operator(2, NO_ROWS, "merge", agreement=agreement, ordered=[0, 1])
        rows = [Insert(("a", 1), 1, 2), Insert(("b", 1), 3, 4), Insert(("c", 1), 3, 4)]
        out = [*merge.on_batch(0, _rows(*rows[:2])).batches, *merge.on_batch(1, _rows(*rows)).batches]
        out += [batch for port in (0, 1) for batch in merge.on_end(port).batches]
        assert set(temporal_table_of(out)) == {TemporalEvent(row.payload, row.start, row.end) for row in rows}


def test_an_end_that_the_output_has_frozen_is_not_revised_for_a_replica_that_lacks_it() -> None:
    """Of equal events the output has 5 and 30, and has guaranteed all before 10; another replica has 20 and 30."""
    merge = MergeMultiset(2, NO_ROWS, "merge", agreement=Agreement.first())
    event = ("a", 1)
    out = [*merge.on_batch(0, _rows(Insert(event, 0, 5), Insert(event, 0, 30), Punctuate(10))).batches]
    out += merge.on_batch(1, _rows(Insert(event, 0, 20), Insert(event, 0, 30), Punctuate(25))).batches
    # A table cannot be made of what contradicts a punctuation.
    assert set(temporal_table_of(out)) == {TemporalEvent(event, 0, 5), TemporalEvent(event, 0, 30)}
    assert merge.other_ends == 1
    assert merge.complete_before == 25


def test_replicas_that_contradict_each_other_are_counted_and_the_output_keeps_its_word() -> None:
    """The first froze the event until 9 at least; the second lacks it, and goes further."""
    merge = MergeRevisedWithKey(2, NO_ROWS)
    out = [*merge.on_batch(0, _rows(Insert(("a", 1), 2, 9), Punctuate(5))).batches]
    out += merge.on_batch(1, _rows(Punctuate(20))).batches
    assert merge.other_ends == 1
    assert set(temporal_table_of(out)) == {TemporalEvent(("a", 1), 2, 9)}


def test_a_broken_guarantee_is_refused_with_the_element() -> None:
    """A row before the replica's own punctuation; rows out of order; an event sent twice; an adjust."""
    with pytest.raises(BrokenPunctuation, match="insert"):
        MergeRevisedWithKey(1, NO_ROWS).on_batch(0, _rows(Punctuate(5), Insert(("a", 1), 4, 9)))
    with pytest.raises(BrokenPunctuation, match="adjust"):
        MergeRevisedWithKey(1, NO_ROWS).on_batch(
            0, _rows(Insert(("a", 1), 2, 9), Punctuate(5), Adjust(("a", 1), 2, 9, 4))
        )
    with pytest.raises(BrokenOrder, match="replica 0"):
        MergeStrictlyOrdered(1, NO_ROWS).on_batch(0, _rows(Insert(("a", 1), 4, 9), Insert(("b", 1), 4, 9)))
    with pytest.raises(BrokenOrder, match="replica 0"):
        MergeOrderedSameTies(1, NO_ROWS).on_batch(0, _rows(Insert(("a", 1), 4, 9), Insert(("b", 1), 3, 9)))
    with pytest.raises(BadElement, match="got an event twice"):
        MergeOrderedWithKey(1, NO_ROWS).on_batch(0, _rows(Insert(("a", 1), 4, 9), Insert(("a", 1), 4, 8)))
    with pytest.raises(BadElement, match="got an adjust"):
        MergeOrderedSameTies(1, NO_ROWS).on_batch(0, _rows(Insert(("a", 1), 4, 9), Adjust(("a", 1), 4, 9, 8)))


def test_many_events_and_many_corrections_at_once() -> None:
    """More corrections than fit into one call, memory that grows, and is moved together."""
    merge = MergeRevisedWithKey(2, NO_ROWS)
    events = [(f"word {n}" * (n % 5), n) for n in range(9_000)]
    out = [*merge.on_batch(0, _rows(*(Insert(event, n % 7, 50) for n, event in enumerate(events)))).batches]
    out += merge.on_batch(
        1, _rows(*(Insert(event, n % 7, 40) for n, event in enumerate(events)), Punctuate(45))
    ).batches
    assert merge.buffered() == 0
    assert set(temporal_table_of(out)) == {TemporalEvent(event, n % 7, 40) for n, event in enumerate(events)}
    for first in range(100, 4_000, 10):
        merge.on_batch(0, _rows(*(Insert(("x", n), n, n + 5) for n in range(first, first + 10)), Punctuate(first)))
    assert merge.buffered() <= 30
