"""The step of one of several related streams, fed by hand: what goes on when, and with which punctuations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Punctuate, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
from slackwater.operators.heartbeats.related import RelatedOperator, RelatedStream
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import FOREVER

_LANDED = pa.schema({"landed": pa.int64()})
_SCHEMA = EventSchema(_LANDED, TimeColumn("at", pa.int64()), None, ("at", "landed"))
_BOUNDS = Bounds.in_order() & Bounds({("b", "a"): [Bound(2)]})


def _operator(bounds: Bounds = _BOUNDS) -> RelatedOperator:
    rules = bounds.only("a", "b").rules(Units(calendar=False, clock_calendar=False))
    settings = HeartbeatSettings(rules, None, "landed", 1, None)
    return RelatedOperator(_SCHEMA, settings, [RelatedStream(name, "landed") for name in ("a", "b")])


def _rows(*arrived: tuple[int, int]) -> EventBatch:
    landed, at = zip(*arrived, strict=True)
    return EventBatch.inserts(pa.record_batch({"landed": landed}, schema=_LANDED), start=list(at))


def _sent(emission: Any) -> list[int | str]:
    """Times of rows, and how far punctuations say that the stream is complete."""
    elements = (element for batch in emission.batches for element in elements_of(batch))
    return [f"<{element.complete_before}" if isinstance(element, Punctuate) else element.start for element in elements]


def test_rows_wait_until_the_other_stream_was_read_as_far_and_then_go_with_what_it_proves_of_them() -> None:
    """In pieces, each row behind what the rows of both that arrived before it prove; the last tick stays open."""
    operator = _operator()
    assert _sent(operator.on_batch(0, _rows((1, 10), (4, 11)))) == []
    assert _sent(operator.on_batch(0, _rows((6, 19), (8, 30)))) == []
    assert (operator.idle_waiting_on(), operator.buffered()) == (1, 4)
    assert _sent(operator.on_batch(1, _rows((2, 5), (5, 20), (7, 40)))) == [10, "<10", 11, "<18", 19, "<19"]
    assert _sent(operator.on_quiet(1)) == ["<38", 30]
    assert (operator.idle_waiting_on(), operator.buffered()) == (None, 0)
    assert operator.broken_bounds() == 1


def test_a_stream_that_has_ended_is_complete_for_all_times_when_its_last_row_has_gone() -> None:
    """Whoever reads it need not wait until the others have ended, too."""
    operator = _operator()
    operator.on_batch(0, _rows((5, 10)))
    assert _sent(operator.on_end(0)) == []
    assert _sent(operator.on_batch(1, _rows((6, 3)))) == [10, f"<{FOREVER}"]
    assert _sent(operator.on_end(1)) == []
