"""What is refused when an aggregation is built, and which types come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.errors import PlanError, SchemaMismatch
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.aggregate import AggregateOperator, aggregate_schema
from slackwater.operators.window import windowed_schema
from slackwater.policies import aggregates as sw

if TYPE_CHECKING:
    from slackwater.policies.aggregates import Aggregate

WORDS = pa.dictionary(pa.int8(), pa.string())

SCHEMA = EventSchema.of(
    pa.schema(
        {
            "at": pa.int64(),
            "until": pa.int64(),
            "k": pa.string(),
            "word": WORDS,
            "i": pa.int32(),
            "f": pa.float32(),
            "d": pa.decimal128(10, 2),
            "wide": pa.decimal256(60, 2),
            "b": pa.bool_(),
            "list": pa.list_(pa.int64()),
            "struct": pa.struct({"a": pa.int64()}),
        }
    ),
    time="at",
    until="until",
)


def test_columns_come_in_the_order_time_keys_aggregates() -> None:
    """The time columns are those of the input."""
    schema = aggregate_schema(SCHEMA, ["word", "k"], {"n": sw.count(), "total": sw.sum("i")})
    assert schema.columns == ("at", "until", "word", "k", "n", "total")
    assert schema.payload.names == ["word", "k", "n", "total"]
    assert (schema.time, schema.until) == (SCHEMA.time, SCHEMA.until)
    assert windowed_schema(SCHEMA).time == aggregate_schema(windowed_schema(SCHEMA), ["at"], {"n": sw.count()}).time


@pytest.mark.parametrize(
    ("aggregate", "answer"),
    [
        (sw.count(), pa.int64()),
        (sw.count("list"), pa.int64()),
        (sw.count_distinct("word"), pa.int64()),
        (sw.sum("i"), pa.int64()),
        (sw.sum("f"), pa.float64()),
        (sw.sum("d"), pa.decimal128(38, 2)),
        (sw.mean("i"), pa.float64()),
        (sw.mean("d"), pa.float64()),
        (sw.min("i"), pa.int32()),
        (sw.max("word"), pa.string()),
        (sw.min("b"), pa.bool_()),
        (sw.top_k("f", 2), pa.list_(pa.float32())),
    ],
    ids=str,
)
def test_each_aggregate_has_a_type(aggregate: Aggregate, answer: pa.DataType) -> None:
    """Keys keep their own; dictionary-encoded values come out as plain values."""
    schema = aggregate_schema(SCHEMA, ["word"], {"answer": aggregate})
    assert schema.payload.field("answer").type == answer
    assert schema.payload.field("word").type == WORDS


@pytest.mark.parametrize(
    "aggregate",
    [
        sw.sum("k"),
        sw.sum("b"),
        sw.mean("word"),
        sw.sum("wide"),
        sw.min("list"),
        sw.max("struct"),
        sw.top_k("list", 2),
        sw.count_distinct("struct"),
    ],
    ids=str,
)
def test_types_that_cannot_be_summed_or_ordered_are_refused(aggregate: Aggregate) -> None:
    """The message names the aggregate and the column."""
    with pytest.raises(SchemaMismatch, match=rf"(?s)by region.*{aggregate.function}.*{aggregate.column}"):
        aggregate_schema(SCHEMA, [], {"answer": aggregate}, "by region")


@pytest.mark.parametrize("key", ["list", "struct"])
def test_nested_keys_are_refused(key: str) -> None:
    """They are refused by the schema and by the operator alike."""
    with pytest.raises(SchemaMismatch, match=key):
        aggregate_schema(SCHEMA, [key], {"n": sw.count()})
    with pytest.raises(SchemaMismatch, match=key):
        AggregateOperator(SCHEMA, [key], {"n": sw.count()}, ordered=True)


@pytest.mark.parametrize(
    ("keys", "aggregate"), [(["nowhere"], sw.count()), ([], sw.sum("nowhere")), (["at"], sw.count())]
)
def test_unknown_columns_are_refused(keys: list[str], aggregate: Aggregate) -> None:
    """The message lists the columns there are. The time columns are none of them: every group has those anyway."""
    with pytest.raises(SchemaMismatch, match=r"(?s)not there.*k, word"):
        aggregate_schema(SCHEMA, keys, {"n": aggregate})


@pytest.mark.parametrize(("keys", "name"), [(["k"], "k"), ([], "at"), ([], "until"), (["k", "k"], "n")])
def test_names_must_differ(keys: list[str], name: str) -> None:
    """Keys, aggregates and time columns share one table."""
    with pytest.raises(SchemaMismatch, match="one name"):
        aggregate_schema(SCHEMA, keys, {name: sw.count()})


def test_an_aggregation_of_nothing_is_refused() -> None:
    """There would be no column to show."""
    with pytest.raises(PlanError, match="was given no aggregates"):
        aggregate_schema(SCHEMA, ["k"], {})
