"""The aggregates a user can ask for: count, sum, min, max, mean, count_distinct and top_k, as frozen values.

They follow SQL: nulls are left out, and the sum, least, greatest or mean of nothing is null. A NaN makes a sum or mean
NaN; min, max and top_k prefer any number to it; count_distinct counts all NaNs as one value. Zero is zero: -0.0 and
0.0 are the same value.

Each can be computed in parts that are merged later, and the result never depends on the parts: integer sums are exact
(and refused beyond int64), float sums are exact and rounded once, as by math.fsum.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slackwater.errors import PlanError, message


class Function(StrEnum):
    """What an aggregate computes."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    COUNT_DISTINCT = "count_distinct"
    TOP_K = "top_k"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of one column (of whole rows, for a count without a column)."""

    function: Function
    column: str | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.column, str) or (self.column is None and self.function is Function.COUNT)):
            hint = f'name the column: sw.{self.function}("x")'
            raise PlanError(message(f"{self.function} needs a column", {"got": repr(self.column)}, hint))

    def __str__(self) -> str:
        arguments = [argument for argument in (self.column, self.k) if argument is not None]
        return f"{self.function}({', '.join(str(argument) for argument in arguments)})"


def count(column: str | None = None) -> Aggregate:
    """Count rows; with a column, the rows in which it is not null.

    >>> str(count()), str(count("x"))
    ('count()', 'count(x)')
    """
    return Aggregate(Function.COUNT, column)


def sum(column: str) -> Aggregate:  # noqa: A001 - users write sw.sum("x"), as in SQL
    """Add up a column of numbers: integers to int64, floats to float64, decimals to decimals of 38 digits.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": x} for at, x in ((1, 5), (2, 1), (3, 2))], time="at").assume_ordered()
    >>> rows.tumbling(10).aggregate(x=sw.sum("x")).run().table["x"].to_pylist()
    [8]
    """
    return Aggregate(Function.SUM, column)


def min(column: str) -> Aggregate:  # noqa: A001 - users write sw.min("x"), as in SQL
    """Find the least value.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": x} for at, x in ((1, 5), (2, 1), (3, 2))], time="at").assume_ordered()
    >>> rows.tumbling(10).aggregate(x=sw.min("x")).run().table["x"].to_pylist()
    [1]
    """
    return Aggregate(Function.MIN, column)


def max(column: str) -> Aggregate:  # noqa: A001 - users write sw.max("x"), as in SQL
    """Find the greatest value.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": x} for at, x in ((1, 5), (2, 1), (3, 2))], time="at").assume_ordered()
    >>> rows.tumbling(10).aggregate(x=sw.max("x")).run().table["x"].to_pylist()
    [5]
    """
    return Aggregate(Function.MAX, column)


def mean(column: str) -> Aggregate:
    """Average a column of numbers, as float64.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": x} for at, x in ((1, 5), (2, 1), (3, 2))], time="at").assume_ordered()
    >>> rows.tumbling(10).aggregate(x=sw.mean("x")).run().table["x"].to_pylist()
    [2.6666666666666665]
    """
    return Aggregate(Function.MEAN, column)


def count_distinct(column: str) -> Aggregate:
    """Count the different values of a column. Cost: every different value is held while its window is open.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": at, "x": x} for at, x in ((1, 5), (2, 1), (3, 2))], time="at").assume_ordered()
    >>> rows.tumbling(10).aggregate(x=sw.count_distinct("x")).run().table["x"].to_pylist()
    [3]
    """
    return Aggregate(Function.COUNT_DISTINCT, column)


def top_k(column: str, k: int) -> Aggregate:
    """Keep the k largest values, greatest first, as a list; fewer where there are fewer. Equal values all count.

    >>> str(top_k("x", 3))
    'top_k(x, 3)'
    """
    if not isinstance(k, int) or k < 1:
        raise PlanError(message("top_k keeps at least one value", {"column": column, "k": k}))
    return Aggregate(Function.TOP_K, column, k)
