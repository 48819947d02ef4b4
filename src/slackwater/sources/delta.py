"""Delta tables as feeds: the rows of one version, file by file, in the order in which files were added to the table.

Rows that were deleted are not read: a folder of a Delta table holds files of older versions, too. Compaction
writes rows into new files; where it is used, only a column of arrivals knows in which order rows came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.sources.readers import ReadFeed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG: Final = "_delta_log"
"""The folder that makes a folder a Delta table."""

_COLUMN_MAPPING: Final = "delta.columnMapping.mode"


def is_delta_table(path: Path) -> bool:
    """Whether a folder is a Delta table."""
    return (path / LOG).is_dir()


def from_delta_path(path: Path, name: str | None = None) -> ReadFeed:
    """Feed the newest version that a table in a folder has now."""
    try:
        from deltalake import DeltaTable
    except ImportError as cause:
        hint = "pip install 'slackwater[delta]'"
        raise PlanError(message("a Delta table is read by the package deltalake", {"table": path}, hint)) from cause
    try:
        table = DeltaTable(path)
    except Exception as cause:
        raise SourceFailed.unreadable(path, cause) from cause
    return from_delta_table(table, name or path.name)


def from_delta_table(table: Any, name: str) -> ReadFeed:
    """Feed the version that a DeltaTable is at."""
    from deltalake.exceptions import DeltaError

    shown = table.table_uri
    if table.metadata().configuration.get(_COLUMN_MAPPING) not in {None, "none"}:
        # The package reads nulls there, and says nothing.
        facts, hint = {"table": shown, _COLUMN_MAPPING: "is set"}, "let Spark's own Delta read it: spark.read"
        raise PlanError(message("columns of a Delta table have other names in its files", facts, hint))
    try:
        dataset = table.to_pyarrow_dataset()
        added = pa.table(table.get_add_actions()).select(["path", "modification_time"]).to_pylist()
    except (DeltaError, pa.ArrowException, OSError) as cause:
        raise SourceFailed.unreadable(shown, cause) from cause
    times = {_file_name(one["path"]): one["modification_time"] for one in added}

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            files = sorted(dataset.get_fragments(), key=lambda file: (times.get(_file_name(file.path), 0), file.path))
            for file in files:
                yield from file.to_batches(schema=dataset.schema)
        except (pa.ArrowException, OSError) as cause:
            raise SourceFailed.unreadable(shown, cause, "was the table vacuumed meanwhile?") from cause

    return ReadFeed(name, dataset.schema, batches)


def _file_name(path: str) -> str:
    """A file without its folders, whose names are written in several ways."""
    return path.rpartition("/")[2]
