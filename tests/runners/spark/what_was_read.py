"""What the log of a query's offsets says each micro-batch read of files, and when."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote


@dataclass(frozen=True)
class MicroBatch:
    """One of the log: its number, its timestamp in microseconds, the files of each source, and whether it is done."""

    number: int
    now: int
    files: list[list[Path]]
    done: bool


def logged(checkpoint: Path, sources: int) -> list[MicroBatch]:
    """All micro-batches that have begun."""
    listed = [_listed(checkpoint / "sources" / str(number)) for number in range(sources)]
    found, before = [], [-1] * sources
    for path in sorted(checkpoint.glob("offsets/[0-9]*"), key=lambda path: int(path.name)):
        _, about, *offsets = path.read_text().splitlines()
        ends = [before[number] if one == "-" else json.loads(one)["logOffset"] for number, one in enumerate(offsets)]
        files = [
            [file for offset in range(start + 1, end + 1) for file in of_source.get(offset, [])]
            for of_source, start, end in zip(listed, before, ends, strict=True)
        ]
        done = (checkpoint / "commits" / path.name).exists()
        found.append(MicroBatch(int(path.name), json.loads(about)["batchTimestampMs"] * 1_000, files, done))
        before = ends
    return found


def _listed(source: Path) -> dict[int, list[Path]]:
    """The files of a source, by the offset at which it came to them."""
    entries = {}
    for path in source.glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            entries[entry["path"]] = entry["batchId"]
    found: dict[int, list[Path]] = {}
    for address, offset in sorted(entries.items()):
        found.setdefault(offset, []).append(Path(unquote(address.removeprefix("file://"))))
    return found
