"""upserts: worked examples, ties, keys of every kind, and what is remembered and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Adjust, Insert, batch_of, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.upserts.upserts import UpsertsOperator
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import temporal_table_of

if TYPE_CHECKING:
    from slackwater.events.elements import Element

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64(), "gone": pa.bool_()})
POINTS = EventSchema(PAYLOAD, TimeColumn("at", pa.int64()), None, ("at", *PAYLOAD.names))


def _step(**options: Any) -> UpsertsOperator:
    return UpsertsOperator(POINTS, ["k"], "gone", **{"ordered": False, **options})


def _updates(*rows: tuple[int, str | None, int | None]) -> EventBatch:
    """Updates of keys; one without a value is a deletion."""
    return batch_of([Insert((k, v, v is None), at) for at, k, v in rows], PAYLOAD)


def _sent(operator: UpsertsOperator, *batches: EventBatch) -> list[Element]:
    return [e for one in batches for batch in operator.on_batch(0, one).batches for e in elements_of(batch.data())]


def _upto(bound: int) -> EventBatch:
    return punctuation_like(POINTS.no_rows, bound)


def test_a_value_goes_out_when_its_time_is_complete_and_ends_when_the_next_one_is_known() -> None:
    """One that is known by then closes it at once; one that comes later adjusts it; a deletion brings no other."""
    step = _step()
    assert _sent(step, _updates((5, "a", 2), (3, "a", 1))) == []
    assert _sent(step, _upto(5)) == [Insert(("a", 1), 3, FOREVER)]
    assert _sent(step, _updates((8, "a", None), (7, "a", 3)), _upto(8)) == [
        Adjust(("a", 1), 3, FOREVER, 5),
        Insert(("a", 2), 5, 7),
        Insert(("a", 3), 7, FOREVER),
    ]
    assert _sent(step, _upto(9)) == [Adjust(("a", 3), 7, FOREVER, 8)]
    assert step.snapshot().values.pieces == ()


def test_a_deletion_of_what_is_not_there_changes_nothing() -> None:
    """Neither the first of a key, nor the second in a row."""
    step = _step()
    assert _sent(step, _updates((1, "a", None), (2, "b", 1), (3, "b", None), (5, "b", None)), _upto(9)) == [
        Insert(("b", 1), 2, 3)
    ]


def test_the_same_value_again_is_a_value_of_its_own() -> None:
    """It lasts from its own time on."""
    assert _sent(_step(), _updates((1, "a", 7), (4, "a", 7)), _upto(9)) == [
        Insert(("a", 7), 1, 4),
        Insert(("a", 7), 4, FOREVER),
    ]


def test_null_is_a_key_and_so_is_nan_and_zeros_are_one() -> None:
    """As in deduplicate."""
    payload = pa.schema({"k": pa.float64(), "v": pa.int64()})
    schema = EventSchema(payload, TimeColumn("at", pa.int64()), None, ("at", "k", "v"))
    keys = [0.0, float("nan"), None, -0.0, float("nan"), None]
    rows = EventBatch.inserts(pa.record_batch({"k": keys, "v": range(6)}, schema=payload), start=range(6))
    step = UpsertsOperator(schema, ["k"], ordered=False)
    ends = temporal_table_of([batch for call in (step.on_batch(0, rows), step.on_end(0)) for batch in call.batches])
    assert sorted((event.start, event.end) for event in ends) == [
        (0, 3),
        (1, 4),
        (2, 5),
        *((n, FOREVER) for n in (3, 4, 5)),
    ]


@pytest.mark.parametrize("ordered", [False, True])
def test_of_one_key_and_time_a_value_counts_before_a_deletion_and_the_greatest_value(ordered: bool) -> None:
    """Whichever came first, and however they were cut; the others are counted."""
    ties: list[tuple[int, str | None, int | None]] = [
        (4, "a", 5),
        (4, "a", None),
        (4, "a", 9),
        (4, "b", 1),
        (4, "a", 2),
    ]
    for turn in range(len(ties)):
        for cut in (1, 2, 5):
            turned = ties[turn:] + ties[:turn]
            step = _step(ordered=ordered)
            sent = _sent(step, *(_updates(*turned[i : i + cut]) for i in range(0, 5, cut)))
            sent += [e for batch in step.on_end(0).batches for e in elements_of(batch.data())]
            assert sorted(sent, key=repr) == [Insert(("a", 9), 4, FOREVER), Insert(("b", 1), 4, FOREVER)]
            assert step.duplicates() == 3


def test_memory_and_stored_state_follow_the_keys_that_have_a_value() -> None:
    """However many updates there were, and however many keys were deleted."""
    step = _step(ordered=True)
    for turn in range(60):
        names = [f"{turn} {n}" for n in range(500)]
        start = np.full(500, 2 * turn)
        values = pa.record_batch({"k": [*names[:-3], "x", "y", "z"], "v": start, "gone": [False] * 500}, schema=PAYLOAD)
        step.on_batch(0, EventBatch.inserts(values, start))
        gone = pa.record_batch({"k": names[:-3], "v": start[3:], "gone": [True] * 497}, schema=PAYLOAD)
        step.on_batch(0, EventBatch.inserts(gone, start[3:] + 1))
    step.on_batch(0, _upto(1_000))
    state = step.snapshot()
    assert sum(piece.rows.rows for piece in state.values.pieces) <= 6
    assert step.buffered() == 0
    assert len(step._keys._codes) <= 64 + 2 * 3


def test_values_that_nobody_updates_are_not_stored_again() -> None:
    """What is written for a batch follows what it changes."""
    step = _step(ordered=True)
    many = pa.record_batch(
        {"k": [str(n) for n in range(20_000)], "v": range(20_000), "gone": [False] * 20_000}, schema=PAYLOAD
    )
    step.on_batch(0, EventBatch.inserts(many, np.zeros(20_000, np.int64)))
    step.on_batch(0, _upto(5))
    before = step.snapshot().values.pieces
    _sent(step, _updates((6, "new", 1)), _upto(7), _updates((8, "new", 2)), _upto(9))
    after = step.snapshot().values.pieces
    assert after[0].rows is before[0].rows
    assert sum(piece.rows.rows for piece in after[1:]) == 1
