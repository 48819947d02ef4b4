"""deduplicate: worked examples, every type of key, both ends of time, and what is remembered and stored."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BadDuration
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Insert, batch_of, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.deduplicate import deduplicate, known_keys, latest_rows
from slackwater.operators.deduplicate.deduplicate import DeduplicateOperator
from slackwater.operators.deduplicate.key_words import KeyWords
from slackwater.policies.keep import Keep
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.deduplicate import deduplicate_oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
POINTS = EventSchema(PAYLOAD, TimeColumn("at", pa.int64()), None, ("at", "k", "v"))


def _step(within: int, keep: Keep = Keep.FIRST, **options: Any) -> DeduplicateOperator:
    return DeduplicateOperator(POINTS, ["k"], within, keep, **{"ordered": True, **options})


def _rows(*rows: tuple[int, str | None, int]) -> EventBatch:
    return batch_of([Insert((k, v), at) for at, k, v in rows], PAYLOAD)


def _all(operator: DeduplicateOperator, *batches: EventBatch) -> list[tuple[Any, ...]]:
    """What comes out, as (time, key, value)."""
    emissions = [*(operator.on_batch(0, batch) for batch in batches), operator.on_end(0)]
    inserts = [e for one in emissions for batch in one.batches for e in elements_of(batch) if isinstance(e, Insert)]
    return [(event.start, *event.payload) for event in inserts]  # type: ignore[misc]


def test_an_original_stands_for_rows_up_to_within_after_it_and_not_longer() -> None:
    """Exactly `within` is a repeat, one more is an original; repeats do not prolong it."""
    rows = _rows((0, "a", 1), (4, "a", 2), (5, "a", 3), (6, "a", 4), (11, "a", 5), (12, "a", 6))
    assert [v for _, _, v in _all(_step(5), rows)] == [1, 4, 6]
    assert [v for _, _, v in _all(_step(5, Keep.LAST), rows)] == [3, 5, 6]


def test_keys_do_not_meet_and_null_is_one_of_them() -> None:
    """A null is equal to a null, and to nothing else."""
    rows = _rows((0, None, 1), (0, "", 2), (1, None, 3), (1, "a", 4), (2, "", 5))
    assert [v for _, _, v in _all(_step(5), rows)] == [1, 2, 4]


@pytest.mark.parametrize(("keep", "wanted"), [(Keep.FIRST, 2), (Keep.LAST, 9)])
def test_among_rows_of_one_time_what_is_in_them_decides(keep: Keep, wanted: int) -> None:
    """The least or the greatest, whichever came first, and however the batches were cut."""
    for values in ([5, 2, 9], [9, 5, 2], [2, 9, 5]):
        for cut in (1, 2, 3):
            rows = [_rows(*((7, "a", v) for v in values[first : first + cut])) for first in range(0, 3, cut)]
            assert _all(_step(0, keep), *rows) == [(7, "a", wanted)]


def test_of_two_rows_of_one_time_a_null_is_the_greater_and_an_early_end_the_less() -> None:
    """Ends come first, then columns from left to right."""
    schema = EventSchema(PAYLOAD, TimeColumn("at", pa.int64()), TimeColumn("to", pa.int64()), ("at", "to", "k", "v"))
    rows = batch_of([Insert(("a", 1), 3, 9), Insert(("a", None), 3, 5), Insert(("a", 7), 3, 5)], PAYLOAD)
    for keep, wanted in ((Keep.FIRST, (7, 5)), (Keep.LAST, (1, 9))):
        step = DeduplicateOperator(schema, ["k"], 0, keep, ordered=False)
        step.on_batch(0, rows)
        (event, *_) = [e for batch in step.on_end(0).batches for e in elements_of(batch) if isinstance(e, Insert)]
        assert (event.payload[1], event.end) == wanted  # type: ignore[index]


def test_a_row_goes_out_when_its_time_is_complete_and_the_last_one_when_no_later_can_come() -> None:
    """What is guaranteed never goes past a row that waits."""
    first, last = _step(5, ordered=False), _step(5, Keep.LAST, ordered=False)
    for step in (first, last):
        step.on_batch(0, _rows((3, "a", 1), (1, "a", 2), (2, "b", 3)))
    none = POINTS.no_rows

    def sent(step: DeduplicateOperator, bound: int) -> list[list[int]]:
        return [batch.start.tolist() for batch in step.on_batch(0, punctuation_like(none, bound)).batches]

    assert sent(first, 3) == [[1, 2], [3]]
    assert sent(last, 3) == [[-2]]
    assert sent(last, 8) == [[2], [3]]
    assert sent(last, 9) == [[3], [4]]
    assert (first.buffered(), last.buffered()) == (1, 0)
    assert (first.duplicates(), last.duplicates()) == (0, 1)


def test_times_at_both_ends_of_int64_do_not_wrap() -> None:
    """Neither the distance of two times nor a bound that lies before the beginning."""
    rows = _rows((BEGINNING + 1, "a", 1), (-1, "a", 2), (FOREVER - 1, "a", 3))
    assert [v for _, _, v in _all(_step(FOREVER), rows)] == [1, 3]
    assert [v for _, _, v in _all(_step(FOREVER, Keep.LAST), rows)] == [2, 3]
    assert [v for _, _, v in _all(_step(FOREVER - 2), rows)] == [1, 2, 3]


def test_a_negative_time_is_refused() -> None:
    """So is one that does not fit int64."""
    for within in (-1, FOREVER + 1):
        with pytest.raises(BadDuration, match="not negative"):
            _step(within)


# ---- keys of every type ----------------------------------------------------------------------------------------------

_NAN = float("nan")
_KEYS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 1, -1, 2**62, None],
    pa.int8(): [0, 1, -1, None],
    pa.uint64(): [0, 2**64 - 1, None],
    pa.float64(): [0.0, -0.0, 1.5, _NAN, None],
    pa.float32(): [0.0, -0.0, 1.5, _NAN, None],
    pa.string(): ["", "a", "ab", "12345678", "123456789", "\0", None],
    pa.large_binary(): [b"", b"\0", b"\0\0", b"x" * 17, None],
    pa.timestamp("us"): [0, 1, None],
    pa.date32(): [0, 1, None],
    pa.bool_(): [True, False, None],
    pa.decimal128(5, 1): [Decimal("1.5"), Decimal("-1.5"), None],
    pa.list_(pa.int64()): [[], [0], [0, 0], None],
    pa.dictionary(pa.int32(), pa.string()): ["a", "b", None],
}


@pytest.mark.parametrize("kinds", [*((kind,) for kind in _KEYS), (pa.int64(), pa.string()), (pa.int64(), pa.int32())])
@given(data=st.data())
def test_equal_keys_are_equal_words_in_every_batch_and_different_ones_are_different(
    kinds: tuple[pa.DataType, ...], data: st.DataObject
) -> None:
    """Whether a batch has nulls or not; slices of longer columns included. As the bytes of row_bytes are."""
    values = [_KEYS.get(kind, [0, 1, None]) for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*map(st.sampled_from, values)), min_size=1, max_size=12))
    names = [f"k{place}" for place in range(len(kinds))]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    whole = pa.RecordBatch.from_arrays(columns, names=names)
    keys, codec = KeyWords(whole.schema, names), RowCodec(whole.schema)
    written = codec.encode(whole)
    wanted = [bytes(written.data[a:b]) for a, b in zip(written.offsets, written.offsets[1:], strict=False)]
    cut = data.draw(st.integers(0, len(rows)))
    found = [word for part in (whole.slice(0, cut), whole.slice(cut)) for word in _words(keys, part)]
    same = [[one == other for other in wanted] for one in wanted]
    assert [[one == other for other in found] for one in found] == same


def _words(keys: KeyWords, rows: pa.RecordBatch) -> list[bytes]:
    encoded = keys.encode(rows)
    return [encoded.words[a:b].tobytes() for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)]


_VALUES = [st.sampled_from([0.0, 1.5, -2.0, _NAN, None]), st.sampled_from(["", "a", "b", None]), st.booleans()]


@pytest.mark.parametrize("keep", Keep)
@given(
    rows=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2), *_VALUES), max_size=25),
    within=st.integers(0, 8),
    seed=st.randoms(use_true_random=False),
)
def test_the_order_of_arrival_changes_nothing(keep: Keep, rows: list[Any], within: int, seed: Any) -> None:
    """Rows of one key and time that differ in columns of several types, nulls and NaNs among them."""
    payload = pa.schema({"k": pa.int64(), "x": pa.float64(), "s": pa.string(), "l": pa.list_(pa.bool_())})
    schema = EventSchema(payload, TimeColumn("at", pa.int64()), None, ("at", *payload.names))
    tables = []
    for _ in range(2):
        events = [Insert((k, x, s, [b]), at) for at, k, x, s, b in rows]
        step = DeduplicateOperator(schema, ["k"], within, keep, ordered=False)
        step.on_batch(0, batch_of(events, payload))
        tables.append([str(e) for batch in step.on_end(0).batches for e in elements_of(batch) if isinstance(e, Insert)])
        seed.shuffle(rows)
    assert sorted(tables[0]) == sorted(tables[1])


# ---- what is remembered ----------------------------------------------------------------------------------------------


def _numbered(first: int, rows: int) -> EventBatch:
    payload = pa.record_batch({"k": [str(n) for n in range(first, first + rows)], "v": range(first, first + rows)})
    return EventBatch.inserts(payload.cast(PAYLOAD), list(range(first, first + rows)))


def _leaves(state: object) -> Iterator[Any]:
    """Every column and batch of a state, wherever it lies."""
    if isinstance(state, np.ndarray | pa.RecordBatch):
        yield state
    elif dataclasses.is_dataclass(state):
        yield from _leaves(tuple(getattr(state, field.name) for field in dataclasses.fields(state)))
    elif isinstance(state, tuple | list):
        for part in state:
            yield from _leaves(part)


@pytest.mark.parametrize("keep", Keep)
def test_memory_follows_the_keys_of_the_last_while(keep: Keep) -> None:
    """However long the stream, and whether states are taken or not."""
    step = _step(500, keep)
    sizes = []
    for first in range(0, 60_000, 1_000):
        step.on_batch(0, _numbered(first, 1_000))
        sizes.append(sum(leaf.nbytes for leaf in _leaves(step.snapshot())))
        assert len(step._known) <= 4_000
    assert max(sizes[5:]) <= 2 * sizes[4]
    assert step.buffered() == (1 if keep is Keep.FIRST else 501)


@pytest.mark.parametrize("keep", Keep)
def test_only_what_is_new_is_stored_again(keep: Keep) -> None:
    """A micro-batch writes what came with it, and not what is remembered: twenty times as much, then."""

    def written(remembered: int) -> int:
        step = _step(10**6, keep, ordered=False)
        step.on_batch(0, _numbered(0, remembered))
        step.on_batch(0, punctuation_like(POINTS.no_rows, remembered))
        held = {id(leaf): leaf for leaf in _leaves(step.snapshot())}
        step = _step(10**6, keep, ordered=False, resume=step.snapshot())
        step.on_batch(0, _numbered(remembered, 100))
        step.on_batch(0, punctuation_like(POINTS.no_rows, remembered + 100))
        return sum(leaf.nbytes for leaf in _leaves(step.snapshot()) if id(leaf) not in held)

    assert written(200_000) <= 1.2 * written(10_000)


def test_a_state_is_not_changed_by_what_comes_after_it() -> None:
    """Two steps that are built from one state go on as one would."""
    step = _step(10, Keep.LAST, ordered=False)
    step.on_batch(0, _rows((1, "a", 1), (2, "b", 2)))
    step.on_batch(0, punctuation_like(POINTS.no_rows, 3))
    state = step.snapshot()
    ends = [_all(_step(10, Keep.LAST, ordered=False, resume=state), _rows((5, "a", 3))) for _ in range(2)]
    assert ends[0] == ends[1] == [(2, "b", 2), (5, "a", 3)]


def test_a_state_knows_which_rows_were_replaced_since_the_last_one() -> None:
    """Also where nothing else has changed in the piece in which they lie."""
    step = _step(10, Keep.LAST, ordered=False)
    step.on_batch(0, _rows((1, "a", 1), (2, "b", 2)))
    step.on_batch(0, punctuation_like(POINTS.no_rows, 3))
    step.snapshot()
    step.on_batch(0, _rows((3, "a", 3)))
    step.on_batch(0, punctuation_like(POINTS.no_rows, 4))
    assert _all(_step(10, Keep.LAST, ordered=False, resume=step.snapshot())) == [(2, "b", 2), (3, "a", 3)]


@pytest.mark.parametrize("keep", Keep)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=60),
    within=st.integers(0, 12),
    cuts=st.integers(1, 9),
)
def test_long_streams_of_small_batches_keep_few_pieces(
    keep: Keep, gaps: list[tuple[int, int]], within: int, cuts: int
) -> None:
    """And give what the oracle gives, where pieces are put together at all sizes."""
    at, events = 0, []
    for number, (gap, key) in enumerate(gaps):
        at += gap
        events.append(Insert((str(key), number), at))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_keys, "_LEAST_ROOM", 2)  # so that what is remembered is moved at all sizes, too
        step = _step(within, keep)
        out = _all(step, *(batch_of(events[first : first + cuts], PAYLOAD) for first in range(0, len(events), cuts)))
    wanted = deduplicate_oracle(events, [0], within, keep)
    assert sorted(out) == sorted((event.start, *event.payload) for event in wanted)  # type: ignore[misc]
    assert step.buffered() == 0


@pytest.mark.parametrize("keep", Keep)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=40))
def test_rows_of_one_time_are_looked_at_together_however_many_batches_they_come_in(
    keep: Keep, rows: list[tuple[int, int, int]]
) -> None:
    """Where batches are too long to be put together, too."""
    events = [Insert((str(k), v), at) for at, k, v in sorted(rows, key=lambda row: row[0])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deduplicate, "_FEW", 0)
        step = _step(1, keep)
        out = _all(step, *(batch_of(events[first : first + 3], PAYLOAD) for first in range(0, len(events), 3)))
    wanted = deduplicate_oracle(events, [0], 1, keep)
    assert sorted(out) == sorted((event.start, *event.payload) for event in wanted)  # type: ignore[misc]


def test_pieces_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand batches of one row are a few pieces."""
    step = _step(FOREVER, Keep.LAST)
    for at in range(1_000):
        step.on_batch(0, _rows((at, str(at), at)))
    assert len(step.snapshot().latest) <= 12
    monkeypatch.setattr(latest_rows, "_SMALL", 0)
    step = _step(FOREVER, Keep.LAST)
    for at in range(20):
        step.on_batch(0, _rows((at, str(at), at)))
    assert len(step.snapshot().latest) == 19
