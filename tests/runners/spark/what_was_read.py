"""What the log of a query's offsets says each micro-batch read, and when.

Mostly it is one file, version or share of messages of each source. But who is killed when Spark has noted which file
comes next, and not yet the beginning of a micro-batch, finds two files when it is started again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from killed_rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class MicroBatch:
    """One of the log: its number, its timestamp in microseconds, and which tables it read of each source."""

    number: int
    now: int
    tables: list[list[int]]


def logged(checkpoint: Path, sources: Sequence[str]) -> list[MicroBatch]:
    """All micro-batches that have begun, of a query with such sources."""
    listed = [_listed(checkpoint / "sources" / str(number)) for number in range(len(sources))]
    found, before = [], [set[int]() for _ in sources]
    for path in sorted(checkpoint.glob("offsets/[0-9]*"), key=lambda path: int(path.name)):
        _, about, *offsets = path.read_text().splitlines()
        read = [
            past if line == "-" else _tables_up_to(kind, json.loads(line), files)
            for kind, line, files, past in zip(sources, offsets, listed, before, strict=False)
        ]
        tables = [sorted(now - past) for now, past in zip(read, before, strict=True)]
        found.append(MicroBatch(int(path.name), json.loads(about)["batchTimestampMs"] * 1_000, tables))
        before = read
    return found


def _tables_up_to(source: str, offset: dict[str, object], listed: dict[int, int]) -> set[int]:
    """The tables that have been read at an offset, by their numbers."""
    match source, offset:
        case "jetstream", {"at": {"sequence": int(messages)}}:
            return set(range(messages // ROWS))
        case "delta", {"at": {"version": int(versions)}}:
            return set(range(versions))
        case _, {"logOffset": int(last)}:
            return {table for table, entry in listed.items() if entry <= last}
    raise AssertionError(offset)


def _listed(source: Path) -> dict[int, int]:
    """The files of a source, by their numbers, and the offset at which it came to each."""
    entries = [json.loads(line) for path in source.glob("[0-9]*") for line in path.read_text().splitlines()[1:]]
    return {int(Path(unquote(entry["path"])).stem): entry["batchId"] for entry in entries}
