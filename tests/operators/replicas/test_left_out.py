"""Every row that a merge takes in is in the output, waits, or is counted: at any time, with gaps and open ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.emission import LEFT_OUT, Emission
from slackwater.operators.replicas.diverted_rows import CONTRADICTED, PASSED_OVER, REVISION_PASSED_OVER
from slackwater.operators.replicas.left_out import LeftOut
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.strictly_ordered import MergeStrictlyOrdered
from slackwater.policies.agreement import Agreement, Revise
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import TableBuilder, TemporalTable
from slackwater.testing.by_column_cases import interleaved
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.oracles.left_out import FrozenLeftOut, OrderedLeftOut
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.events.elements import Element
    from slackwater.operators.replicas.replica_merge import ReplicaMerge

    _Diverted = tuple[Insert, int, str]

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
NO_ROWS = pa.RecordBatch.from_pylist([], PAYLOAD)

_AGREEMENTS = [
    agreement.revising(revise).lagging(lag)
    for agreement in (
        Agreement.first(),
        Agreement.quorum_of(0.7),
        Agreement.leading(),
        Agreement.newest(),
        Agreement.fullest(),
        Agreement.half_frozen(),
        Agreement.frozen(),
    )
    for revise, lag in ((Revise.WHEN_FROZEN, 0), (Revise.ALWAYS, 0), (Revise.LEADING, 3))
]
_ORDERED = {"R0": MergeStrictlyOrdered, "R1": MergeOrderedSameTies, "R2": MergeOrderedWithKey}
_REVISED = {"R3": MergeRevisedWithKey, "R4": MergeMultiset}
_SENT = {
    "R0": Presentation(punctuations=0.3),
    "R1": Presentation(punctuations=0.3),
    "R2": Presentation(punctuations=0.3, shuffle_ties=True),
}
_DISORDERED = Presentation(disorder=5, punctuations=0.3)
_WITH_REVISIONS = replace(_DISORDERED, early_values=0.5, removed_extras=0.3)
_TABLES = {"R0": keyed_tables(ties=False), "R1": tables_with_duplicates(), "R2": keyed_tables(), "R3": keyed_tables()}


def _tables(case: str) -> st.SearchStrategy[TemporalTable]:
    return _TABLES.get(case, tables_with_duplicates())


def _with_gaps(table: TemporalTable, rng: Random, *, by_time: bool) -> TemporalTable:
    """The table without some events; by time, so that ties stay alike."""
    lost = {start for start in {event.start for event in table} if rng.random() < 0.2}
    left = [event for event in table if (event.start not in lost if by_time else rng.random() < 0.8)]
    return TemporalTable(left, FOREVER)


class _Watched:
    """A merge, what came in, and the table of what went out."""

    def __init__(self, merge: ReplicaMerge[Any]) -> None:
        self.merge, self.rows_in, self.rows_out, self.output = merge, 0, 0, TableBuilder()
        self.diverted: list[_Diverted] = []

    def take(self, port: int, elements: list[Element]) -> None:
        """Hand elements of a replica over, and see that the counts add up."""
        self.rows_in += sum(not isinstance(element, Punctuate) for element in elements)
        self.note(self.merge.on_batch(port, batch_of(elements, PAYLOAD)))

    def note(self, emission: Emission) -> None:
        """Take what went out, and see that the counts add up."""
        for batch in emission.batches:
            self.rows_out += batch.rows
            for element in elements_of(batch):
                self.output.add(element)
        for output, rows in emission.side:
            assert output == LEFT_OUT
            self.diverted += _spelled(rows)
        assert self.counts_diverted() == [(one.contradicted, one.passed_over) for one in self._left_out_by_replica()]
        left_out, events = self.merge.left_out(), len(self.output.table())
        assert events == self.rows_out - left_out.corrections
        assert self.rows_in == events + left_out.total + self.merge.ignored_rows(), left_out
        assert min(left_out.duplicates, left_out.contradicted, left_out.revised, left_out.unsent) >= 0

    def _left_out_by_replica(self) -> list[LeftOut]:
        return self.merge.left_out_by_replica()

    def counts_diverted(self) -> list[tuple[int, int]]:
        """Of each replica, how many rows were diverted as contradicted, and as passed over."""
        counts = Counter((port, reason == CONTRADICTED) for _, port, reason in self.diverted)
        return [(counts[port, True], counts[port, False]) for port in range(len(self.merge.replicas))]


def _spelled(rows: EventBatch) -> list[_Diverted]:
    """Rows that were left out: the event, the replica, and the reason."""
    found = []
    for element in elements_of(rows):
        assert isinstance(element, Insert)
        assert isinstance(element.payload, tuple)
        *payload, port, reason = element.payload
        found.append((Insert(tuple(payload), element.start, element.end), port, reason))
    return found


def _drive(build: Any, streams: list[list[Element]], rng: Random, *, restore: bool) -> _Watched:
    """Drive a merge through replicas in pieces, each in its own order, to the end of all."""
    watched, left = _Watched(build(None)), [list(stream) for stream in streams]
    while any(left):
        if restore:
            watched.merge = build(watched.merge.snapshot())
        port = rng.choice([port for port, stream in enumerate(left) if stream])
        size = rng.randint(1, 4)
        watched.take(port, left[port][:size])
        left[port] = left[port][size:]
        watched.merge.check()
    for port in range(len(streams)):
        watched.note(watched.merge.on_end(port))
    assert watched.merge.left_out().unsent == 0
    return watched


@pytest.mark.parametrize("case", _ORDERED)
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3), restore=st.booleans())
def test_counts_of_ordered_replicas_with_gaps_add_up_at_any_time(
    case: str, data: st.DataObject, seed: int, replicas: int, restore: bool
) -> None:
    """A row that comes too late to go out is passed over; a row at the newest time that is known is a duplicate."""
    rng, table = Random(seed), data.draw(_tables(case))
    streams = [
        present(_with_gaps(table, rng, by_time=case == "R1"), seed + (case != "R1") * port, _SENT[case])
        for port in range(replicas)
    ]
    operator: Any = _ORDERED[case]
    watched = _drive(
        lambda state: operator(replicas, NO_ROWS, "merge", state, diverts=True), streams, rng, restore=restore
    )
    assert watched.merge.left_out().contradicted == 0
    _assert_sent_by_their_replicas(watched, streams)


@pytest.mark.parametrize("final", [False, True], ids=["revised", "inserted"])
@pytest.mark.parametrize("case", _REVISED)
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    replicas=st.integers(1, 3),
    agreement=st.sampled_from(_AGREEMENTS),
    restore=st.booleans(),
)
def test_counts_of_disordered_replicas_with_gaps_add_up_at_any_time(
    case: str, final: bool, data: st.DataObject, seed: int, replicas: int, agreement: Agreement, restore: bool
) -> None:
    """Under every agreement, revised or not."""
    rng, table = Random(seed), data.draw(_tables(case))
    sent = _DISORDERED if final else _WITH_REVISIONS
    streams = [present(_with_gaps(table, rng, by_time=False), seed + port, sent) for port in range(replicas)]
    operator: Any = _REVISED[case]

    def build(state: Any) -> Any:
        return operator(replicas, NO_ROWS, "merge", state, agreement, final=final, diverts=True)

    _assert_sent_by_their_replicas(_drive(build, streams, rng, restore=restore), streams)


def _assert_sent_by_their_replicas(watched: _Watched, streams: list[list[Element]]) -> None:
    """No row is diverted that its replica has not sent, nor more often; with the end of an insert or a revision."""
    sent: Counter[Any] = Counter()
    for port, stream in enumerate(streams):
        changes = [element for element in stream if not isinstance(element, Punctuate)]
        sent.update((Insert(one.payload, one.start, one.end), port) for one in changes)
    diverted = Counter((event, port) for event, port, _ in watched.diverted)
    assert diverted <= sent, diverted - sent
    revisions = [reason for _, _, reason in watched.diverted if reason == REVISION_PASSED_OVER]
    assert not revisions or any(isinstance(one, Adjust) for stream in streams for one in stream)


@pytest.mark.parametrize("case", _REVISED)
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4))
def test_what_the_leader_lacks_is_contradicted_as_often_as_another_has_it(
    case: str, data: st.DataObject, seed: int, replicas: int
) -> None:
    """By definition: all rows come before any guarantee, so that nothing is passed over; the leader's rows go out."""
    rng, table = Random(seed), data.draw(_tables(case))
    operator: Any = _REVISED[case]
    merge = operator(replicas, NO_ROWS, agreement=Agreement.frozen(), final=True, diverts=True)
    tables = [_with_gaps(table, rng, by_time=False) for _ in range(replicas)]
    for port, one in enumerate(tables):
        merge.on_batch(port, batch_of(present(TemporalTable(one), seed, Presentation(disorder=50)), PAYLOAD))
    leader = rng.randrange(replicas)
    emission = merge.on_batch(leader, batch_of([Punctuate(FOREVER)], PAYLOAD))
    events = [Counter((event.payload, event.start) for event in one) for one in tables]
    most = Counter({key: max(one[key] for one in events) for key in {key for one in events for key in one}})
    contradicted = (most - events[leader]).total()
    duplicates = sum(one.total() for one in events) - most.total()
    assert merge.left_out() == LeftOut(duplicates=duplicates, contradicted=contradicted)
    diverted = Counter((event.payload, event.start) for _, rows in emission.side for event, _, _ in _spelled(rows))
    assert diverted == most - events[leader]


@pytest.mark.parametrize("case", _REVISED)
def test_what_only_a_replica_had_that_is_detached_is_contradicted(case: str) -> None:
    """What others have, too, stays."""
    operator: Any = _REVISED[case]
    watched = _Watched(operator(2, NO_ROWS, agreement=Agreement.frozen(), final=True, diverts=True))
    watched.take(0, [Insert(("a", 1), 2), Insert(("b", 1), 3, 8)])
    watched.take(1, [Insert(("a", 1), 2)])
    watched.merge.detach(0)
    watched.note(watched.merge.left_out_between())
    assert watched.diverted == [(Insert(("b", 1), 3, 8), 0, CONTRADICTED)]
    assert watched.merge.left_out() == LeftOut(duplicates=1, contradicted=1, unsent=1)
    watched.take(0, [Insert(("c", 1), 4)])
    assert watched.merge.ignored_rows() == 1
    watched.take(1, [Punctuate(9)])
    assert [one.contradicted for one in watched.merge.left_out_by_replica()] == [1, 0]
    watched.note(watched.merge.on_end(1))


@pytest.mark.parametrize("case", _REVISED)
def test_rows_are_counted_for_the_replica_they_are_from(case: str) -> None:
    """The leader has a and c; the other has all three, b before the guarantee, and c again after it."""
    operator: Any = _REVISED[case]
    watched = _Watched(operator(2, NO_ROWS, agreement=Agreement.frozen(), final=True, diverts=True))
    a, b, c = (Insert((word, 1), 2, 4) for word in "abc")
    watched.take(1, [a, b])
    watched.take(0, [a, c, Punctuate(5)])
    watched.take(1, [c])
    leader, other = watched.merge.left_out_by_replica()
    assert leader == LeftOut(duplicates=1)
    assert other == LeftOut(contradicted=1, passed_over=1)
    assert watched.diverted == [(b, 1, CONTRADICTED), (c, 1, PASSED_OVER)]


def test_an_event_that_is_taken_back_before_it_goes_out_is_revised() -> None:
    """Both rows are; and so is the adjust of one that goes out."""
    for operator in (MergeRevisedWithKey, MergeMultiset):
        watched = _Watched(operator(1, NO_ROWS, agreement=Agreement.frozen(), diverts=True))
        a, b = ("a", 1), ("b", 1)
        watched.take(0, [Insert(a, 2, 9), Adjust(a, 2, 9, 2), Insert(b, 3, 9), Adjust(b, 3, 9, 4), Punctuate(9)])
        assert watched.merge.left_out() == LeftOut(revised=3)


@pytest.mark.parametrize("case", _REVISED)
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(2, 4), final=st.booleans())
def test_what_is_diverted_when_a_replica_is_detached_is_what_was_counted(
    case: str, data: st.DataObject, seed: int, replicas: int, final: bool
) -> None:
    """Whatever was emitted before, and whoever has guaranteed what."""
    rng, table = Random(seed), data.draw(_tables(case))
    sent = _DISORDERED if final else _WITH_REVISIONS
    streams = [present(_with_gaps(table, rng, by_time=False), seed + port, sent) for port in range(replicas)]
    operator: Any = _REVISED[case]
    agreement = data.draw(st.sampled_from(_AGREEMENTS))
    watched = _Watched(operator(replicas, NO_ROWS, "merge", None, agreement, final=final, diverts=True))
    for port, stream in enumerate(streams):
        watched.take(port, stream[: rng.randint(0, len(stream))])
    watched.merge.detach(gone := rng.randrange(replicas))
    watched.note(watched.merge.left_out_between())
    for port, _ in enumerate(streams):
        watched.note(watched.merge.on_end(port) if port != gone else Emission())
    _assert_sent_by_their_replicas(watched, streams)


@pytest.mark.parametrize("case", [*_ORDERED, *_REVISED])
@given(data=st.data(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3))
def test_what_is_left_out_is_what_a_slow_merge_leaves_out(
    case: str, data: st.DataObject, seed: int, replicas: int
) -> None:
    """Row by row, of replicas that only insert, against a definition that remembers whole events in plain lists."""
    rng, table = Random(seed), data.draw(_tables(case))
    streams = [
        present(
            _with_gaps(table, rng, by_time=case == "R1"), seed + (case != "R1") * port, _SENT.get(case, _DISORDERED)
        )
        for port in range(replicas)
    ]
    operator: Any = {**_ORDERED, **_REVISED}[case]
    chosen = {} if case in _ORDERED else {"agreement": Agreement.frozen(), "final": True}
    watched = _Watched(operator(replicas, NO_ROWS, diverts=True, **chosen))
    slow = OrderedLeftOut(strictly=case == "R0") if case in _ORDERED else FrozenLeftOut()
    expected: list[Any] = []
    for port, element in interleaved([[(port, one) for one in sent] for port, sent in enumerate(streams)], rng):
        watched.take(port, [element])
        expected += slow.take(port, element)
        assert Counter(watched.diverted) == Counter(expected)


@pytest.mark.parametrize("case", _REVISED)
def test_more_rows_than_there_is_room_for_are_diverted_in_turn(case: str) -> None:
    """One guarantee lets events out and leaves others out, each many times what is written at once."""
    operator: Any = _REVISED[case]
    watched = _Watched(operator(2, NO_ROWS, agreement=Agreement.first(), diverts=True))
    events = [Insert(("a", number), 5, 7) for number in range(12_000)]
    watched.take(1, [event for number, event in enumerate(events) if number % 2 or number % 3])
    watched.take(0, [event for number, event in enumerate(events) if number % 2 == 0])
    watched.take(0, [Punctuate(9)])
    left_out = [event for number, event in enumerate(events) if number % 2]
    assert [event for event, port, reason in watched.diverted if (port, reason) == (1, CONTRADICTED)] == left_out
    assert watched.merge.left_out().corrections == 2 * len(left_out)
