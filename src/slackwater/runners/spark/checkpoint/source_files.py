"""Sees to it that the files which a micro-batch is to read are there: of those that are gone Spark says nothing.

Spark's file source writes down which files belong to a micro-batch, `checkpoint/sources/0/7`, and up to where each
source was read, `checkpoint/offsets/7`. When the micro-batch runs, which may be hours later, or again after a crash, it
reads those of them that it finds. What vanished in between would be lost without a word, so it is looked for before
anything is computed. Other sources than files are left alone.

Cost: one look for each file, or one listing for each folder with many of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from slackwater.errors import SourceFailed, message
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files

_KNOWN: Final = "v1"
"""The version of Spark's logs that is known here; of others nothing is checked."""

_NOTHING_READ: Final = '{"logOffset":-1}'
"""What would stand in offsets before the first micro-batch."""

_MANY: Final = 16
"""From so many files on, their folder is listed."""


def require_files(session: SparkSession, run: Run, batch_id: int) -> None:
    """Refuse to run a micro-batch of which files are gone."""
    log = run.files(session, run.logs)
    gone = sorted(_missing(session, run, files_of(log, run.logs, batch_id)))
    if gone:
        facts = {"file": gone[0], "files that are gone": len(gone), "micro-batch": batch_id}
        hint = "put them back, or empty ones in their place; started again, the query goes on from its checkpoint"
        raise SourceFailed(message("a file of a source is gone before it was read", facts, hint))


def files_of(log: Files, checkpoint: Place, batch_id: int) -> list[str]:
    """The addresses of the files that a micro-batch is to read, of all sources that are files."""
    texts = [log.read(f"{checkpoint.address}/offsets/{number}") for number in (batch_id - 1, batch_id)]
    found: list[str] = []
    for source, (before, end) in ends_of(texts, len(log.names(f"{checkpoint.address}/sources"))).items():
        for number in range(before + 1, end + 1):
            found += _listed(log, f"{checkpoint.address}/sources/{source}", number)
    return found


def ends_of(texts: Sequence[str | None], folders: int) -> dict[int, tuple[int, ...]]:
    r"""Up to where each source that is files was read, by its number, by the offsets of some micro-batches; -1 before.

    Where a query reads one DataFrame in two ways Spark notes its offset twice, and has one folder for it. Which lines
    are of one source follows from what stands in them; where it does not, nothing is returned.

    >>> one, other = '{"logOffset":4}', '{"logOffset":0}'
    >>> ends_of(["\n".join(["v1", "{}", one, one, other])], folders=2)
    {0: (4,), 1: (0,)}
    >>> ends_of([None, "\n".join(["v1", "{}", one, "-", other])], folders=3)
    {0: (-1, 4), 2: (-1, 0)}
    """
    *earlier, last = map(_lines_of, texts)
    earlier = [[_NOTHING_READ if line == "-" else line for line in lines or "-" * len(last)] for lines in earlier]
    sources = list(zip(*earlier, last, strict=False))
    different = list(dict.fromkeys(sources))
    if len(different) < len(sources) != folders:
        sources = different if len(different) == folders else different * folders if len(different) == 1 else []
    ends = {number: tuple(_ends_in(lines)) for number, lines in enumerate(sources)}
    return {number: found for number, found in ends.items() if len(found) == len(texts)}


def _lines_of(text: str | None) -> list[str]:
    version, *lines = (text or "").splitlines() or [""]
    return lines[1:] if version == _KNOWN else []


def _ends_in(lines: Iterable[str]) -> Iterator[int]:
    """Up to where a source was read, by its lines; nothing for those of one that is no files."""
    for line in lines:
        offset = json.loads(line) if line.startswith("{") else {}
        if offset.keys() == {"logOffset"}:
            yield offset["logOffset"]


def _listed(log: Files, folder: str, number: int) -> Iterable[str]:
    """The files that a source came to at an offset; now and then Spark puts the logs of all offsets before into one."""
    text = log.read(f"{folder}/{number}") or log.read(f"{folder}/{number}.compact")
    version, *lines = (text or "").splitlines() or [""]
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines] if version == _KNOWN else []
    return [unquote(entry["path"]) for entry in entries if entry.get("batchId", number) == number]


def _missing(session: SparkSession, run: Run, addresses: Iterable[str]) -> Iterable[str]:
    folders: dict[str, list[str]] = defaultdict(list)
    for address in addresses:
        folder, _, name = address.rpartition("/")
        folders[folder].append(name)
    for folder, names in folders.items():
        files = run.files(session, Place.written(folder))
        if len(names) >= _MANY:
            there = set(files.names(folder))
            yield from (f"{folder}/{name}" for name in names if name not in there)
        else:
            yield from (f"{folder}/{name}" for name in names if not files.exists(f"{folder}/{name}"))
