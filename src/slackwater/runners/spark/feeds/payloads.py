"""What stands in messages, as rows: JSON, Arrow, or the bytes themselves. Bad messages are found one by one.

JSON is read by Arrow, many messages at once, each on a line. Two messages could then be taken for three, or one for a
part of another: so each must begin and end as an object does, and there must be a row for each.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.json

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA: Final = "data"
"""The column of messages that are not looked into."""

_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
"""Between the values of JSON a line may break, and within them it may not."""


@dataclass(frozen=True)
class Decoded:
    """The rows of some messages."""

    rows: pa.RecordBatch
    sources: pa.Array
    """Of which message each row is, by its place."""

    bad: dict[int, str]
    """The messages that could not be read, by their places, and why."""


class Payloads(Protocol):
    """Reads messages."""

    def decoded(self, messages: Sequence[bytes]) -> Decoded:
        """The rows of messages, in their order."""
        ...


@dataclass(frozen=True)
class RawPayloads:
    """Messages as they are."""

    schema: pa.Schema

    def decoded(self, messages: Sequence[bytes]) -> Decoded:
        """A row for each."""
        rows = pa.RecordBatch.from_arrays([pa.array(messages, pa.binary())], schema=self.schema)
        return Decoded(rows, pa.array(range(len(messages)), pa.int64()), {})


@dataclass(frozen=True)
class JsonPayloads:
    """One JSON object in each message. Fields that there is no column for are not read."""

    schema: pa.Schema

    def decoded(self, messages: Sequence[bytes]) -> Decoded:
        """All at once, if that succeeds; those that cannot be read are looked for by halves."""
        bad: dict[int, str] = {}
        batches = self._read(messages, 0, bad)
        good = [place for place in range(len(messages)) if place not in bad]
        table = pa.Table.from_batches(batches, self.schema).combine_chunks()
        rows = table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], self.schema)
        return Decoded(rows, pa.array(good, pa.int64()), bad)

    def _read(self, messages: Sequence[bytes], first: int, bad: dict[int, str]) -> list[pa.RecordBatch]:
        if not messages:
            return []
        try:
            return self._parsed(messages)
        except (pa.ArrowException, ValueError) as error:
            if len(messages) == 1:
                bad[first] = str(error)
                return []
        middle = len(messages) // 2
        return [
            *self._read(messages[:middle], first, bad),
            *self._read(messages[middle:], first + middle, bad),
        ]

    def _parsed(self, messages: Sequence[bytes]) -> list[pa.RecordBatch]:
        lines = [one.translate(_BREAKS).strip() for one in messages]
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
            raise ValueError("a message is not one JSON object")
        text = b"\n".join(lines)
        text.decode()  # Arrow takes any bytes for text, and whoever reads the rows would fail
        as_wanted = pa.json.ParseOptions(explicit_schema=_nullable(self.schema), unexpected_field_behavior="ignore")
        # One block: where Arrow cuts, it may find that blocks have not the same types.
        whole = pa.json.ReadOptions(block_size=len(text) + 1, use_threads=False)
        table = pa.json.read_json(io.BytesIO(text), read_options=whole, parse_options=as_wanted)
        if table.num_rows != len(messages):
            raise ValueError("a message is not one JSON object")
        return table.cast(self.schema).to_batches()


@dataclass(frozen=True)
class ArrowPayloads:
    """A stream of Arrow's IPC format in each message, with any number of rows."""

    schema: pa.Schema

    def decoded(self, messages: Sequence[bytes]) -> Decoded:
        """Its columns are found by their names, and must have their types."""
        tables, sources, bad = [], [], {}
        for place, one in enumerate(messages):
            try:
                with pa.ipc.open_stream(one) as reader:
                    found = reader.read_all()
                found.validate(full=True)
                table = found.select(self.schema.names).cast(self.schema)
            except (pa.ArrowException, KeyError, ValueError, OSError) as error:
                bad[place] = str(error)
            else:
                tables.append(table)
                sources += [place] * table.num_rows
        whole = pa.concat_tables([self.schema.empty_table(), *tables]).combine_chunks()
        rows = whole.to_batches()[0] if whole.num_rows else pa.RecordBatch.from_pylist([], self.schema)
        return Decoded(rows, pa.array(sources, pa.int64()), bad)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """What a field lacks is null until columns are cast."""
    return pa.schema([column.with_nullable(True) for column in schema])
