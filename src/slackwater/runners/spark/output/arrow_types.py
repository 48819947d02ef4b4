"""The columns of a sink as Arrow has them: what Spark calls them, and rows that are brought into that form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as st

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN: Final[Mapping[type[st.DataType], pa.DataType]] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", "UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.DayTimeIntervalType: pa.duration("us"),
}


def plain_type(kind: st.DataType) -> pa.DataType | None:
    """What Arrow calls a type that holds single values; None for all others.

    >>> plain_type(st.DecimalType(9, 2)), plain_type(st.ArrayType(st.LongType()))
    (Decimal128Type(decimal128(9, 2)), None)
    """
    return pa.decimal128(kind.precision, kind.scale) if isinstance(kind, st.DecimalType) else _PLAIN.get(type(kind))


def arrow_type(kind: st.DataType) -> pa.DataType | None:
    """What tables of others hold: lists, maps and structs, too, if all that they are made of has a type there.

    A length of time has none: to Delta it is unknown, and PostgreSQL's has months, too.

    >>> arrow_type(st.ArrayType(st.LongType())), arrow_type(st.ArrayType(st.DayTimeIntervalType()))
    (ListType(list<element: int64>), None)
    """
    if isinstance(kind, st.ArrayType):
        element = arrow_type(kind.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(kind, st.MapType):
        key, value = arrow_type(kind.keyType), arrow_type(kind.valueType)
        return None if key is None or value is None else pa.map_(key, value)
    if isinstance(kind, st.StructType):
        parts = [arrow_type(field.dataType) for field in kind]
        return None if None in parts else pa.struct(list(zip(kind.names, parts, strict=True)))
    return None if isinstance(kind, st.DayTimeIntervalType) else plain_type(kind)


def with_lengths_counted(columns: st.StructType) -> st.StructType:
    """What a table of others has for these columns: where they are lengths of time, the number of microseconds.

    Late rows say by how much they are late; without this, no such table could take them.

    >>> columns = st.StructType().add("at", st.TimestampType()).add("late_by", st.DayTimeIntervalType())
    >>> with_lengths_counted(columns).simpleString()
    'struct<at:timestamp,late_by:bigint>'
    """
    lengths = [isinstance(field.dataType, st.DayTimeIntervalType) for field in columns]
    counted = [
        st.StructField(field.name, st.LongType(), field.nullable) if is_length else field
        for field, is_length in zip(columns, lengths, strict=True)
    ]
    return st.StructType(counted)


def in_columns(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table | None:
    """The rows of some tables in these columns; None if Spark would bring them into that form in another way."""
    if any(_local_times(table.schema) != _local_times(schema) for table in tables):
        return None  # Spark takes such times for those of the session's zone
    try:
        return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None


def _local_times(schema: pa.Schema) -> list[str]:
    """The columns with times that have no zone, however deep."""
    return [field.name for field in schema if _has_local_times(field.type)]


def _has_local_times(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return pa.types.is_nested(kind) and any(_has_local_times(kind.field(n).type) for n in range(kind.num_fields))
