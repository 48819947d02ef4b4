"""Sees to it, before Spark starts, that what Spark keeps in a checkpoint can be read; a file that cannot be is named.

    metadata       the id of Spark's query
    offsets/7      up to where micro-batch 7 reads each source: Spark starts from the last two
    commits/7      that micro-batch 7 is done, and which attempts its states are of: the last one counts
    sources/0/7    the files that a source came to, one log after another; 9.compact has all those before it, too

Of most damage Spark says something, but not in which file it is ("Input length = 1"). Of some it says nothing: with a
log of source files that has lost its lines it goes on, and its output is wrong. Other sources than files have logs of
their own kind, which are left alone, and so are versions of Spark's logs that are not known here.

Cost: one read for each of these files, about ten, and one listing for each folder, at each start.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import RunError, message
from slackwater.runners.spark.checkpoint.ownership import numbers_in
from slackwater.runners.spark.checkpoint.source_files import ends_of
from slackwater.runners.spark.storage.files import writing_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files

_VERSION: Final = re.compile(r"v[1-9]\d*")
_COMPACT: Final = ".compact"
_RESTORE: Final = "restore the checkpoint from a copy, or start anew with another one and other folders"


def require_whole(session: SparkSession, run: Run) -> None:
    """Refuse to start from a checkpoint of which a file that Spark is going to read is damaged."""
    with writing_to("the checkpoint", run.checkpoint):
        found = next(_damage(run.files(session, run.logs), run.logs.address), None)
    if found is not None:
        file, damage = found
        facts = {"file": file, "damage": damage}
        raise RunError(message("a file of the checkpoint is damaged", facts, _RESTORE))


def _damage(log: Files, checkpoint: str) -> Iterator[tuple[str, str]]:
    """The files that are damaged, and how."""
    text, damage = _read(log, f"{checkpoint}/metadata")
    if text is not None:
        damage = _of_json(text)
    if damage:
        yield f"{checkpoint}/metadata", damage
    for number in numbers_in(log, f"{checkpoint}/commits")[-1:]:
        yield from _damage_of_lines(log, f"{checkpoint}/commits/{number}", at_least=1)
    offsets = [f"{checkpoint}/offsets/{number}" for number in numbers_in(log, f"{checkpoint}/offsets")[-2:]]
    for address in offsets:
        yield from _damage_of_lines(log, address, at_least=2)
    texts = {address: text for address in offsets if (text := log.read(address)) is not None}
    most = max((len(text.splitlines()) for text in texts.values()), default=0)
    for address, text in texts.items():
        if len(text.splitlines()) < most:
            yield address, "it lacks a source"
    last = next(reversed(texts.values()), None)
    for source, (end,) in ends_of([last], len(log.names(f"{checkpoint}/sources"))).items():
        yield from _damage_of_source(log, f"{checkpoint}/sources/{source}", end)


def _damage_of_source(log: Files, folder: str, end: int) -> Iterator[tuple[str, str]]:
    """Of the logs of a source that is files, which was read up to some offset."""
    listed = set(log.names(folder))
    compact = [int(name.removesuffix(_COMPACT)) for name in listed if name.endswith(_COMPACT)]
    start = max(compact, default=-1)
    if compact:
        yield from _damage_of_lines(log, f"{folder}/{start}{_COMPACT}", at_least=1)
    for number in range(start + 1, max([end, *map(int, filter(str.isdecimal, listed))]) + 1):
        if str(number) in listed:
            yield from _damage_of_lines(log, f"{folder}/{number}", at_least=1)
        elif number <= end:
            yield f"{folder}/{number}", "it is missing"


def _damage_of_lines(log: Files, address: str, at_least: int) -> Iterator[tuple[str, str]]:
    """Of a log that has its version in the first line, and so many others, of which those in braces are JSON."""
    text, damage = _read(log, address)
    if text is not None:
        version, *lines = text.splitlines() or [""]
        objects = [line for line in lines if line.startswith("{")]
        if not text.strip():
            damage = "it is empty"
        elif not _VERSION.fullmatch(version):
            damage = "its first line is no version"
        elif len(lines) < at_least or not objects:
            damage = f"lines are missing: it has {len(lines)} after the first"
        else:
            damage = next(filter(None, map(_of_json, objects)), "")
    if damage:
        yield address, damage


def _read(log: Files, address: str) -> tuple[str | None, str]:
    """The text of a file, None if it is not there; or that it is no text."""
    try:
        return log.read(address), ""
    except UnicodeDecodeError:
        return None, "it is no text"


def _of_json(text: str) -> str:
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        return f"it is no JSON: {error}" if text.strip() else "it is empty"
    return "" if isinstance(found, dict) else "it is no JSON object"
