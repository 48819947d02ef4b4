"""Segments: the pieces in which a shard's state is stored, each sealed so that damage is found when it is read.

    version   1 byte, and 3 for alignment
    checksum  4 bytes, CRC-32 of the rows
    length    8 bytes, of the rows
    rows      Arrow's stream format, aligned so that its columns are used where they lie

A segment is never changed; a new one takes its place. The version counts for all that is stored: it goes up when any
state is written in another form.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from slackwater.errors import RunError, message
from slackwater.runners.spark.wire.arrow_bytes import from_buffer, to_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 7
"""The form in which states are written."""

_HEADER = struct.Struct("<B3xIQ")


def seal(rows: pa.RecordBatch) -> bytes:
    """Make a segment of rows."""
    body = to_buffer(rows)
    return b"".join((_HEADER.pack(VERSION, zlib.crc32(body), body.size), body))


def unseal(segment: bytes, name: object) -> pa.RecordBatch:
    """Read the rows of a segment; refuse one of another version, or that is not as it was written.

    >>> unseal(seal(pa.record_batch({"x": [1, 2]})), "example").to_pydict()
    {'x': [1, 2]}
    """
    if len(segment) < _HEADER.size:
        raise _damaged(name, {"bytes": len(segment), "a header alone has": _HEADER.size})
    version, checksum, length = _HEADER.unpack_from(segment)
    if version != VERSION:
        facts = {"segment": name, "version": version, "this library reads": VERSION}
        hint = "go on with the version of slackwater that wrote it, or start anew with another checkpoint"
        raise RunError(message("stored state has a format version that this release cannot read", facts, hint))
    body = pa.py_buffer(segment)[_HEADER.size :]
    if body.size != length:
        raise _damaged(name, {"bytes written": length, "bytes found": body.size})
    if zlib.crc32(body) != checksum:
        raise _damaged(name, {"checksum written": checksum, "checksum found": zlib.crc32(body)})
    return from_buffer(body)


def _damaged(name: object, facts: Mapping[str, object]) -> RunError:
    hint = "restore the checkpoint from a copy, or start anew with another one"
    return RunError(message("stored state is truncated or damaged", {"segment": name, **facts}, hint))
