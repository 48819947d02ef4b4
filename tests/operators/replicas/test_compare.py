"""Comparing replicas: every contradiction is emitted with the event and the replica, and nothing else is."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation, PlanError, SchemaMismatch, UnknownEvent
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.replicas.compare import CompareReplicasOperator, divergence_schema
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import TableBuilder, TemporalTable
from slackwater.testing.oracles.settling import ComparedReplica, contradictions, is_over
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.settling_cases import any_tables, diverging_replicas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.elements import Element
    from slackwater.operators.emission import Emission

SCHEMA = EventSchema.of(
    pa.schema({"at": pa.int64(), "until": pa.int64(), "k": pa.string(), "v": pa.int64()}), "at", "until"
)
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


def _rows(*elements: Element) -> Any:
    return batch_of(elements, SCHEMA.payload)


def _emitted(emission: Emission) -> list[Element]:
    for batch in emission.batches:
        batch.check()
    return [element for batch in emission.batches for element in elements_of(batch)]


def _shown(emitted: Sequence[Element]) -> list[str]:
    return [str(element) for element in emitted]


def _turns(streams: Sequence[Sequence[Element]], rng: Random, most: int) -> list[tuple[int, list[Element] | None]]:
    """The streams in pieces, each in its own order, and after its last piece an end."""
    waiting: list[list[list[Element] | None]] = []
    for stream in streams:
        pieces: list[list[Element] | None] = []
        at = 0
        while at < len(stream):
            size = rng.randint(1, most)
            pieces.append(list(stream[at : at + size]))
            at += size
        waiting.append([*pieces, None])
    turns = []
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        turns.append((port, waiting[port].pop(0)))
    return turns


def _reached(tables: Sequence[TemporalTable], ended: set[int]) -> int:
    """How far replicas have come that have not ended; when all have, how far the furthest came."""
    reached = [table.complete_before for port, table in enumerate(tables) if port not in ended]
    return min(reached) if reached else max(table.complete_before for table in tables)


@given(
    streams=st.integers(1, 4).flatmap(diverging_replicas),
    seed=st.integers(0, 10**6),
    most=st.sampled_from([1, 4, 30]),
    restore=st.booleans(),
)
@example(
    streams=[[Insert(("a", 1), 0), Punctuate(FOREVER)], [Insert(("b", 1), 0), Punctuate(1)]],
    seed=0,
    most=1,
    restore=False,
)
def test_every_call_says_what_the_oracle_says(
    streams: list[list[Element]], seed: int, most: int, restore: bool
) -> None:
    """After each batch and each end: all contradictions that can be known, and the greatest guarantee that is true."""
    compare = CompareReplicasOperator(len(streams), SCHEMA)
    sent = [TableBuilder() for _ in streams]
    ended: set[int] = set()
    rows: Counter[Element] = Counter()
    reached = guaranteed = BEGINNING
    for port, elements in _turns(streams, Random(seed), most):
        if restore:
            compare = CompareReplicasOperator(len(streams), SCHEMA, resume=compare.snapshot())
        if elements is None:
            ended.add(port)
        for element in elements or ():
            sent[port].add(element)
        emission = compare.on_end(port) if elements is None else compare.on_batch(port, _rows(*elements))
        compare.check()
        tables = [builder.table() for builder in sent]
        reached = max(reached, _reached(tables, ended))
        for emitted in _emitted(emission):
            if isinstance(emitted, Punctuate):
                assert emitted.complete_before > guaranteed
                guaranteed = emitted.complete_before
            else:
                assert isinstance(emitted, Insert)
                assert emitted.start >= guaranteed
                rows[emitted] += 1
        # Who has not ended, but is complete before FOREVER, does not go on either.
        all_ended = len(ended) == len(streams) or reached == FOREVER
        assert rows == Counter(contradictions([ComparedReplica(table, ended=all_ended) for table in tables], reached))
        waiting = [event for table in tables for event in table if not is_over(event, reached)]
        if len(ended) < len(streams):
            assert compare.buffered() == len(waiting)
            assert guaranteed == min([reached, *(event.start for event in waiting)])
    assert compare.counts() == tuple(sum(row.payload[2] == port for row in rows) for port in range(len(streams)))  # type: ignore[union-attr,index]
    assert compare.buffered() == 0


@given(table=any_tables(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), cut=st.integers(0, 20))
def test_replicas_that_say_the_same_do_not_contradict_each_other(
    table: TemporalTable, seed: int, replicas: int, cut: int
) -> None:
    """However they say it, and wherever one of them is cut off."""
    streams = [present(table, seed + port, _REVISED) for port in range(replicas)]
    streams[-1] = streams[-1][:cut]
    compare = CompareReplicasOperator(replicas, SCHEMA)
    for port, elements in _turns(streams, Random(seed), 4):
        emission = compare.on_end(port) if elements is None else compare.on_batch(port, _rows(*elements))
        assert not [emitted for emitted in _emitted(emission) if not isinstance(emitted, Punctuate)]
    assert compare.counts() == (0,) * replicas


def _compared(*streams: Sequence[Element]) -> list[str]:
    compare = CompareReplicasOperator(len(streams), SCHEMA)
    emitted = [one for port, stream in enumerate(streams) for one in _emitted(compare.on_batch(port, _rows(*stream)))]
    return _shown([one for one in emitted if not isinstance(one, Punctuate)])


_A, _B = Insert(("a", 1), 2, 4), Insert(("b", 1), 3, 5)
_END = Punctuate(20)


def test_what_most_replicas_say_is_right() -> None:
    """Two of three lack an event: the third has it extra; one of three lacks it: it is missing there."""
    assert _compared([_A, _END], [_A, _B, _END], [_A, _END]) == ["insert(('b', 1, 1, 'extra'), 3, 5)"]
    assert _compared([_A, _B, _END], [_A, _END], [_A, _B, _END]) == ["insert(('b', 1, 1, 'missing'), 3, 5)"]


def test_between_equals_the_replica_with_the_least_number_is_right() -> None:
    """Of two, the first; of four that are two and two, those who say what the first says."""
    assert _compared([_A, _END], [_B, _END]) == [
        "insert(('a', 1, 1, 'missing'), 2, 4)",
        "insert(('b', 1, 1, 'extra'), 3, 5)",
    ]
    assert _compared([_END], [_A, _END], [_END], [_A, _END]) == [
        "insert(('a', 1, 1, 'extra'), 2, 4)",
        "insert(('a', 1, 3, 'extra'), 2, 4)",
    ]
    # The first is alone with what it says; of the two pairs the one with the second replica counts.
    assert _compared([_A, _A, _END], [_END], [_END], [_A, _END], [_A, _END]) == [
        "insert(('a', 1, 0, 'extra'), 2, 4)",
        "insert(('a', 1, 3, 'extra'), 2, 4)",
        "insert(('a', 1, 4, 'extra'), 2, 4)",
    ]


def test_another_end_makes_two_rows_each_as_soon_as_it_is_known() -> None:
    """The end that the others have, when that is frozen; the other one later, when no more can happen to it."""
    compare = CompareReplicasOperator(2, SCHEMA)
    compare.on_batch(0, _rows(Insert(("a", 1), 2, 4), Punctuate(20)))
    emitted = _emitted(compare.on_batch(1, _rows(Insert(("a", 1), 2), Punctuate(10))))
    assert _shown(emitted) == ["insert(('a', 1, 1, 'missing end'), 2, 4)", "punctuate(2)"]
    emitted = _emitted(compare.on_batch(1, _rows(Adjust(("a", 1), 2, FOREVER, 15), Punctuate(20))))
    assert _shown(emitted) == ["insert(('a', 1, 1, 'different end'), 2, 15)", "punctuate(20)"]
    assert compare.counts() == (0, 2)


def test_one_event_more_of_a_start_and_payload_is_extra() -> None:
    """And one less is missing, though others of them are there."""
    again = Insert(("a", 1), 2, 6)
    assert _compared([_A, _END], [_A, again, _END]) == ["insert(('a', 1, 1, 'extra'), 2, 6)"]
    assert _compared([_A, again, _END], [_A, _END]) == ["insert(('a', 1, 1, 'missing'), 2, 6)"]
    assert _compared([_A, _A, _END], [_A, _END]) == ["insert(('a', 1, 1, 'missing'), 2, 4)"]


def test_a_replica_that_was_cut_off_is_compared_up_to_its_last_punctuation() -> None:
    """What it had not sent by then is no contradiction; what it had, is."""
    compare = CompareReplicasOperator(2, SCHEMA)
    sent = [_A, _B, Insert(("c", 1), 8, 9), Insert(("d", 1), 12, 15)]
    compare.on_batch(0, _rows(*sent, Punctuate(20)))
    emitted = _emitted(compare.on_batch(1, _rows(_A, Punctuate(6), Insert(("x", 1), 7, 8))))
    assert _shown(emitted) == ["insert(('b', 1, 1, 'missing'), 3, 5)", "punctuate(6)"]
    assert compare.idle_waiting_on() == 1
    assert _shown(_emitted(compare.on_end(1))) == ["punctuate(20)"]
    assert compare.counts() == (0, 1)
    assert compare.buffered() == 0


def test_a_replica_that_was_attached_late_is_compared_from_its_time_on() -> None:
    """Events that start before are not held against it, nor may it revise them."""
    compare = CompareReplicasOperator(1, SCHEMA)
    compare.on_batch(0, _rows(_A, Insert(("long", 1), 5, 40), Insert(("c", 1), 12, 15), Insert(("d", 1), 13, 16)))
    compare.attach(1, complete_from=10)
    compare.check()
    late: list[Element] = [Insert(("other", 1), 9, 40), Adjust(("long", 1), 5, FOREVER, 41), Insert(("c", 1), 12, 15)]
    assert _emitted(compare.on_batch(1, _rows(*late, Punctuate(50)))) == []
    emitted = _emitted(compare.on_batch(0, _rows(Punctuate(50))))
    assert _shown(emitted) == ["insert(('d', 1, 1, 'missing'), 13, 16)", "punctuate(50)"]
    assert compare.counts() == (0, 1)


def test_a_replica_that_is_attached_behind_the_comparison_is_compared_from_there_on() -> None:
    """What was compared without it is over; the guarantee that was made holds."""
    compare = CompareReplicasOperator(2, SCHEMA)
    for port in range(2):
        compare.on_batch(port, _rows(_A, Punctuate(10)))
    compare.attach(2, complete_from=0)
    emitted = _emitted(compare.on_batch(2, _rows(Insert(("x", 1), 1, 30), Insert(("y", 1), 11, 30), Punctuate(50))))
    for port in range(2):
        emitted += _emitted(compare.on_batch(port, _rows(Punctuate(50))))
    assert _shown(emitted) == ["insert(('y', 1, 2, 'extra'), 11, 30)", "punctuate(50)"]
    with pytest.raises(PlanError, match="cannot attach"):
        compare.attach(1, complete_from=0)


def test_a_replica_that_was_detached_holds_nobody_up_and_is_not_compared() -> None:
    """It may come back, and begins anew then."""
    compare = CompareReplicasOperator(3, SCHEMA)
    for port in range(2):
        compare.on_batch(port, _rows(_A, Punctuate(10)))
    compare.on_batch(2, _rows(Insert(("x", 1), 1, 30)))
    compare.detach(2)
    compare.check()
    assert compare.on_batch(2, _rows(_B, Punctuate(10))).batches == ()
    assert _shown(_emitted(compare.on_demand())) == ["punctuate(10)"]
    assert compare.buffered() == 0
    compare.attach(2, complete_from=0)
    emitted = _emitted(compare.on_batch(2, _rows(Insert(("z", 1), 12, 13), Punctuate(20))))
    for port in range(2):
        emitted += _emitted(compare.on_batch(port, _rows(Punctuate(20))))
    assert _shown(emitted) == ["insert(('z', 1, 2, 'extra'), 12, 13)", "punctuate(20)"]


def test_the_guarantee_does_not_wait_for_what_a_detached_replica_sent() -> None:
    """Though nobody else has sent anything that is due."""
    compare = CompareReplicasOperator(2, SCHEMA)
    compare.on_batch(1, _rows(Insert(("x", 1), 1, 30)))
    compare.on_batch(0, _rows(Punctuate(10)))
    compare.detach(1)
    assert _shown(_emitted(compare.on_demand())) == ["punctuate(10)"]


def test_a_stream_that_breaks_its_own_word_is_refused_with_its_number() -> None:
    """A row before its own punctuation, an adjust of an event that it never sent."""
    with pytest.raises(BrokenPunctuation, match="replica 1"):
        CompareReplicasOperator(2, SCHEMA).on_batch(1, _rows(Punctuate(5), _A))
    compare = CompareReplicasOperator(2, SCHEMA)
    compare.on_batch(0, _rows(_A))
    with pytest.raises(UnknownEvent, match="replica 1"):
        compare.on_batch(1, _rows(Adjust(("a", 1), 2, 4, 6)))


def test_contradictions_have_columns_of_their_own() -> None:
    """All columns of the events, then two more, whose names must be free."""
    schema = divergence_schema(SCHEMA)
    assert schema.shown.names == ["at", "until", "k", "v", "replica", "divergence"]
    assert schema.payload.field("replica").type == pa.int32()
    taken = EventSchema.of(pa.schema({"at": pa.int64(), "replica": pa.string()}), "at")
    with pytest.raises(SchemaMismatch, match="compare#1 would make two columns"):
        divergence_schema(taken, "compare#1")


def test_many_events_and_many_contradictions_at_once() -> None:
    """More than fit into one batch, memory that grows and is moved together, and little left of it in the end."""
    compare = CompareReplicasOperator(2, SCHEMA)
    words = [(f"word {n}" * (n % 4), n) for n in range(9_000)]
    compare.on_batch(0, _rows(*(Insert(word, n % 7, 40) for n, word in enumerate(words)), Punctuate(50)))
    sent = [Insert(word, n % 7, 40 + n % 2) for n, word in enumerate(words)]
    rows = [one for one in _emitted(compare.on_batch(1, _rows(*sent, Punctuate(50)))) if isinstance(one, Insert)]
    assert compare.counts() == (0, 9_000)
    assert Counter(rows) == Counter(
        Insert((*word, 1, how), n % 7, end)
        for n, word in enumerate(words)
        for how, end in (("missing end", 40), ("different end", 41))
        if n % 2
    )
    for first in range(100, 6_000, 10):
        for port in range(2):
            new = [Insert(("x", n), n, n + 5) for n in range(first, first + 10)]
            compare.on_batch(port, _rows(*new, *new[:3], Punctuate(first)))
    compare.check()
    assert compare.counts() == (0, 9_000)
    state = compare.snapshot()
    assert len(state.events.nodes) <= 1_200
    assert len(state.entries) <= 1_200


# ---- events without an end -----------------------------------------------------------------------------------------


@st.composite
def _diverging_inserts(draw: st.DrawFn, replicas: int) -> list[list[Element]]:
    """Replicas of almost one table that never revise, in disorder; some lack events, or have them twice."""
    table, seed = draw(any_tables(most=8)), draw(st.integers(0, 10**6))
    tellings = []
    for port in range(replicas):
        events = [event for event in table for _ in range(draw(st.sampled_from([1, 1, 1, 1, 0, 2])))]
        sent = present(TemporalTable(events, FOREVER), seed + port, Presentation(disorder=5, punctuations=0.3))
        tellings.append(sent[: draw(st.integers(0, len(sent)))] if draw(st.booleans()) else sent)
    return tellings


@given(streams=st.integers(1, 4).flatmap(_diverging_inserts), seed=st.integers(0, 10**6), restore=st.booleans())
def test_what_is_only_inserted_is_compared_when_its_start_is_complete(
    streams: list[list[Element]], seed: int, restore: bool
) -> None:
    """After each batch and each end, whatever ends the events have; nothing that starts before is held."""
    compare = CompareReplicasOperator(len(streams), SCHEMA, final=True)
    sent, ended = [TableBuilder() for _ in streams], set[int]()
    rows: Counter[Element] = Counter()
    reached = BEGINNING
    for port, elements in _turns(streams, Random(seed), 3):
        if restore:
            compare = CompareReplicasOperator(len(streams), SCHEMA, resume=compare.snapshot(), final=True)
        ended |= {port} if elements is None else set()
        for element in elements or ():
            sent[port].add(element)
        emission = compare.on_end(port) if elements is None else compare.on_batch(port, _rows(*elements))
        compare.check()
        rows += Counter(emitted for emitted in _emitted(emission) if not isinstance(emitted, Punctuate))
        tables = [builder.table() for builder in sent]
        reached = max(reached, _reached(tables, ended))
        assert rows == Counter(contradictions([ComparedReplica(table, final=True) for table in tables], reached))
        if len(ended) < len(streams):
            assert compare.buffered() == sum(event.start >= reached != FOREVER for table in tables for event in table)


def test_an_open_ended_event_that_a_revised_replica_lacks_is_reported_at_the_end() -> None:
    """It may get an end as long as the replicas go on; that others give it one is no contradiction then."""
    compare = CompareReplicasOperator(2, SCHEMA)
    both = Insert(("b", 1), 3)
    assert _shown(_emitted(compare.on_batch(0, _rows(Insert(("a", 1), 2), both, Punctuate(9))))) == []
    assert _shown(_emitted(compare.on_batch(1, _rows(both, Punctuate(9))))) == ["punctuate(2)"]
    assert _emitted(compare.on_end(0)) == []
    assert _shown(_emitted(compare.on_end(1))) == ["insert(('a', 1, 1, 'missing'), 2, forever)", "punctuate(9)"]
    assert compare.counts() == (0, 1)
