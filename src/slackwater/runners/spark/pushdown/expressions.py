"""Writes Narwhals expressions as columns of Spark, where Spark can be made to answer exactly what Arrow answers.

The operators compute with Arrow, and what they answer is what is right. Spark answers other things in many corners, so
only the operations of a list are written, each for the types for which it is known to be the same:

    corner                      Arrow                      Spark                      written as
    NaN compared                false, and != true         equal to itself, greatest  with its own isnan
    integers that overflow      wrap around                raise, or wrap around      halves that cannot overflow
    a null in a list            is no value of it          makes the answer null      left out
    is_nan of null              null                       false                      null
    int64 with floats           raises beyond 2 ** 53      rounds                     not at all
    division by zero            infinite, or NaN           raises, or null            not at all
    is_in of 0.0                not of -0.0                of both                    not at all
    cases, patterns, powers     as its libraries have it   as Java has it             not at all

Nothing that is written can raise, so it does not matter which rows and which parts of an expression Spark looks at.
What an expression consists of Narwhals keeps to itself, and prints ambiguously. It is read here all the same, strictly:
an operation or an argument that is not known, of this version or another, leaves the expression to Python.
"""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import narwhals as nw
import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from slackwater.runners.spark.pushdown.values import (
    OPAQUE,
    NotNative,
    Value,
    aligned,
    as_kind,
    constant,
    forever,
    holds_forever,
    is_float,
    is_integer,
    kind_of,
    known_type,
    literal,
    made,
    require,
    spark_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column

    from slackwater.events.schema import EventSchema

_Binary: TypeAlias = "Callable[[Any, Any], Any]"
"""An operator of Python, for columns and for numbers alike."""

LONGEST_LIST: Final = 1_000
"""How many values is_in may look for; more would make a plan that is slower than Python."""

_LOW: Final = 2**32 - 1
_MIRRORED: Final[Mapping[_Binary, _Binary]] = {
    operator.gt: operator.lt, operator.lt: operator.gt, operator.ge: operator.le, operator.le: operator.ge,
    operator.eq: operator.eq, operator.ne: operator.ne,
}  # fmt: skip


def column_of(name: str) -> Column:
    """The column of a name, whatever characters are in it."""
    escaped = name.replace("`", "``")
    return sf.col(f"`{escaped}`")


class Columns:
    """The columns of a frame as computations see them: `schema` as the operators have it, `types` as Spark has it."""

    def __init__(self, schema: EventSchema, types: st.StructType) -> None:
        self._schema = schema
        self._kinds = {field.name: kind_of(field.type, types[field.name].dataType) for field in schema.shown}

    def raw(self, name: str) -> Value:
        """A column as it lies in the frame."""
        return Value(column_of(name), self._kinds[name])

    def shown(self, name: str) -> Value:
        """A column as operators show it: ends that are not known yet are null, however they were written."""
        value, until = self.raw(name), self._schema.until
        if until is None or until.name != name or not holds_forever(value.kind):
            return value
        return made(sf.when(value.column != forever(value.kind), value.column), value.kind, value, copies=2)

    def written(self, expression: nw.Expr) -> Value:
        """Write an expression; raise, anything, when it cannot be written."""
        value: Value | None = None
        for node in expression._nodes:  # noqa: SLF001 - it has no public face: see the docstring of the module
            value = self._written_node(node, value)
        if value is None:
            raise NotNative(str(expression))
        return value

    def _written_node(self, node: Any, operand: Value | None) -> Value:
        if operand is None and node.name == "col":
            (name,) = node.kwargs["names"]
            return self.shown(name)
        if operand is None and node.name == "lit":
            return constant(**node.kwargs)
        if node.name not in _OPERATIONS:
            raise NotNative(node.name)
        before = () if operand is None else (operand,)
        given = (self._argument(argument, str_as_lit=node.str_as_lit) for argument in node.exprs)
        return _OPERATIONS[node.name](*before, *given, **node.kwargs)

    def _argument(self, argument: Any, *, str_as_lit: bool) -> Value:
        if isinstance(argument, nw.Expr):
            return self.written(argument)
        if isinstance(argument, str) and not str_as_lit:
            return self.shown(argument)
        return constant(argument)


# ---- comparisons and logic ------------------------------------------------------------------------------------------


def _compared(sign: _Binary, left: Value, right: Value) -> Value:
    if left.constant is not None and right.constant is None:
        return _compared(_MIRRORED[sign], right, left)
    if not _both_zoned(left, right):
        left, right = aligned(left, right)
    answer = sign(left.column, right.column)
    if not is_float(left.kind):
        return made(answer, pa.bool_(), left, right)
    return made(_with_nan(sign, answer, left, right), pa.bool_(), left, right, copies=3)


def _both_zoned(left: Value, right: Value) -> bool:
    """Whether both are instants: these compare whatever their zones are."""
    return spark_type(left.kind) == spark_type(right.kind) == st.TimestampType()


def _with_nan(sign: _Binary, answer: Column, left: Value, right: Value) -> Column:
    """What Arrow says of NaN: it differs from everything, and nothing else is true of it.

    It is written even where Spark would answer the same, because Spark turns `not x < 1` into `x >= 1`, and looks for
    that in the statistics of files, which do not count NaN.
    """
    nan = sf.isnan(left.column)
    alone = right.constant is not None and not np.isnan(right.known)
    if not alone:
        nan |= sf.isnan(right.column)
    answered = answer | nan if sign is operator.ne else answer & ~nan
    # Spark's isnan says no of null, and the answer must be null whatever the other side is.
    return answered if alone else sf.when(left.column.isNotNull() & right.column.isNotNull(), answered)


def _is_between(value: Value, lower: Value, upper: Value, *, closed: str) -> Value:
    signs = {
        "both": (operator.ge, operator.le), "left": (operator.ge, operator.lt),
        "right": (operator.gt, operator.le), "none": (operator.gt, operator.lt),
    }  # fmt: skip
    above, below = signs[closed]
    return _combined(operator.and_, _compared(above, value, lower), _compared(below, value, upper))


def _combined(sign: _Binary, left: Value, right: Value) -> Value:
    require(pa.types.is_boolean(left.kind) and pa.types.is_boolean(right.kind))
    return made(sign(left.column, right.column), pa.bool_(), left, right)


def _inverted(value: Value) -> Value:
    require(pa.types.is_boolean(value.kind))
    return made(~value.column, pa.bool_(), value)


def _horizontal(sign: _Binary, *values: Value, ignore_nulls: bool) -> Value:
    if ignore_nulls:
        neutral = literal(pa.scalar(sign is operator.and_))
        values = tuple(_fill_null(value, neutral) for value in values)
    for value in values:
        require(pa.types.is_boolean(value.kind))
    return reduce(partial(_combined, sign), values)


def _is_in(value: Value, *, other: Any) -> Value:
    require(isinstance(other, list | tuple | set | frozenset | range) and len(other) <= LONGEST_LIST)
    wanted = pa.array(other)
    # Floats are left to Python: Arrow looks for their bits, which differ for 0.0 and -0.0.
    same = value.kind == wanted.type and not is_float(value.kind) and not pa.types.is_boolean(value.kind)
    require(same or (is_integer(value.kind) and is_integer(wanted.type)))
    listed = [literal(scalar).column for scalar in wanted.drop_null()]
    require(bool(listed))  # of an empty list Spark says no even to null
    return made(value.column.isin(listed), pa.bool_(), value)


# ---- nulls, choices and casts ---------------------------------------------------------------------------------------


def _is_null(value: Value) -> Value:
    return made(value.column.isNull(), pa.bool_(), value)


def _is_nan(value: Value) -> Value:
    require(is_float(value.kind))
    return made(sf.when(value.column.isNotNull(), sf.isnan(value.column)), pa.bool_(), value, copies=2)


def _is_finite(value: Value) -> Value:
    require(is_float(value.kind))
    infinite = literal(pa.scalar(float("inf")).cast(value.kind)).column
    answer = ~sf.isnan(value.column) & (sf.abs(value.column) != infinite)
    return made(sf.when(value.column.isNotNull(), answer), pa.bool_(), value, copies=3)


def _fill_null(value: Value, other: Value, *, strategy: None = None, limit: None = None) -> Value:
    require(strategy is None and limit is None and other.constant is not None)
    if value.kind != other.kind:
        require(is_integer(value.kind) or is_float(value.kind))
        other = literal(pa.scalar(other.known, value.kind))  # as Arrow does it, and may refuse to
    return _chosen(value, other)


def _chosen(*values: Value) -> Value:
    first, *others = _in_one_kind(*values)
    return made(sf.coalesce(first.column, *(other.column for other in others)), first.kind, first, *others)


def _when_then(condition: Value, then: Value, otherwise: Value | None = None) -> Value:
    require(pa.types.is_boolean(condition.kind) and then.kind != OPAQUE)
    if otherwise is None:
        return made(sf.when(condition.column, then.column), then.kind, condition, then)
    then, otherwise = _in_one_kind(then, otherwise)
    column = sf.when(condition.column, then.column).otherwise(otherwise.column)
    return made(column, then.kind, condition, then, otherwise)


def _in_one_kind(*values: Value) -> list[Value]:
    """Bring choices to one type: integers to the widest; of others Arrow's choice is not followed."""
    kinds = {value.kind for value in values}
    require(OPAQUE not in kinds and (len(kinds) == 1 or all(map(is_integer, kinds))))
    widest = max(kinds, key=lambda kind: kind.bit_width) if len(kinds) > 1 else values[0].kind
    return [as_kind(value, widest) for value in values]


def _cast(value: Value, *, dtype: Any) -> Value:
    no_rows = nw.from_native(pa.table({"column": pa.array([], value.kind)}), eager_only=True)
    return as_kind(value, no_rows.select(nw.col("column").cast(dtype)).to_native().schema.field("column").type)


# ---- arithmetic -----------------------------------------------------------------------------------------------------


def _calculated(sign: _Binary, left: Value, right: Value) -> Value:
    left, right = aligned(left, right)
    if is_float(left.kind):
        return made(sign(left.column, right.column), left.kind, left, right)
    require(is_integer(left.kind))
    corners = [sign(one, other) for one in left.bounds for other in right.bounds]
    limits = min(corners), max(corners)
    half: int = 2 ** (left.kind.bit_width - 1)
    if -half <= limits[0] and limits[1] < half:
        return made(sign(left.column, right.column), left.kind, left, right, limits=limits)
    if left.kind == pa.int64():
        copies = 5 if sign is operator.mul else 3
        return made(_WRAPPING[sign](left.column, right.column), left.kind, left, right, copies=copies)
    wide = sign(left.column.cast("bigint"), right.column.cast("bigint"))
    wrapped = (wide + sf.lit(half)).bitwiseAND(sf.lit(2 * half - 1)) - sf.lit(half)
    return made(wrapped.cast(known_type(left.kind)), left.kind, left, right)


def _wrapped_sum(sign: _Binary, left: Column, right: Column) -> Column:
    """Add or subtract int64, upper and lower halves apart: neither can leave int64, which Spark would make an error."""
    lower = sign(left.bitwiseAND(sf.lit(_LOW)), right.bitwiseAND(sf.lit(_LOW)))
    return _of_halves(sign(sf.shiftright(left, 32), sf.shiftright(right, 32)), lower)


def _wrapped_product(left: Column, right: Column) -> Column:
    """Multiply int64 likewise; lower halves have a sign, so that their product fits."""
    left_lower, right_lower = (sf.shiftright(sf.shiftleft(side, 32), 32) for side in (left, right))
    left_upper = sf.shiftright(left, 32) - sf.shiftright(left_lower, 63)
    right_upper = sf.shiftright(right, 32) - sf.shiftright(right_lower, 63)
    across = (product.bitwiseAND(sf.lit(_LOW)) for product in (left_upper * right_lower, left_lower * right_upper))
    return _of_halves(sum(across, sf.lit(0)), left_lower * right_lower)


def _of_halves(upper: Column, lower: Column) -> Column:
    """Upper times 2 ** 32, plus lower, wrapped around."""
    return sf.shiftleft(upper + sf.shiftright(lower, 32), 32).bitwiseOR(lower.bitwiseAND(sf.lit(_LOW)))


_WRAPPING: Final[Mapping[_Binary, Callable[[Column, Column], Column]]] = {
    operator.add: partial(_wrapped_sum, operator.add),
    operator.sub: partial(_wrapped_sum, operator.sub),
    operator.mul: _wrapped_product,
}


def _negated(value: Value) -> Value:
    if is_float(value.kind):
        return made(-value.column, value.kind, value)
    require(is_integer(value.kind))
    return _calculated(operator.sub, literal(pa.scalar(0, value.kind)), value)


def _divided(value: Value, by: Value) -> Value:
    require(by.known != 0)
    if is_integer(value.kind) and is_integer(by.kind):
        divisor = sf.lit(float(by.known))
        return made(value.column.cast("double") / divisor, pa.float64(), value)
    value, by = aligned(value, by)
    require(value.kind == pa.float64())
    return made(value.column / by.column, value.kind, value, by)


def _remainder(value: Value, by: Value) -> Value:
    require(by.constant is not None and is_integer(value.kind) and is_integer(by.kind) and by.bounds[0] > 0)
    value, by = aligned(value, by)
    return made(sf.pmod(value.column, by.column), value.kind, value, by, limits=(0, by.bounds[0] - 1))


# ---- strings --------------------------------------------------------------------------------------------------------


def _length(value: Value) -> Value:
    require(pa.types.is_string(value.kind))
    return made(sf.length(value.column), pa.int32(), value, limits=(0, 2**31 - 1))


def _text_test(test: str, value: Value, text: Value) -> Value:
    require(pa.types.is_string(value.kind) and text.constant is not None and pa.types.is_string(text.kind))
    return made(getattr(value.column, test)(text.column), pa.bool_(), value)


def _contains(value: Value, text: Value, *, literal: bool) -> Value:
    pattern = text.known
    # Letters and digits are the same to every dialect of patterns.
    require(isinstance(pattern, str) and (literal or (pattern.isascii() and pattern.isalnum())))
    return _text_test("contains", value, text)


_OPERATIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "alias": lambda value, *, name: value,  # noqa: ARG005 - whoever asks for the column names it
    "__eq__": partial(_compared, operator.eq), "__ne__": partial(_compared, operator.ne),
    "__lt__": partial(_compared, operator.lt), "__le__": partial(_compared, operator.le),
    "__gt__": partial(_compared, operator.gt), "__ge__": partial(_compared, operator.ge),
    "is_between": _is_between, "is_in": _is_in,
    "__and__": partial(_combined, operator.and_), "__or__": partial(_combined, operator.or_), "__invert__": _inverted,
    "all_horizontal": partial(_horizontal, operator.and_), "any_horizontal": partial(_horizontal, operator.or_),
    "is_null": _is_null, "is_nan": _is_nan, "is_finite": _is_finite, "fill_null": _fill_null, "coalesce": _chosen,
    "when_then": _when_then, "cast": _cast,
    "__add__": partial(_calculated, operator.add), "__sub__": partial(_calculated, operator.sub),
    "__mul__": partial(_calculated, operator.mul), "__neg__": _negated,
    "__rsub__": lambda value, other: _calculated(operator.sub, other, value),
    "__truediv__": _divided, "__mod__": _remainder,
    "str.len_chars": _length, "str.contains": _contains,
    "str.starts_with": partial(_text_test, "startswith"), "str.ends_with": partial(_text_test, "endswith"),
}  # fmt: skip
"""The operations that can be written, by the names that Narwhals gives them."""
