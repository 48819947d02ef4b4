"""Operator states as plain forms and columns: what is stored of a state, and how it is made of it again.

A state is a frozen value: numbers, tuples, the classes listed here, and columns. Its form is JSON: numbers and texts as
they are, tuples as lists, classes by their name and fields. Columns stand in it by the number of their segment; those
of a few values are written out. Only classes of the list are ever made, so that stored bytes cannot run anything.

To store another operator: add the classes of its state to the list. Changing a class of the list changes what is
stored: raise `segments.VERSION`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.errors import PlanError, RunError, message
from slackwater.kernels.impatience_sort import SorterState
from slackwater.kernels.pairs import Piece
from slackwater.operators.punctuate import PunctuateState
from slackwater.operators.row_store import RowStoreState
from slackwater.operators.sort import SortState
from slackwater.operators.stream_progress import StreamProgress

if TYPE_CHECKING:
    from collections.abc import Callable

Form: TypeAlias = Any
"""A value that JSON can say."""

Leaf: TypeAlias = "np.ndarray[Any, Any] | pa.RecordBatch"
"""Columns that are stored as a segment of their own. They are never changed, so that the same object is the same."""

ReadLeaf: TypeAlias = "Callable[[pa.RecordBatch], Leaf]"
"""Makes columns of the rows that were stored for them."""

_CLASSES: dict[str, type[Any]] = {
    one.__name__: one for one in (Piece, PunctuateState, RowStoreState, SorterState, SortState, StreamProgress)
}

_FEW: Final = 128
"""Columns of fewer values are written out: a segment costs more than they do."""


def form_of(value: object, number_of: Callable[[Leaf], int]) -> Form:
    """Say a state, or a part of one, in plain values; `number_of` gives each of its columns a number.

    >>> form_of(StreamProgress(punctuated=3, reached=5), number_of=id)
    {'class': 'StreamProgress', 'fields': {'punctuated': 3, 'reached': 5}}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case np.ndarray() if len(value) < _FEW:
            return {"values": value.tolist(), "type": value.dtype.name}
        case np.ndarray():
            return {"column": number_of(value)}
        case pa.RecordBatch():
            return {"rows": number_of(value)}
        case _ if _CLASSES.get(type(value).__name__) is type(value):
            named = {name: form_of(getattr(value, name), number_of) for name in _fields(type(value))}
            return {"class": type(value).__name__, "fields": named}
        case tuple():
            return [form_of(part, number_of) for part in value]
    facts = {"value": type(value).__name__, "known": ", ".join(_CLASSES)}
    raise PlanError(message("the Spark runner cannot store the state of this step yet", facts))


def value_of(form: Form, leaf_of: Callable[[int, ReadLeaf], Leaf]) -> Any:
    """Make the value again; `leaf_of` gives the columns of a number, read from the rows that were stored for them."""
    match form:
        case {"values": values, "type": kind}:
            return np.array(values, dtype=kind)
        case {"column": number}:
            return leaf_of(number, _column_of)
        case {"rows": number}:
            return leaf_of(number, _same)
        case {"class": name, "fields": named}:
            return _made(name, {field: value_of(part, leaf_of) for field, part in named.items()})
        case list():
            return tuple(value_of(part, leaf_of) for part in form)
    return form


def rows_of(leaf: Leaf) -> pa.RecordBatch:
    """The rows that are stored for columns. Copies nothing."""
    return leaf if isinstance(leaf, pa.RecordBatch) else pa.record_batch([pa.array(leaf)], names=["column"])


def _column_of(rows: pa.RecordBatch) -> Leaf:
    return rows.column(0).to_numpy(zero_copy_only=False)  # without a copy for numbers; Arrow packs booleans


def _same(rows: pa.RecordBatch) -> Leaf:
    return rows


def _made(name: str, named: dict[str, Any]) -> Any:
    known = _CLASSES.get(name)
    if known is None or set(_fields(known)) != set(named):
        facts = {"state": name, "stored": ", ".join(named), "known": "no such state"}
        facts |= {} if known is None else {"known": ", ".join(_fields(known))}
        hint = "go on with the version of slackwater that wrote it"
        raise RunError(message("stored state does not fit this library", facts, hint))
    return known(**named)


def _fields(known: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(known)) if is_dataclass(known) else known._fields
