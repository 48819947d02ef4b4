"""Tables of changes: inserts, adjusts, removals and punctuations as rows of a user's table, read and shown.

A column of words names what each row is:
    insert     adds the event: its payload lasts from time to until
    adjust     changes the end of an event from the one in the column of ends before to the one in until
    remove     takes an event away; the adjust whose end is the start, so that until is not looked at
    punctuate  states that no later row concerns time before time; no other column is looked at

Words may be written in any letter case. A null end, or end before, means "not known yet". Where events happen at one
time, there are no columns of ends, and no adjusts.

Invariant: what `ChangeLog` shows, `ChangeSchema` reads back as the same elements, punctuations apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import BackwardInterval, BadElement, BadTime, SchemaMismatch, message
from slackwater.events.batch import EventBatch
from slackwater.events.gather import keep, no_columns
from slackwater.events.kinds import Kind
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.events.shown_values import show_row, show_value
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.batch import Kinds, Mask, Times

CHANGE: Final = "change"
"""What the column of words is called, unless the user chooses another name."""

WORDS: Final = ("insert", "adjust", "punctuate", "remove")
"""What a row may be; the first three at the place of their Kind."""

SEQUENCE: Final = "sequence"
"""What the column is called that puts the rows of a log in order, where a sink keeps none."""

_REMOVE: Final = 3
_INSERT, _ADJUST, _PUNCTUATE = (int(kind) for kind in (Kind.INSERT, Kind.ADJUST, Kind.PUNCTUATE))
_UNKNOWN: Final = -1


def concerned_from(batch: EventBatch) -> Times:
    """The earliest time that each element concerns: an adjust the lesser of its two ends, all others their start."""
    if batch.prior_end is None:
        return batch.start
    return np.where(batch.kinds() == _ADJUST, np.minimum(batch.prior_end, batch.ends()), batch.start)


def column_before(until: str) -> str:
    """What the column of ends before a change is called, unless the user chooses another name."""
    return f"{until}_before"


@dataclass(frozen=True)
class ChangeSchema(EventSchema):
    """The columns of events, and the two of a table of changes that show what becomes of them.

    >>> table = pa.record_batch({"change": ["insert", "remove"], "at": [3, 3], "x": ["a", "a"]})
    >>> schema = ChangeSchema.of_changes(table.schema, time="at")
    >>> batch = schema.read(table, where="source")
    >>> batch.kinds().tolist(), batch.ends().tolist(), schema.columns
    ([0, 1], [4, 3], ('at', 'x'))
    """

    change: str
    prior: TimeColumn | None
    punctuated: bool = True
    """Whether rows may be punctuations."""

    table: pa.Schema = field(default_factory=lambda: pa.schema([]), compare=False)
    """All columns of the rows."""

    @property
    def read_from(self) -> pa.Schema:
        """The columns of the rows that `read` takes."""
        return self.table

    @classmethod
    def of_changes(
        cls,
        schema: pa.Schema,
        time: str,
        until: str | None = None,
        prior: str | None = None,
        kind: str = CHANGE,
        sequence: str | None = None,
        *,
        punctuated: bool = True,
        step: str = "changes",
    ) -> ChangeSchema:
        """Split the schema of a table of changes into what happened and what it happened to."""
        before = _prior_column(schema, time, until, prior, step)
        if kind not in schema.names:
            raise SchemaMismatch.missing(step, kind, schema.names)
        if not _holds_words(schema.field(kind).type):
            hint = f"its values are {', '.join(WORDS)}"
            raise SchemaMismatch.wrong_type(step, kind, schema.field(kind).type, "a column of words", hint)
        if sequence is not None and sequence not in schema.names:
            raise SchemaMismatch.missing(step, sequence, schema.names)
        named = (time, until, None if before is None else before.name, kind, sequence)
        roles = [name for name in named if name is not None]
        twice = next((name for name in roles if roles.count(name) > 1), None)
        if twice is not None:
            raise SchemaMismatch.clash(step, twice, "name a column of its own for each role")
        special = {kind, sequence} if before is None else {kind, sequence, before.name}
        events = EventSchema.of(pa.schema([one for one in schema if one.name not in special]), time, until, step)
        return cls(events.payload, events.time, events.until, events.columns, kind, before, punctuated, schema)

    def read(self, table: pa.RecordBatch, where: str) -> EventBatch:
        """Make elements of a user's rows, in their order; refuse the first that is no change."""
        words = self._words(table, where)
        start = self.time.read(table.column(self.time.name), where)
        self._refuse_words(words, table, where)
        data = words != _PUNCTUATE
        if (start[data] == FOREVER).any():
            raise BadTime.overflow(where, self.time.name, "reading an event at the very end of int64")
        adjusted = (words == _ADJUST) | (words == _REMOVE)
        end, prior = self._ends(table, start, words, where)
        backward = data & (end < start) if prior is None else data & ((end < start) | (adjusted & (prior < start)))
        if backward.any():
            row = int(np.flatnonzero(backward)[0])
            raise BackwardInterval.of(where, f"row {row}: {show_row(table, row)}")
        plain = bool(data.all()) and not bool(adjusted.any())
        kinds: Kinds | None = None if plain else np.where(adjusted, _ADJUST, words).astype(np.int8)
        payload = self._payload(table, None if data.all() else data)
        points = self.until is None and not bool(adjusted.any())
        return EventBatch(payload, start, None if points else end, kinds, prior)

    def _words(self, table: pa.RecordBatch, where: str) -> NDArray[np.int8]:
        """The place among WORDS of what each row is."""
        column = table.column(self.change)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        places = np.array([_place(word) for word in column.dictionary.to_pylist()] or [_UNKNOWN], dtype=np.int8)
        numbers = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        words = places[numbers]
        if column.null_count:
            words[column.is_null().to_numpy(zero_copy_only=False)] = _UNKNOWN
        if (words == _UNKNOWN).any():
            row = int(np.flatnonzero(words == _UNKNOWN)[0])
            raise self._refused(table, row, where, ", ".join(WORDS), "write one of these words, in any letter case")
        return words

    def _refuse_words(self, words: NDArray[np.int8], table: pa.RecordBatch, where: str) -> None:
        """Refuse what was not declared: an end that changes where there are no ends, or a punctuation."""
        if self.until is None and (words == _ADJUST).any():
            row = int(np.flatnonzero(words == _ADJUST)[0])
            hint = "name the columns of ends, until= and prior=; or write remove"
            raise self._refused(table, row, where, "events that happen at one time, and have no end to adjust", hint)
        if not self.punctuated and (words == _PUNCTUATE).any():
            row = int(np.flatnonzero(words == _PUNCTUATE)[0])
            raise self._refused(table, row, where, "no punctuations", "leave punctuated=False out")

    def _refused(self, table: pa.RecordBatch, row: int, where: str, declared: str, hint: str) -> BadElement:
        came = show_value(table.column(self.change)[row])
        facts = {"row": f"{row}: {show_row(table, row)}", "column": self.change, "declared": declared, "came": came}
        return BadElement(message(f"{where} got a row that is not a valid change", facts, hint))

    def _ends(
        self, table: pa.RecordBatch, start: Times, words: NDArray[np.int8], where: str
    ) -> tuple[Times, Times | None]:
        """The end of each element, and the end before; None where nothing was adjusted."""
        removed, punctuated = words == _REMOVE, words == _PUNCTUATE
        if self.until is None or self.prior is None:
            end = start + 1
            prior = end
        else:
            end = self.until.read_or_forever(table.column(self.until.name), where)
            prior = self.prior.read_or_forever(table.column(self.prior.name), where)
        if (removed | punctuated).any():
            end = np.where(removed | punctuated, start, end)
        return end, prior if (removed | (words == _ADJUST)).any() else None

    def _payload(self, table: pa.RecordBatch, data: Mask | None) -> pa.RecordBatch:
        if not len(self.payload):
            return no_columns(table.num_rows if data is None else int(data.sum()))
        payload = table.select(self.payload.names)
        return payload if data is None else keep(payload, data)


def _place(word: Any) -> int:
    lower = word.lower() if isinstance(word, str) else word
    return WORDS.index(lower) if lower in WORDS else _UNKNOWN


def _holds_words(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _holds_words(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _prior_column(schema: pa.Schema, time: str, until: str | None, prior: str | None, step: str) -> TimeColumn | None:
    """The column of ends before a change; None for events that happen at one time."""
    if until is None:
        if prior is not None:
            facts, hint = {"prior": prior}, "name the column of ends: until=..."
            raise SchemaMismatch(message(f"{step} was given prior= without until=", facts, hint))
        return None
    name = column_before(until) if prior is None else prior
    if name not in schema.names:
        raise SchemaMismatch.missing(step, name, schema.names)
    column, start = TimeColumn.of(schema, name, step), TimeColumn.of(schema, time, step)
    if column.calendar != start.calendar:
        wanted = f"the same kind of time as {time!r} ({start.type})"
        raise SchemaMismatch.wrong_type(step, name, column.type, wanted)
    return column


@dataclass(frozen=True)
class ChangeLog:
    """How a stream of changes is shown: the columns of its events, what each row is, and the end before it.

    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "until": pa.int64(), "x": pa.string()}), "at", "until")
    >>> ChangeLog(schema).shown.names
    ['at', 'until', 'x', 'change', 'until_before']
    """

    events: EventSchema
    numbered: bool = False
    """Whether rows have numbers that say in which order they are applied."""

    @cached_property
    def shown(self) -> pa.Schema:
        """The schema that users see."""
        events, until = self.events.shown, self.events.until
        added = [pa.field(CHANGE, pa.string(), nullable=False)]
        added += [] if until is None else [pa.field(column_before(until.name), until.type)]
        added += [pa.field(SEQUENCE, pa.int64())] if self.numbered else []
        for column in added:
            if column.name in events.names:
                hint = "give the column another name with select(), or settle() the stream"
                raise SchemaMismatch.clash("a stream of changes", column.name, hint)
        return pa.schema([*events, *added])

    def show(self, batch: EventBatch, first: int = 0) -> pa.RecordBatch:
        """Return the inserts, adjusts and removals as users see them, numbered from `first` on. Copies no payload."""
        data, until = batch.data(), self.events.until
        adjusted = data.kinds() == _ADJUST
        words = np.where(adjusted & (data.ends() == data.start), _REMOVE, adjusted.astype(np.int8))
        added = [pc.take(pa.array(WORDS), pa.array(words))]
        if until is not None:
            added.append(until.write_or_null(np.where(adjusted, data.prior_ends(), FOREVER)))
        if self.numbered:
            added.append(pa.array(np.arange(first, first + data.rows)))
        return pa.RecordBatch.from_arrays([*self.events.show(data).columns, *added], schema=self.shown)
