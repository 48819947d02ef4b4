"""The plan node that turns updates by key into changes: each value lasts until the next one of its key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch, message
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.upserts.upserts import UpsertsOperator
from slackwater.plan.nodes.rows import UnaryNode, refuse_untimed
from slackwater.plan.properties import Extent, Properties
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node


@dataclass(frozen=True, eq=False)
class Upserts(UnaryNode):
    """Lets each value of a key last until the next one, or until it is deleted."""

    key: tuple[str, ...]
    until: str
    """What the column of ends is called that the events get."""

    deleted: str | None
    verb = "upserts"
    traits = Traits(sorts_itself=True)

    def __post_init__(self) -> None:
        self._refuse_columns()
        facts = self.input.properties
        if not facts.insert_only:
            hint = "these are changes already: read them with sw.changes(...)"
            raise PlanError(message("upserts takes rows that are not revised", {"stream": self.input.line}, hint))
        refuse_untimed(self.verb, self.input)
        if not facts.progressive:
            hint = 'say how long to wait for late updates: upserts(..., patience="5s")'
            needs = "upserts needs an ordered or punctuated stream, and this one is neither"
            raise NeedsOrder(message(needs, {"stream": self.input.line}, hint))

    def _refuse_columns(self) -> None:
        schema = self.input.schema
        if schema.until is not None:
            hint = "leave until= of the stream out: an update lasts until the next one of its key"
            raise SchemaMismatch(
                message("upserts takes updates that happen at one time", {"ends": schema.until.name}, hint)
            )
        if not self.key:
            hint = 'name the columns that say which value is updated: key="id", or key=["shop", "article"]'
            raise PlanError(message("upserts needs key columns", {}, hint))
        for place, name in enumerate(self.key):
            if name == schema.time.name:
                hint = "leave it out: updates of a key differ in their times"
                raise SchemaMismatch(message("upserts cannot use the time column as a key", {"key": name}, hint))
            if name not in schema.columns:
                raise SchemaMismatch.missing(self.verb, name, schema.columns)
            if name in self.key[:place]:
                raise SchemaMismatch(message("upserts names a column twice", {"key": name}, "name it once"))
        if self.deleted is not None:
            self._refuse_mark(self.deleted)
        if self.until in schema.columns:
            hint = "choose another name for the column of ends that the values get: until=..."
            raise SchemaMismatch.clash(self.verb, self.until, hint)
        # Made now, so that a type is refused now: updates of one key and time are compared by all their columns.
        RowCodec(schema.payload, self.verb)

    def _refuse_mark(self, deleted: str) -> None:
        """Refuse a column that cannot say which updates are deletions."""
        schema = self.input.schema
        if deleted not in schema.payload.names:
            raise SchemaMismatch.missing(self.verb, deleted, schema.payload.names)
        if deleted in self.key:
            hint = "name the column that says which rows delete the value of their key"
            raise SchemaMismatch(message("upserts was given one column as key= and deleted=", {"key": deleted}, hint))
        kind = schema.payload.field(deleted).type
        if not pa.types.is_boolean(kind):
            hint = f'compute one: select(..., {deleted}=nw.col("{deleted}") == ...)'
            raise SchemaMismatch.wrong_type(self.verb, deleted, kind, "a column of yes or no", hint)

    @cached_property
    def schema(self) -> EventSchema:
        """The columns of the updates, without the mark of deletions; and the ends."""
        source = self.input.schema
        payload = pa.schema([field for field in source.payload if field.name != self.deleted])
        columns = [name for name in source.columns if name != self.deleted]
        columns.insert(columns.index(source.time.name) + 1, self.until)
        return EventSchema(payload, source.time, TimeColumn(self.until, source.time.type), tuple(columns))

    @property
    def properties(self) -> Properties:
        """Revised, in no order, punctuated. A key has one value at a time, so start and payload are a key."""
        stamps = self.input.properties.stamps
        return Properties(stamps=stamps, extent=Extent.INTERVALS, punctuated=True, insert_only=False, keyed=True)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """All updates of a key must be seen together."""
        return self.key

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """Those of the updates, of the same name; times are those of different updates."""
        return [(self.input, column)] if column in self.schema.payload.names else []

    def details(self) -> str:
        """The key, and what deletes."""
        return f"by {', '.join(self.key)}" + ("" if self.deleted is None else f", deleted={self.deleted}")

    def reason(self) -> str:
        """When changes go out, and what is remembered."""
        return "a value goes out when its time is complete, and ends when the next one of its key does"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        facts = self.input.properties
        return UpsertsOperator(
            self.input.schema, self.key, self.deleted, ordered=facts.ordered, step=step, resume=resume
        )
