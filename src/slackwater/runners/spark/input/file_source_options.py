"""The options of Spark's file source, by Spark's own names, so that editors know them and a misspelt one is refused.

Spark looks at the options that it knows and says nothing of others. Their list is that of the Spark documentation,
"Structured Streaming Programming Guide", input sources, and "Generic File Source Options".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping


class FileSourceOptions(TypedDict, total=False):
    """What `parquet_files` takes besides its own parameters."""

    maxFilesPerTrigger: int
    maxBytesPerTrigger: int | str
    latestFirst: bool
    maxFileAge: str
    maxCachedFiles: int
    discardCachedInputRatio: float
    fileNameOnly: bool
    cleanSource: str
    sourceArchiveDir: str
    pathGlobFilter: str
    recursiveFileLookup: bool
    modifiedBefore: str
    modifiedAfter: str
    ignoreCorruptFiles: bool
    ignoreMissingFiles: bool


_KNOWN: Final = {name.lower(): name for name in FileSourceOptions.__annotations__}
"""Spark does not care about capitals."""


def require_known_options(options: Mapping[str, object]) -> None:
    """Refuse an option that Spark would not look at; names with a dot are settings of a file system.

    >>> require_known_options({"maxFilesPerTrigger": 1, "fs.s3a.endpoint": "minio"})
    """
    for name in options:
        if name.lower() not in _KNOWN and "." not in name:
            facts = {"option": name, "there are": ", ".join(sorted(_KNOWN.values()))}
            hint = "shards, timeout and the like belong to start() and to_spark()"
            raise PlanError(message("Spark's file source has no option of this name", facts, hint))
