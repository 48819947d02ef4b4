"""Partial results: made, merged, split and finished, always with the answer of the whole."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import RunError
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.policies import aggregates as sw
from slackwater.testing.oracles.aggregate import aggregate_oracle

if TYPE_CHECKING:
    from slackwater.policies.aggregates import Aggregate

EVERYTHING: dict[str, Aggregate] = {
    "rows": sw.count(),
    "present": sw.count("x"),
    "total": sw.sum("x"),
    "least": sw.min("x"),
    "greatest": sw.max("x"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("x"),
    "top": sw.top_k("x", 2),
}
"""Every aggregate, of one column."""

INTS = pa.schema({"k": pa.string(), "x": pa.int64()})

AWKWARD = st.one_of(st.none(), st.floats(allow_infinity=False, width=16), st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16]))
"""Floats whose sums depend on the order of adding, NaN among them."""


def _microseconds(count: int) -> datetime:
    return datetime(1970, 1, 1, microsecond=count, tzinfo=UTC)


def _rows(payload: pa.RecordBatch, starts: list[int] | None = None) -> EventBatch:
    starts = [0] * payload.num_rows if starts is None else starts
    return EventBatch.inserts(payload, starts, [start + 10 for start in starts])


def _answers(rows: EventBatch, aggregates: dict[str, Aggregate], keys: list[str] | None = None) -> list[dict[str, Any]]:
    grouping = Grouping.of(rows.payload.schema, keys or [], aggregates, "test")
    partial = Partial.of(rows, grouping)
    partial.check()
    return partial.finish().payload.to_pylist()


def test_every_aggregate_of_a_small_group() -> None:
    """Nulls are left out everywhere but in the count of rows."""
    payload = pa.record_batch({"x": pa.array([3, None, 1, 3], pa.int64())})
    assert _answers(_rows(payload), EVERYTHING) == [
        {
            "rows": 4,
            "present": 3,
            "total": 7,
            "least": 1,
            "greatest": 3,
            "average": 7 / 3,
            "different": 2,
            "top": [3, 3],
        }
    ]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.uint8(), pa.float16()], ids=str)
def test_aggregates_of_nothing_are_null(kind: pa.DataType) -> None:
    """As in SQL; counts are zero, and the list is empty."""
    (answer,) = _answers(_rows(pa.record_batch({"x": pa.array([None, None], kind)})), EVERYTHING)
    assert answer == {
        "rows": 2,
        "present": 0,
        "total": None,
        "least": None,
        "greatest": None,
        "average": None,
        "different": 0,
        "top": [],
    }


def test_nan_is_one_value_and_gives_way_to_numbers() -> None:
    """Sums and means become NaN; least, greatest and top prefer numbers."""
    (answer,) = _answers(_rows(pa.record_batch({"x": [math.nan, 2.0, -math.nan, 1.0, 2.0]})), EVERYTHING)
    assert (answer["least"], answer["greatest"], answer["top"], answer["different"]) == (1.0, 2.0, [2.0, 2.0], 3)
    assert math.isnan(answer["total"])
    assert math.isnan(answer["average"])
    (answer,) = _answers(_rows(pa.record_batch({"x": [math.nan]})), EVERYTHING)
    assert math.isnan(answer["least"])
    assert math.isnan(answer["top"][0])


def test_zeros_are_one_value() -> None:
    """The sign of a zero neither makes a value nor a group."""
    payload = pa.record_batch({"x": [0.0, -0.0]})
    assert _answers(_rows(payload), {"n": sw.count_distinct("x")}) == [{"n": 1}]
    assert _answers(_rows(payload), {"n": sw.count()}, ["x"]) == [{"x": 0.0, "n": 2}]


@pytest.mark.parametrize(
    ("column", "least", "greatest"),
    [
        (pa.array(["pear", None, "apple", "pear"]), "apple", "pear"),
        (pa.array(["pear", None, "apple", "pear"], pa.large_string()), "apple", "pear"),
        (pa.array(["pear", None, "apple", "pear"]).dictionary_encode(), "apple", "pear"),
        (pa.array([b"b", None, b"a", b"b"]), b"a", b"b"),
        (pa.array([True, None, False, True]), False, True),
        (pa.array([date(2026, 5, 1), None, date(1960, 1, 1), date(2026, 5, 1)]), date(1960, 1, 1), date(2026, 5, 1)),
        (pa.array([7, None, 5, 7], pa.timestamp("us", "UTC")), _microseconds(5), _microseconds(7)),
        (pa.array([Decimal("2.50"), None, Decimal("-1.00"), Decimal("2.50")]), Decimal("-1.00"), Decimal("2.50")),
        (pa.array([2.5, None, -1.0, 2.5], pa.float16()), -1.0, 2.5),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_all_ordered_types_work(column: pa.Array, least: object, greatest: object) -> None:
    """Least, greatest, counts and top of every type that has an order, in that type."""
    wanted = {name: EVERYTHING[name] for name in ("least", "greatest", "present", "different", "top")}
    (answer,) = _answers(_rows(pa.record_batch({"x": column})), wanted)
    assert answer == {"least": least, "greatest": greatest, "present": 3, "different": 2, "top": [greatest, greatest]}


def test_decimals_are_summed_exactly() -> None:
    """To 38 digits, with their own scale; the mean is a float."""
    payload = pa.record_batch({"x": [Decimal("0.10"), Decimal("0.20"), None]})
    (answer,) = _answers(_rows(payload), {"total": sw.sum("x"), "average": sw.mean("x")})
    assert answer == {"total": Decimal("0.30"), "average": 0.15}


def test_integer_sums_may_leave_int64_on_the_way_but_not_at_the_end() -> None:
    """There is no wrap-around; the error names step, aggregate, interval, keys and sum."""
    largest = 2**63 - 1
    fine = pa.record_batch({"k": ["a", "a", "a"], "x": [largest, largest, -largest]})
    assert _answers(_rows(fine), {"total": sw.sum("x")}) == [{"total": largest}]
    grouping = Grouping.of(INTS, ["k"], {"total": sw.sum("x")}, "test")
    rows = _rows(pa.record_batch({"k": ["a", "b", "b"], "x": [1, largest, 1]}))
    with pytest.raises(RunError, match=r"(?s)step 'here'.*total = sum\(x\).*\[0, 10\).*k='b'.*9223372036854775808"):
        Partial.of(rows, grouping).finish("step 'here'")


def test_unsigned_and_small_integers_are_summed_as_int64() -> None:
    """Also where their own type would overflow."""
    for kind, value in [(pa.int8(), 127), (pa.uint32(), 2**32 - 1), (pa.uint64(), 2**62 - 1)]:
        payload = pa.record_batch({"x": pa.array([value, value], kind)})
        assert _answers(_rows(payload), {"total": sw.sum("x")}) == [{"total": 2 * value}]


def test_groups_come_in_order_of_interval_then_first_appearance() -> None:
    """The order of arrival decides only among equal intervals."""
    payload = pa.record_batch({"k": ["b", "a", "b", "a", None]})
    grouping = Grouping.of(payload.schema, ["k"], {"n": sw.count()}, "test")
    out = Partial.of(_rows(payload, [5, 5, 0, 0, 5]), grouping).finish()
    assert out.start.tolist() == [0, 0, 5, 5, 5]
    assert out.payload.to_pydict() == {"k": ["b", "a", "b", "a", None], "n": [1, 1, 1, 1, 1]}


def test_keys_come_out_in_their_own_type_whatever_their_dictionaries() -> None:
    """Two batches with different dictionaries make one group of the same word."""
    kind = pa.dictionary(pa.int8(), pa.string())
    grouping = Grouping.of(pa.schema({"k": kind}), ["k"], {"n": sw.count()}, "test")
    parts = [
        Partial.of(_rows(pa.record_batch({"k": pa.array(words).cast(kind)})), grouping)
        for words in (["x", "y"], ["y", None, "z"])
    ]
    out = Partial.merge(parts).finish()
    assert out.payload.schema.field("k").type == kind
    assert out.payload.to_pydict() == {"k": ["x", "y", None, "z"], "n": [1, 2, 1, 1]}


def test_splitting_copies_nothing() -> None:
    """Both halves look into the memory of the whole."""
    payload = pa.record_batch({"x": list(range(100))})
    grouping = Grouping.of(payload.schema, [], EVERYTHING, "test")
    whole = Partial.of(_rows(payload, list(range(100))), grouping)
    before = pa.total_allocated_bytes()
    early, late = whole.split(40)
    assert pa.total_allocated_bytes() == before
    assert (len(early), len(late)) == (40, 60)
    assert late.finish().payload.column("top").to_pylist() == [[x] for x in range(40, 100)]


@st.composite
def _events(draw: st.DrawFn, values: st.SearchStrategy[Any], kind: pa.DataType) -> EventBatch:
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), values), max_size=12))
    payload = pa.record_batch(
        {"k": pa.array([k for _, k, _ in rows], pa.string()), "x": pa.array([x for *_, x in rows], kind)}
    )
    return _rows(payload, [start for start, *_ in rows])


def _check_against_oracle(data: st.DataObject, rows: EventBatch) -> None:
    grouping = Grouping.of(rows.payload.schema, ["k"], EVERYTHING, "test")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [
        Partial.of(rows.slice(first, stop), grouping)
        for first, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True)
    ]
    at = data.draw(st.integers(0, len(parts)))
    merged = Partial.merge([Partial.merge(parts[:at] or parts[:1]), *parts[max(at, 1) :]])
    early, late = merged.split(data.draw(st.integers(0, 4)))
    for partial in (merged, early, late):
        partial.check()
    again = Partial.merge([early, late])
    events = [event for event in elements_of(rows) if isinstance(event, Insert)]
    expected = aggregate_oracle(events, ["k", "x"], ["k"], EVERYTHING)
    assert list(elements_of(again.finish())) == expected
    assert [*elements_of(early.finish()), *elements_of(late.finish())] == expected


@given(st.data())
def test_merged_parts_of_integers_equal_the_oracle(data: st.DataObject) -> None:
    """Whatever the parts, the grouping of merges, and where the result was split and merged again."""
    _check_against_oracle(data, data.draw(_events(st.one_of(st.none(), st.integers(-5, 5)), pa.int64())))


@given(st.data())
def test_merged_parts_of_floats_equal_the_oracle_to_the_last_bit(data: st.DataObject) -> None:
    """Float sums do not depend on the parts."""
    _check_against_oracle(data, data.draw(_events(AWKWARD, pa.float64())))
