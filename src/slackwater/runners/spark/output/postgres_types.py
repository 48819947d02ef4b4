"""Columns in the types of PostgreSQL: what ours become, and which types of a table hold every value of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as st

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES: Final[Mapping[type[st.DataType], str]] = {
    st.BooleanType: "boolean",
    st.ByteType: "smallint",
    st.ShortType: "smallint",
    st.IntegerType: "integer",
    st.LongType: "bigint",
    st.FloatType: "real",
    st.DoubleType: "double precision",
    st.StringType: "text",
    st.BinaryType: "bytea",
    st.DateType: "date",
    st.TimestampType: "timestamp with time zone",
    st.TimestampNTZType: "timestamp without time zone",
}
"""By the names that PostgreSQL shows."""

_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "smallint": frozenset({"integer", "bigint", "numeric"}),
    "integer": frozenset({"bigint", "numeric"}),
    "bigint": frozenset({"numeric"}),
    "real": frozenset({"double precision"}),
    "text": frozenset({"character varying", "citext"}),
}
"""Types to which every value of another goes over as it is. Those that would round, cut off or shift are not here."""

_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")


def postgres_type(kind: st.DataType) -> str | None:
    """The type of a column, as PostgreSQL shows it; None if it has none that keeps all values.

    >>> postgres_type(st.DecimalType(9, 2)), postgres_type(st.ArrayType(st.LongType())), postgres_type(st.NullType())
    ('numeric(9,2)', 'bigint[]', None)
    """
    if isinstance(kind, st.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, st.ArrayType):
        element = _TYPES.get(type(kind.elementType))
        return None if element is None else f"{element}[]"
    return _TYPES.get(type(kind))


def holds(found: str, wanted: str) -> bool:
    """Whether a column of one type takes every value of another, as it is.

    >>> holds("numeric(12,2)", "numeric(9,2)"), holds("numeric(9,3)", "numeric(9,2)"), holds("integer", "bigint")
    (True, False, False)
    """
    if found == wanted or found in _WIDER.get(wanted, ()):
        return True
    digits, ours = _NUMERIC.fullmatch(found), _NUMERIC.fullmatch(wanted)
    if ours is None:
        return False
    if digits is None:
        return found == "numeric"
    (all_digits, behind), (all_ours, behind_ours) = (map(int, one.groups()) for one in (digits, ours))
    return behind >= behind_ours and all_digits - behind >= all_ours - behind_ours
