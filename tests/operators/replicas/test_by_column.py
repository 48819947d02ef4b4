"""The merge of replicas that a column distinguishes: who takes part from when on, and what is known of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from slackwater.errors import SchemaMismatch
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.emission import LATE
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.most_copies import all_held
from slackwater.operators.replicas.replica_names import ReplicaNames, Span
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED

if TYPE_CHECKING:
    from slackwater.events.elements import Element
    from slackwater.operators.emission import Emission

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "who": pa.string()}), time="at")
_PATIENCE = 5
_BATCH = Every.batch().resolved(calendar=False)
_NAMES = ReplicaNames(_SCHEMA, "who")


def _merge(cadence: Any = _BATCH, late: Late | None = None, **options: Any) -> MergeByColumnOperator:
    return MergeByColumnOperator(_SCHEMA, "who", _PATIENCE, cadence, late or Late.divert(), **options)


def _rows(*sent: tuple[str | None, int] | int) -> EventBatch:
    """Rows by replica and time, and punctuations."""
    elements: list[Element] = [
        Punctuate(one) if isinstance(one, int) else Insert(("a", one[0]), one[1], one[1] + 1) for one in sent
    ]
    batch = batch_of(elements, _SCHEMA.payload)
    return EventBatch(batch.payload, batch.start, None, batch.kind)


def _spelled(emission: Emission) -> list[int | str]:
    """Times of events, and punctuations as text."""
    return [
        str(element.complete_before) if isinstance(element, Punctuate) else element.start
        for batch in emission.batches
        for element in elements_of(batch)
        if not (isinstance(element, Punctuate) and element.complete_before == FOREVER)
    ]


def _events(emission: Emission) -> list[int]:
    return [one for one in _spelled(emission) if isinstance(one, int)]


def _sent_from(merge: MergeByColumnOperator) -> dict[str | None, int]:
    state = merge.snapshot()
    names = {next(iter(_NAMES.spans(_rows((who, 0))))): who for who in ("blue", "green", "red", None)}
    return {names[name]: replica.complete_from for name, replica in zip(state.names, state.merge.replicas, strict=True)}


def test_replicas_that_are_there_before_anything_was_guaranteed_send_everything() -> None:
    """All of the first batch that begin within a patience of each other, in whichever order they come."""
    merge = _merge()
    merge.on_batch(0, _rows(("green", 9), ("blue", 30), ("blue", 4), (None, 4)))
    assert _sent_from(merge) == {"blue": BEGINNING, "green": BEGINNING, None: BEGINNING}


def test_before_the_first_guarantee_replicas_of_several_batches_send_everything() -> None:
    """By rows, nothing is guaranteed before the third row of a replica; a restored merge knows where they began."""
    cadence = Every.rows(3).resolved(calendar=False)
    merge = _merge(cadence)
    merge.on_batch(0, _rows(("blue", 1)))
    merge = _merge(cadence, resume=merge.snapshot())
    merge.on_batch(0, _rows(("green", 4), ("red", 7)))
    assert _sent_from(merge) == {"blue": BEGINNING, "green": BEGINNING, "red": 7 + _PATIENCE + 1}
    merge.on_batch(0, _rows(("blue", 2), ("blue", 3)))
    merge.on_batch(0, _rows((None, 1)))
    assert _sent_from(merge)[None] == 1 + _PATIENCE + 1


def test_a_replica_that_appears_later_sends_everything_a_patience_past_its_first_row() -> None:
    """Whatever comes with it in one batch; near the end of time it is never for ever."""
    merge = _merge()
    merge.on_batch(0, _rows(("blue", 1)))
    merge.on_batch(0, _rows(("green", 9), ("green", 12), ("green", 10)))
    merge.on_batch(0, _rows(("red", FOREVER - 3)))
    assert _sent_from(merge) == {"blue": BEGINNING, "green": 9 + _PATIENCE + 1, "red": FOREVER - 1}


def test_a_batch_is_met_before_its_rows_come_in_pieces() -> None:
    """Replicas of which no row came here take part; from when on follows from all rows, not from those of a piece."""
    merge = _merge(DRIVEN_BY_RUNNER)
    blue, green = (next(iter(_NAMES.spans(_rows((who, 0))))) for who in ("blue", "green"))
    merge.register_replicas({blue: Span(1, 1, 1)})
    merge.advance_high_water({blue: Span(1, 1, 1)})
    merge.register_replicas({green: Span(7, 20, 9), blue: Span(2, 2, 2)})
    assert _sent_from(merge) == {"blue": BEGINNING, "green": 9 + _PATIENCE + 1}
    assert _spelled(merge.on_batch(0, _rows(("green", 7), ("blue", 7)))) == []
    assert _sent_from(merge) == {"blue": BEGINNING, "green": 9 + _PATIENCE + 1}
    assert _spelled(merge.advance_high_water({blue: Span(2, 40, 7), green: Span(7, 20, 9)})) == [7, "35"]
    merge.check()


def test_the_furthest_replica_is_believed_first() -> None:
    """Whatever they are called, and whoever comes first in a batch."""
    for ahead, behind in (("blue", "green"), ("green", "blue")):
        for turned in (1, -1):
            merge = _merge()
            rows = [(behind, 1), (ahead, 1), (behind, 2), (behind, 20), (ahead, 30)][::turned]
            assert _events(merge.on_batch(0, _rows(*rows))) == [1]  # what the other has sent more is not believed


def test_what_the_stream_guarantees_all_replicas_guarantee() -> None:
    """In its place among the rows; who has sent more of the time before is believed."""
    merge = _merge()
    assert _events(merge.on_batch(0, _rows(("blue", 1), ("blue", 2), ("green", 1)))) == []
    emission = merge.on_batch(0, _rows(("green", 2), 10, ("green", 9), ("blue", 10)))
    assert _spelled(emission) == [1, 2, "10"]
    assert [row["late_bound"] for row in _late_rows(emission)] == [10]
    assert [state.complete_before for state in merge.snapshot().punctuators] == [10, 10]


def test_a_replica_without_rows_in_a_batch_is_held_to_what_the_stream_guarantees_there() -> None:
    """Its next row that contradicts it is late."""
    merge = _merge()
    merge.on_batch(0, _rows(("blue", 1), ("green", 1)))
    merge.on_batch(0, _rows(("green", 2), 10))
    assert [row["who"] for row in _late_rows(merge.on_batch(0, _rows(("blue", 9))))] == ["blue"]


def test_a_replica_that_appears_is_held_to_what_the_stream_has_guaranteed() -> None:
    """Also where it was guaranteed before there was any."""
    merge = _merge()
    assert _spelled(merge.on_batch(0, punctuation_like(_SCHEMA.no_rows, 10))) == []
    emission = merge.on_batch(0, _rows(("blue", 9), ("blue", 12)))
    assert [row["late_by"] for row in _late_rows(emission)] == [1]
    assert _spelled(emission) == ["10"]


def _late_rows(emission: Emission) -> list[dict[str, Any]]:
    return [row for output, batch in emission.side if output == LATE for row in batch.payload.to_pylist()]


def test_late_rows_say_whose_they_are() -> None:
    """And which bound of that replica they missed."""
    merge = _merge()
    merge.on_batch(0, _rows(("blue", 20), ("green", 3)))
    emission = merge.on_batch(0, _rows(("green", 4), ("blue", 4), (None, 1)))
    assert _late_rows(emission) == [{"k": "a", "who": "blue", "late_bound": 15, "late_by": 11}]
    assert merge.late() == 1


def test_a_replica_takes_part_from_its_first_time_on() -> None:
    """Rows without a time are late, and counted, and say nothing of how far it has come."""
    schema = _SCHEMA.with_untimed_rows()
    merge = MergeByColumnOperator(schema, "who", _PATIENCE, _BATCH, Late.drop())
    merge.on_batch(0, _rows(("blue", 1), ("green", UNTIMED)))
    assert _sent_from(merge) == {"blue": BEGINNING}
    merge.on_batch(0, _rows(("green", UNTIMED), ("green", 9)))
    assert _sent_from(merge) == {"blue": BEGINNING, "green": 9 + _PATIENCE + 1}
    assert merge.late() == 2
    resumed = MergeByColumnOperator(schema, "who", _PATIENCE, _BATCH, Late.drop(), resume=merge.snapshot())
    assert resumed.late() == 2


def test_at_the_end_nothing_is_held() -> None:
    """Neither with replicas that have joined, nor with one that waits, nor where there was none."""
    assert _merge().on_end(0).batches == ()
    for sent in ([("blue", 1)], [("blue", 1), ("green", 30), ("green", 30)]):
        for keyed in (False, True):
            merge = _merge(keyed=keyed)
            for row in sent:
                merge.on_batch(0, _rows(row))
            released = _events(merge.on_end(0))
            assert sorted(set(released)) == sorted({at for _, at in sent})
            assert merge.buffered() == 0
            merge.check()


@pytest.mark.parametrize("keyed", [False, True])
def test_at_the_end_all_that_anybody_has_sent_goes_out(keyed: bool) -> None:
    """Neither the furthest replica is believed to have sent everything, nor the one that has sent most."""
    merge = _merge(Every.rows(1_000).resolved(calendar=False), keyed=keyed)
    merge.on_batch(0, _rows(("blue", 1), ("blue", 2), ("blue", 3), ("green", 1), ("green", 9)))
    assert sorted(_events(merge.on_end(0))) == [1, 2, 3, 9]
    assert merge.buffered() == 0


def test_all_that_is_held_is_emitted_as_often_as_the_replica_sends_it_that_sends_it_most() -> None:
    """With columns and without, where a key is known and where equal events count."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at")
    for keyed, expected in ((False, [1, 1, 2]), (True, [1, 2])):
        merge = MergeByColumnOperator(schema, "who", 50, _BATCH, Late.drop(), keyed=keyed)
        sent = [("a", 1), ("b", 1), ("b", 2)] if keyed else [("a", 1), ("a", 1), ("b", 1), ("b", 2)]
        rows = pa.record_batch({"who": [who for who, _ in sent]})
        merge.on_batch(0, EventBatch.inserts(rows, [at for _, at in sent]))
        assert sorted(all_held(merge.snapshot().merge, pa.schema([])).start.tolist()) == expected


def test_ends_are_emitted_as_they_came_and_not_waited_for() -> None:
    """An event goes out when its start is complete, however long it lasts; of replicas the ends must agree."""
    schema = EventSchema.of(
        pa.schema({"at": pa.int64(), "until": pa.int64(), "who": pa.string()}), time="at", until="until"
    )
    merge = MergeByColumnOperator(schema, "who", _PATIENCE, _BATCH, Late.drop())
    rows = pa.record_batch({"who": ["a", "b", "a"]})
    (batch,) = merge.on_batch(0, EventBatch.inserts(rows, [1, 1, 20], [1_000, 1_000, 21])).batches
    assert [(one.start, one.end) for one in elements_of(batch) if isinstance(one, Insert)] == [(1, 1_000)]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct({"x": pa.int64()})])
def test_a_column_that_names_nobody_is_refused(kind: pa.DataType) -> None:
    """Values that Arrow does not distinguish."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": kind}), time="at")
    with pytest.raises(SchemaMismatch, match="merge_replicas cannot use the type of a column"):
        ReplicaNames(schema, "who")
