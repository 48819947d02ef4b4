"""Turns the aggregates a user named into folds over the columns of a stream, or refuses what cannot be.

Everything that can be wrong is found here, when a pipeline is built: unknown columns, sums of words, the least of a
type that has no order.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.operators.aggregate.folds import (
    ColumnFold,
    CountFold,
    DistinctFold,
    FloatSumFold,
    MemberFold,
    TopFold,
    ValueFold,
)
from slackwater.operators.aggregate.group_keys import comparable_type, in_own_type, key_fields
from slackwater.policies.aggregates import Function

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.operators.aggregate.folds import Fold
    from slackwater.policies.aggregates import Aggregate

_WIDEST_SUMMED = 57
"""Digits of a decimal that can be summed: 10**19 rows of them, more than there can be, fit the 76 of the state."""


@dataclass(frozen=True)
class Recipe:
    """One aggregate: the folds it needs, and the column their results make."""

    aggregate: Aggregate
    folds: tuple[Fold, ...]
    answer: pa.Field

    def combine(self, results: Sequence[pa.Array]) -> pa.Array:
        """Make the answers from the results of the folds; ArrowInvalid if one does not fit its type."""
        if self.aggregate.function == Function.MEAN:
            total, values = results
            # No value, no mean: the sum is null then, so the zero is never divided by.
            return pc.divide(total.cast(pa.float64()), values.cast(pa.float64()))
        return in_own_type(results[0], self.answer.type)


@dataclass(frozen=True)
class Grouping:
    """What rows are grouped by, beside their interval, and what is computed of each group."""

    keys: tuple[pa.Field, ...]
    recipes: tuple[Recipe, ...]

    @classmethod
    def of(cls, payload: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Aggregate], step: str) -> Grouping:
        """Look up all columns and check their types.

        >>> from slackwater.policies.aggregates import count
        >>> Grouping.of(pa.schema({"k": pa.string()}), ["k"], {"n": count()}, "aggregate").payload.names
        ['k', 'n']
        """
        if not aggregates:
            raise PlanError(message(f"{step} was given no aggregates", hint="name an aggregate, such as n=count()"))
        found = key_fields(payload, keys, step)
        for name in aggregates:
            if name in keys:
                raise SchemaMismatch.clash(step, name, "give the aggregate another name than the key")
        return cls(found, tuple(_recipe(payload, name, what, step) for name, what in aggregates.items()))

    @property
    def payload(self) -> pa.Schema:
        """The columns that come out: keys, then aggregates."""
        return pa.schema([*self.keys, *(recipe.answer for recipe in self.recipes)])

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The folds of all aggregates, one after the other."""
        return tuple(fold for recipe in self.recipes for fold in recipe.folds)

    @property
    def column_folds(self) -> tuple[ColumnFold, ...]:
        """Those with one value per group."""
        return tuple(fold for fold in self.folds if isinstance(fold, ColumnFold))

    @property
    def member_folds(self) -> tuple[MemberFold, ...]:
        """Those with any number of members per group."""
        return tuple(fold for fold in self.folds if isinstance(fold, MemberFold))


def _recipe(payload: pa.Schema, name: str, aggregate: Aggregate, step: str) -> Recipe:
    column = aggregate.column
    if column is None:
        return Recipe(aggregate, (CountFold(None),), pa.field(name, pa.int64()))
    if column not in payload.names:
        raise SchemaMismatch.missing(step, column, payload.names)
    folds, answer = _folds(aggregate, column, payload.field(column).type, f"{step}, {aggregate},")
    return Recipe(aggregate, folds, pa.field(name, answer))


def _folds(aggregate: Aggregate, column: str, kind: pa.DataType, step: str) -> tuple[tuple[Fold, ...], pa.DataType]:
    """The folds of an aggregate over a column of this type, and the type of its answer."""
    # A dictionary is a way to store values, not a kind of value.
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    match aggregate.function:
        case Function.COUNT:
            return (CountFold(column),), pa.int64()
        case Function.SUM:
            fold, answer = _sum(column, value, step)
            return (fold,), answer
        case Function.MEAN:
            return (_sum(column, value, step)[0], CountFold(column)), pa.float64()
        case Function.MIN | Function.MAX:
            _refuse_unless_ordered(column, value, step)
            return (ValueFold(column, aggregate.function.value, comparable_type(value)),), value
        case Function.COUNT_DISTINCT:
            key_fields(pa.schema({column: value}), [column], step)
            return (DistinctFold(column),), pa.int64()
        case Function.TOP_K:
            assert aggregate.k is not None
            _refuse_unless_ordered(column, value, step)
            return (TopFold(column, aggregate.k, value),), pa.list_(value)


def _sum(column: str, kind: pa.DataType, step: str) -> tuple[Fold, pa.DataType]:
    """The fold that sums a column, and the type of the sum."""
    if pa.types.is_integer(kind):
        # Wider than any sum of int64 or uint64, so that only the final sum need be checked.
        return ValueFold(column, "sum", pa.decimal128(38, 0)), pa.int64()
    if pa.types.is_floating(kind):
        return FloatSumFold(column), pa.float64()
    if pa.types.is_decimal(kind) and kind.precision <= _WIDEST_SUMMED:
        wide = pa.decimal256(76, kind.scale)
        return ValueFold(column, "sum", wide), wide if pa.types.is_decimal256(kind) else pa.decimal128(38, kind.scale)
    wanted = f"integers, floats, or decimals of at most {_WIDEST_SUMMED} digits"
    raise SchemaMismatch.wrong_type(step, column, kind, wanted, "cast the column with select() first")


def _refuse_unless_ordered(column: str, kind: pa.DataType, step: str) -> None:
    if not _has_order(kind):
        wanted = "a type whose values Arrow can order"
        raise SchemaMismatch.wrong_type(step, column, kind, wanted, "cast the column with select() first")


@functools.lru_cache(maxsize=128)
def _has_order(kind: pa.DataType) -> bool:
    # Arrow itself is asked, once for each type: the answer takes it longer than all else that is done for a recipe.
    try:
        values = pa.table({"group": pa.array([], pa.int64()), "value": pa.array([], comparable_type(kind))})
        pc.sort_indices(values, sort_keys=[("value", "descending")])
        values.group_by("group", use_threads=False).aggregate([("value", "max")])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True
