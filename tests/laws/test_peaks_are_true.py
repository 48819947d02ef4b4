"""The peak in counters is the most that was held at any moment, not the most that was left when a batch was done."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.cases import CASES
from slackwater.testing.torture import TICK

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.testing.torture import Streams, TortureCase

_SUM_UP_BY_BATCH = ("aggregate", "in_bands", "hopping")
"""Steps that hold one partial result for each batch and group: of one large batch there are fewer than of many."""

_IN_ANOTHER_ORDER = ("by a column",)
"""A merge by column takes the rows of a batch one replica after the other, so that other events meet."""

_RIVALS = ("apart",)
"""The paper's simple merge, which nobody but benchmarks runs; it says what is held between two batches."""

_LEFT_OUT = (*_SUM_UP_BY_BATCH, *_IN_ANOTHER_ORDER, *_RIVALS)
_HOLDING = [case for case in CASES if not any(word in case.name for word in _LEFT_OUT)]


def _most_held(case: TortureCase, streams: Streams, *, whole: bool) -> int:
    """What an operator says its peak is, with batches of one element or one for each input, in the same order."""
    operator, most = case.build(None), 0

    def take(port: int, batch: EventBatch | None) -> None:
        nonlocal most
        if operator.ticks:
            operator.on_tick(TICK)
        _ = operator.on_end(port) if batch is None else operator.on_batch(port, batch)
        most = max(most, operator.buffered(), operator.peak_buffered())

    for port, stream in enumerate(streams):
        for part in [stream] if whole else [stream.slice(n, n + 1) for n in range(len(stream))]:
            take(port, part)
    for port in range(len(streams)):
        take(port, None)
    return most


@pytest.mark.parametrize("case", _HOLDING, ids=lambda case: case.name)
@settings(max_examples=25)
@given(data=st.data())
def test_one_large_batch_shows_no_smaller_peak_than_one_element_after_the_other(
    case: TortureCase, data: st.DataObject
) -> None:
    """While a batch is worked on, all that was held between two of its elements is held, or more."""
    streams = data.draw(case.streams)
    assert _most_held(case, streams, whole=True) >= _most_held(case, streams, whole=False)


# ---- as users see it -------------------------------------------------------------------------------------------------

_ROWS = [{"at": at, "k": "ab"[at % 2], "v": at} for at in range(100)]


def _stream() -> sw.DisorderedStream:
    return sw.stream(_ROWS, time="at")


def _changes(rows: int, **options: Any) -> sw.RevisedStream:
    """Events that are all removed again, and then a punctuation."""
    sent = [{"change": word, "at": at} for word in ("insert", "remove") for at in range(rows)]
    return sw.changes([*sent, {"change": "punctuate", "at": rows}], time="at", **options)


def _peak(stream: Any, step: str) -> int:
    (counters,) = [one for name, one in stream.run().counters.items() if name.split("#")[0] == step]
    assert counters.buffered == 0
    peak: int = counters.peak_buffered
    return peak


def test_the_peaks_of_one_large_batch_are_what_was_held_while_it_was_worked_on() -> None:
    """All these steps hold nothing, or next to nothing, once the batch is done."""
    bands = _stream().tumbling(1).in_bands(2, 5, n=sw.count())
    assert _peak(bands[0], "in_bands") == 100
    assert (
        _peak(_stream().tumbling(1).group_by("k").aggregate_early(patience=2, n=sw.count()), "aggregate_early") == 100
    )
    assert _peak(_stream().deduplicate(on="k", within=3, patience=2), "deduplicate") == 100
    assert _peak(_stream().assume_ordered().deduplicate(on="k", within=3, keep="last"), "deduplicate") == 100
    assert _peak(_stream().assume_ordered().sliding(10).aggregate(n=sw.count()), "cut_at_changes") == 100
    assert _peak(_changes(50).settle(), "settle") == 50
    assert _peak(sw.compare_replicas(_changes(0), _stream_of_changes(50)), "compare_replicas") == 50


def _stream_of_changes(rows: int) -> sw.RevisedStream:
    sent = [{"change": "insert", "at": at} for at in range(rows)]
    return sw.changes([*sent, {"change": "punctuate", "at": rows}], time="at")


@pytest.mark.parametrize("keyed", [False, True])
def test_a_merge_counts_what_lived_between_two_elements_of_a_batch(keyed: bool) -> None:
    """All events are frozen by the punctuation that ends the batch; without it they would be held."""
    sent = [{"change": "insert", "at": at} for at in range(40)]
    rows = [*sent, {"change": "punctuate", "at": 40}, *({"change": "insert", "at": at} for at in (41, 42))]
    replicas = [sw.changes([*rows, {"change": "punctuate", "at": 50}], time="at", keyed=keyed) for _ in range(2)]
    assert _peak(sw.merge_replicas(*replicas), "merge_replicas") == 40


def test_a_merge_by_column_counts_what_lived_within_a_batch() -> None:
    """Rows go as soon as a replica is a patience past them."""
    rows = [{"at": at, "replica": who} for at in range(60) for who in ("blue", "green")]
    Random(4).shuffle(rows)
    merged = sw.stream(rows, time="at").merge_replicas(by="replica", patience=100)
    assert _peak(merged, "merge_replicas") == 60


def test_a_join_counts_rows_that_may_match_again_beside_those_that_wait() -> None:
    """Rows that live are held, though they wait for nobody."""
    left, right = (sw.stream(_ROWS, time="at").assume_ordered().select(**{name: "v"}) for name in ("left", "right"))
    peak = _peak(left.join(right, within=1_000), "join")
    assert peak >= 200


def test_the_peak_is_no_part_of_the_state() -> None:
    """An operator that is built anew begins with what it holds."""
    for case in _HOLDING:
        if case.name.startswith("merge_replicas") or "Revised" in case.name:
            operator = case.build(None)
            assert operator.peak_buffered() == 0
            assert case.build(operator.snapshot()).peak_buffered() == 0


def test_batches_of_one_row_show_the_same_peak_of_a_merge() -> None:
    """What lives at once does not depend on how elements are cut."""
    schema = pa.schema({"change": pa.string(), "at": pa.int64()})
    rng = Random(11)
    sent = sorted(range(80), key=lambda at: at + rng.randrange(9))
    rows: list[dict[str, Any]] = []
    for place, at in enumerate(sent):
        rows.append({"change": "insert", "at": at})
        if place % 10 == 9:
            rows.append({"change": "punctuate", "at": min(sent[place + 1 :], default=90)})
    peaks = []
    for batch_rows in (1, 7, 1_000):
        replicas = [sw.changes(rows, time="at", schema=schema) for _ in range(2)]
        with sw.merge_replicas(*replicas).open(lambda _: None, batch_rows=batch_rows) as query:
            query.run_to_end()
            peaks.append(query.counters()["merge_replicas#1"].peak_buffered)
    assert peaks[0] > 0
    assert max(peaks) <= 2 * min(peaks)
