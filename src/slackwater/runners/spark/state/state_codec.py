"""Operator states as plain forms and columns: what is stored of a state, and how it is made of it again.

A state is a frozen value: numbers, texts, bytes, tuples, sets, mappings, columns, and the classes that operators name
as theirs (`Operator.state_types`). Its form is JSON: whole numbers and texts as they are, tuples as lists, all else as
objects that name what they are. Columns stand in it by the number of their segment; small ones are written out. Rows
that were spilled stand by their number, too, and are not read with the state. Only
classes that the operators of a plan name are ever made, so that stored bytes cannot run anything; a value of another
type is refused, not guessed at.

Changing such a class changes what is stored: raise `segments.VERSION`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import fields, is_dataclass
from functools import partial
from reprlib import repr as shortened
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from slackwater.columns.spillway import SpilledRows
from slackwater.errors import PlanError, RunError, message
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

NumbersOf: TypeAlias = "Callable[[Leaf | SpilledRows], Numbers]"
"""Gives columns, and rows that were spilled, the numbers of the segments in which they are stored."""

_SMALL: Final = 1_024
"""Columns of fewer bytes are written out: a segment costs more than they do."""


class StateCodec:
    """Writes and reads the states of operators, made of the classes that these name as theirs.

    >>> from slackwater.operators.stream_progress import StreamProgress
    >>> codec = StateCodec([StreamProgress])
    >>> form = codec.form_of((1, StreamProgress(punctuated=3, reached=5), b"tide"), numbers_of=id)
    >>> form[1:]
    [{'class': 'StreamProgress', 'fields': {'punctuated': 3, 'reached': 5}}, {'bytes': 'dGlkZQ=='}]
    >>> codec.value_of(form, lambda numbers, read: None)
    (1, StreamProgress(punctuated=3, reached=5), b'tide')
    """

    def __init__(self, classes: Iterable[type[Any]]) -> None:
        self._classes: dict[str, type[Any]] = {}
        for one in classes:
            assert self._classes.setdefault(one.__name__, one) is one, f"two classes of states are called {one}"

    def form_of(self, value: Any, numbers_of: NumbersOf) -> Form:
        """Write a state, or a part of one, in plain values; `numbers_of` gives columns the numbers of segments."""
        # By the very type: what derives from one of these would come back as something less.
        kind = type(value)
        if kind in {NoneType, bool, int, str}:
            return value
        if kind is tuple:
            return [self.form_of(part, numbers_of) for part in value]
        if is_leaf(value):
            kept = {"segments": list(numbers_of(value))} if value.nbytes >= _SMALL else {"written": text_of(value)}
            return {**kept, **description_of(value)}
        if kind is SpilledRows:
            return {"spilled": numbers_of(value)[0]}
        if self._classes.get(kind.__name__) is kind:
            named = {name: self.form_of(getattr(value, name), numbers_of) for name in _fields(kind)}
            return {"class": kind.__name__, "fields": named}
        return self._spelled_form(value, numbers_of)

    def _spelled_form(self, value: Any, numbers_of: NumbersOf) -> Form:
        kind = type(value)
        if kind is float:
            return {"float": repr(value)}  # JSON knows neither NaN nor infinities
        if kind is bytes:
            return {"bytes": b64encode(value).decode()}
        if kind is frozenset:
            # In an order that does not change from process to process.
            return {"set": sorted((self.form_of(part, numbers_of) for part in value), key=str)}
        if kind is dict:
            return {"map": [self.form_of(pair, numbers_of) for pair in value.items()]}
        facts = {"value": shortened(value), "type": f"{kind.__module__}.{kind.__qualname__}"}
        raise PlanError(message("the Spark runner cannot store the state of this step", facts))

    def value_of(
        self,
        form: Form,
        leaf_of: Callable[[Numbers, ReadLeaf], Leaf],
        spilled_of: Callable[[int], SpilledRows] | None = None,
    ) -> Any:
        """Make the value again; `leaf_of` gives the columns of segments, read from the rows stored for them.

        `spilled_of` gives what stands for rows that were spilled.
        """

        def values(parts: Iterable[Form]) -> list[Any]:
            return [self.value_of(part, leaf_of, spilled_of) for part in parts]

        match form:
            case None | bool() | int() | str():
                return form
            case list():
                return tuple(values(form))
            case {"segments": [int(), *_] as numbers, **described} if all(type(number) is int for number in numbers):
                return leaf_of(tuple(numbers), partial(_made, form, leaf_of_rows, described))
            case {"spilled": int(number)} if type(number) is int and spilled_of is not None:
                return spilled_of(number)
            case {"class": str(name), "fields": dict(named)}:
                known, parts = self._class_of(name, named), values(named.values())
                return _made(form, known, **dict(zip(named, parts, strict=True)))
        return _spelled_value(form, values)

    def _class_of(self, name: str, named: dict[str, Form]) -> type[Any]:
        known = self._classes.get(name)
        if known is None or set(_fields(known)) != set(named):
            facts = {"state": name, "stored": ", ".join(named), "known": "no such state"}
            facts |= {} if known is None else {"known": ", ".join(_fields(known))}
            hint = "go on with the version of slackwater that wrote it"
            raise RunError(message("stored state does not fit this library", facts, hint))
        return known


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


def _fields(known: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(known) if field.init) if is_dataclass(known) else known._fields
