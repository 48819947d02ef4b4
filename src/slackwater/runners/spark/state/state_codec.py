"""Operator states as plain forms and columns: what is stored of a state, and how it is made of it again.

A state is a frozen value: numbers, texts, bytes, tuples, sets, mappings, the classes listed here, and columns. Its form
is JSON: whole numbers and texts as they are, tuples as lists, all else as objects that say what they are. Columns stand
in it by the number of their segment; small ones are written out. Only classes of the list are ever made, so that stored
bytes cannot run anything; a value of another type is refused, not guessed at.

To store another operator: add the classes of its state to the list. Changing a class of the list changes what is
stored: raise `segments.VERSION`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import fields, is_dataclass
from functools import partial
from reprlib import repr as shortened
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from slackwater.columns.row_store import RowStoreState
from slackwater.errors import PlanError, RunError, message
from slackwater.events.batch import EventBatch
from slackwater.kernels.sorting.impatience_sort import SorterState
from slackwater.kernels.sorting.pairs import Piece
from slackwater.operators.aggregate.aggregate import AggregateState
from slackwater.operators.aggregate.banded import BandState
from slackwater.operators.aggregate.cut_at_changes import CutAtChangesState
from slackwater.operators.aggregate.early import EarlyAggregateState
from slackwater.operators.aggregate.map_windows import MapWindowsState
from slackwater.operators.aggregate.partials import PartialState
from slackwater.operators.assume_keyed import KeyedState
from slackwater.operators.deduplicate.deduplicate import DeduplicateState
from slackwater.operators.deduplicate.known_keys import KnownState
from slackwater.operators.deduplicate.latest_rows import PieceState
from slackwater.operators.late_changes import LateChangesState
from slackwater.operators.match.matching_operator import MatchingState
from slackwater.operators.punctuate import PunctuateState
from slackwater.operators.replicas.by_column import ByColumnState
from slackwater.operators.replicas.compare import CompareState
from slackwater.operators.replicas.event_index import EventIndexState
from slackwater.operators.replicas.left_out import LeftOut
from slackwater.operators.replicas.multiset import MultisetState
from slackwater.operators.replicas.ordered_replicas import OrderedState
from slackwater.operators.replicas.replica_merge import Replica
from slackwater.operators.replicas.revised_replicas import RevisedState
from slackwater.operators.replicas.settle import SettleState
from slackwater.operators.sort import SortState
from slackwater.operators.stream_progress import StreamProgress
from slackwater.operators.union import UnionState
from slackwater.operators.waiting_room import WaitingRoomState
from slackwater.runners.spark.shard.idle_sources import SourceActivity
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.spark.state.stored_columns import description_of, is_leaf, leaf_of_rows, leaf_of_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from slackwater.runners.spark.state.stored_columns import Leaf

Form: TypeAlias = Any
"""A value that JSON can say."""

Numbers: TypeAlias = "tuple[int, ...]"
"""The segments that columns are stored in: one, or several that follow each other."""

ReadLeaf: TypeAlias = "Callable[[pa.RecordBatch], Leaf]"
"""Makes columns of the rows that were stored for them."""

_CLASSES: Final[dict[str, type[Any]]] = {
    one.__name__: one
    for one in (
        AggregateState, BandState, ByColumnState, SettleState, CompareState, CutAtChangesState,
        DeduplicateState, EarlyAggregateState, EventBatch, EventIndexState, LateChangesState, KeyedState,
        KnownState, LeftOut, SourceActivity,
        MapWindowsState, MatchingState, MultisetState, OrderedState, PartialState, Piece, PieceState, PunctuateState,
        Replica, RevisedState, RowStoreState, SorterState, SortState, StreamProgress, Totals, UnionState,
        WaitingRoomState,
    )
}  # fmt: skip

_SMALL: Final = 1_024
"""Columns of fewer bytes are written out: a segment costs more than they do."""


def form_of(value: Any, numbers_of: Callable[[Leaf], Numbers]) -> Form:
    """Say a state, or a part of one, in plain values; `numbers_of` gives each of its columns the numbers of segments.

    >>> form_of(StreamProgress(punctuated=3, reached=5), numbers_of=id)
    {'class': 'StreamProgress', 'fields': {'punctuated': 3, 'reached': 5}}
    >>> form_of((1, None, b"tide"), numbers_of=id)
    [1, None, {'bytes': 'dGlkZQ=='}]
    """
    # By the very type: what derives from one of these would come back as something less.
    kind = type(value)
    if kind in {NoneType, bool, int, str}:
        return value
    if kind is tuple:
        return [form_of(part, numbers_of) for part in value]
    if is_leaf(value):
        kept = {"segments": list(numbers_of(value))} if value.nbytes >= _SMALL else {"written": text_of(value)}
        return {**kept, **description_of(value)}
    if _CLASSES.get(kind.__name__) is kind:
        named = {name: form_of(getattr(value, name), numbers_of) for name in _fields(kind)}
        return {"class": kind.__name__, "fields": named}
    return _spelled_form(value, numbers_of)


def _spelled_form(value: Any, numbers_of: Callable[[Leaf], Numbers]) -> Form:
    kind = type(value)
    if kind is float:
        return {"float": repr(value)}  # JSON knows neither NaN nor infinities
    if kind is bytes:
        return {"bytes": b64encode(value).decode()}
    if kind is frozenset:
        # In an order that does not change from process to process.
        return {"set": sorted((form_of(part, numbers_of) for part in value), key=str)}
    if kind is dict:
        return {"map": [form_of(pair, numbers_of) for pair in value.items()]}
    facts = {"value": shortened(value), "type": f"{kind.__module__}.{kind.__qualname__}"}
    raise PlanError(message("the Spark runner cannot store the state of this step", facts))


def value_of(form: Form, leaf_of: Callable[[Numbers, ReadLeaf], Leaf]) -> Any:
    """Make the value again; `leaf_of` gives the columns of segments, read from the rows that were stored for them.

    >>> value_of([1, {"class": "StreamProgress", "fields": {"punctuated": 3, "reached": 5}}], lambda number, read: None)
    (1, StreamProgress(punctuated=3, reached=5))
    """

    def values(parts: Iterable[Form]) -> list[Any]:
        return [value_of(part, leaf_of) for part in parts]

    match form:
        case None | bool() | int() | str():
            return form
        case list():
            return tuple(values(form))
        case {"segments": [int(), *_] as numbers, **described} if all(type(number) is int for number in numbers):
            return leaf_of(tuple(numbers), partial(_made, form, leaf_of_rows, described))
        case {"class": str(name), "fields": dict(named)}:
            known, parts = _class_of(name, named), values(named.values())
            return _made(form, known, **dict(zip(named, parts, strict=True)))
    return _spelled_value(form, values)


def _spelled_value(form: Form, values: Callable[[Iterable[Form]], list[Any]]) -> Any:
    match form:
        case {"written": str(text), **described}:
            return _made(form, leaf_of_text, described, text)
        case {"float": str(text)}:
            return _made(form, float, text)
        case {"bytes": str(text)}:
            return _made(form, b64decode, text, validate=True)
        case {"set": list(parts)}:
            return _made(form, frozenset, values(parts))
        case {"map": list(pairs)}:
            return _made(form, dict, values(pairs))
    raise _unreadable(form, "nothing is stored in this form")


def _made(form: Form, make: Callable[..., Any], /, *parts: Any, **named: Any) -> Any:
    """Make a value of its parts; whatever it has against them, they are not what was stored."""
    try:
        return make(*parts, **named)
    except Exception as error:
        raise _unreadable(form, f"{type(error).__name__}: {error}") from error


def _unreadable(form: Form, cause: str) -> RunError:
    hint = "restore the checkpoint from a copy, or start anew with another one"
    return RunError(message("stored state cannot be read", {"form": shortened(form), "cause": cause}, hint))


def _class_of(name: str, named: dict[str, Form]) -> type[Any]:
    known = _CLASSES.get(name)
    if known is None or set(_fields(known)) != set(named):
        facts = {"state": name, "stored": ", ".join(named), "known": "no such state"}
        facts |= {} if known is None else {"known": ", ".join(_fields(known))}
        hint = "go on with the version of slackwater that wrote it"
        raise RunError(message("stored state does not fit this library", facts, hint))
    return known


def _fields(known: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(known) if field.init) if is_dataclass(known) else known._fields
