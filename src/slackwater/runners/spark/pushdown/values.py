"""Columns of Spark together with what Arrow knows of them: types, constants, and the types that two of them share.

Only types are computed with that mean the same to both, with constants written so that neither a time zone nor the
digits of a number make a difference. Values of all other types can be passed on, and asked whether they are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

OPAQUE: Final = pa.null()
"""Stands for a type of which only nulls are looked at."""

HEAVIEST: Final = 1_000
"""How many parts an expression may have in Spark: halves repeat theirs, and deep arithmetic would grow without end."""

_TYPES: Final[Mapping[pa.DataType, st.DataType]] = {
    pa.bool_(): st.BooleanType(), pa.string(): st.StringType(), pa.date32(): st.DateType(),
    pa.int8(): st.ByteType(), pa.int16(): st.ShortType(), pa.int32(): st.IntegerType(), pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(), pa.float64(): st.DoubleType(), pa.timestamp("us"): st.TimestampNTZType(),
}  # fmt: skip
"""What is computed with, and Spark's type for it: for strings, the one that compares bytes."""

_EXACT_BITS: Final = {pa.float32(): 16, pa.float64(): 32}
"""The widest integers of which each type of floats holds all."""


class NotNative(Exception):
    """An expression, or a step, is left to Python. Users never see it."""


@dataclass(frozen=True)
class Value:
    """A column of Spark, and what is known of it in process."""

    column: Column
    kind: pa.DataType
    constant: pa.Scalar | None = None
    limits: tuple[int, int] | None = None
    """The least and the greatest integer that it can be, if that is less than its type could hold."""

    weight: int = 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer that it can be."""
        half: int = 2 ** (self.kind.bit_width - 1)
        return self.limits or (-half, half - 1)

    @property
    def known(self) -> Any:
        """What a constant is in Python; of anything else it is not known."""
        if self.constant is None:
            raise NotNative("not a constant")
        return self.constant.as_py()


def spark_type(kind: pa.DataType) -> st.DataType | None:
    """Spark's type for an Arrow type that is computed with; None for all others."""
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return st.TimestampType()
    return _TYPES.get(kind)


def literal(scalar: pa.Scalar) -> Value:
    """Write a constant, of exactly its type: times by their numbers, so that no time zone has a say."""
    kind, limits = scalar.type, None
    if pa.types.is_timestamp(kind) and spark_type(kind) is not None:
        microseconds = scalar.cast(pa.int64()).as_py()
        if kind.tz is None:
            column = sf.lit(str(np.datetime64(microseconds, "us"))).cast(st.TimestampNTZType())
        else:
            column = sf.timestamp_micros(sf.lit(microseconds))
    elif pa.types.is_date32(kind):
        column = sf.date_from_unix_date(sf.lit(scalar.cast(pa.int32()).as_py()))
    else:
        column = sf.lit(scalar.as_py()).cast(known_type(kind))
        limits = (scalar.as_py(),) * 2 if is_integer(kind) else None
    return Value(column, kind, scalar, limits)


def holds_forever(kind: pa.DataType) -> bool:
    """Whether a column of times can hold the number that stands for no end."""
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def forever(kind: pa.DataType) -> Column:
    """That number, in such a column's type."""
    return literal(pa.scalar(FOREVER, pa.int64()).cast(kind)).column


def kind_of(kind: pa.DataType, in_spark: st.DataType) -> pa.DataType:
    """The Arrow type, if Spark's is the one that is known for it: of a string with a collation it is not."""
    return kind if spark_type(kind) == in_spark else OPAQUE


def known_type(kind: pa.DataType) -> st.DataType:
    """Spark's type for an Arrow type that is computed with; no others come here."""
    known = spark_type(kind)
    if known is None:
        raise NotNative(str(kind))
    return known


def is_integer(kind: pa.DataType) -> bool:
    """Whether it is one of the types of integers that Spark has: those with a sign."""
    return bool(pa.types.is_signed_integer(kind))


def is_float(kind: pa.DataType) -> bool:
    """Whether it is one of the types of floats that Spark has."""
    return kind in _EXACT_BITS


def constant(value: Any, dtype: Any = None) -> Value:
    """Write what Narwhals makes of a Python value, in Arrow."""
    if not isinstance(value, bool | int | float | str | date | np.generic):
        raise NotNative(repr(value))
    one_row = nw.from_native(pa.table({"row": [0]}), eager_only=True)
    written: Any = value  # Narwhals takes NumPy's numbers as well, but does not say so
    return literal(one_row.select(nw.lit(written, dtype).alias("row")).to_native().column("row")[0])


def made(
    column: Column, kind: pa.DataType, *parts: Value, copies: int = 1, limits: tuple[int, int] | None = None
) -> Value:
    """A value made of others, each of which stands in the column so many times."""
    weight = 1 + copies * sum(part.weight for part in parts)
    if weight > HEAVIEST:
        raise NotNative("too large")
    return Value(column, kind, None, limits, weight)


def require(condition: bool) -> None:
    """Leave the expression to Python unless the condition holds."""
    if not condition:
        raise NotNative


def as_kind(value: Value, kind: pa.DataType) -> Value:
    """Bring a value into a type that holds all that it can be; a constant is brought there by Arrow, or refused."""
    if value.kind == kind:
        return value
    if value.constant is not None and (is_integer(value.kind) or is_float(value.kind)):
        return literal(value.constant.cast(kind))
    widened = is_integer(value.kind) and is_integer(kind) and value.kind.bit_width < kind.bit_width
    exact = is_integer(value.kind) and is_float(kind) and value.kind.bit_width <= _EXACT_BITS[kind]
    require(widened or exact or (value.kind, kind) == (pa.float32(), pa.float64()))
    return made(value.column.cast(known_type(kind)), kind, value, limits=value.bounds if widened else None)


def aligned(left: Value, right: Value) -> tuple[Value, Value]:
    """Bring both to the type that Arrow takes for them: the wider one, floats before integers."""
    if left.kind == right.kind:
        require(left.kind != OPAQUE)
        return left, right
    for value in (left, right):
        require(is_integer(value.kind) or is_float(value.kind))
    kind = max(left.kind, right.kind, key=lambda kind: (is_float(kind), kind.bit_width))
    return as_kind(left, kind), as_kind(right, kind)
