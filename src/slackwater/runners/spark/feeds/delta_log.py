"""The log of a Delta table, version by version: which files a version adds, and what else it does.

The package `deltalake` reads tables as they are at a version. What a version changed it does not say, so that is read
from the log itself, a file of JSON lines for each version (Delta's protocol, "Actions").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.fs import FileSelector, PyFileSystem

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.runners.spark.output.delta_table import deltalake_package

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG: Final = "_delta_log"
_COLUMN_MAPPING: Final = "delta.columnMapping.mode"
_FEATURES: Final = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "appendOnly", "invariants"}
"""What a table may ask of its readers; of deletion vectors and of columns by other names nothing is known here."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table, which never changes."""

    path: str
    """From the folder of the table."""

    bytes: int
    rows: int | None
    """How many rows it has, if its writer has noted it."""

    parts: Mapping[str, Any]
    """The values of partition columns; texts where they are from the log."""


@dataclass(frozen=True)
class Commit:
    """What a version did to a table."""

    version: int
    operation: str
    time_ms: int | None
    added: tuple[DataFile, ...]
    removed: int
    """How many files it took away with rows that no file has now."""

    columns: str | None
    """The columns it gave to the table, as JSON, if it did."""

    table: str | None
    """The id that it gave to the table, if it did."""


@dataclass(frozen=True)
class TableLog:
    """A table by its address."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def files(self) -> PyFileSystem:
        """The files of the table, by their paths from its folder."""
        from deltalake.fs import DeltaStorageHandler

        return PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))

    def table(self, version: int | None = None) -> Any:
        """The table at a version, or as it is now."""
        delta = deltalake_package()
        try:
            found = delta.DeltaTable(self.uri, version=version, storage_options=dict(self.storage_options))
        except delta.exceptions.TableNotFoundError as error:
            hint = "wait for whoever makes it, or mend the path"
            raise PlanError(message("there is no Delta table", {"path": self.uri}, hint)) from error
        except Exception as error:
            if version is None:
                raise SourceFailed.unreadable(self.uri, error) from error
            raise self.gone(version) from error
        refuse_features(self.uri, found.protocol().reader_features or (), found.metadata().configuration)
        return found

    def snapshot(self, version: int) -> tuple[DataFile, ...]:
        """All files of a version, in an order that is the same whenever it is asked."""
        actions = pa.table(self.table(version).get_add_actions(flatten=False)).to_pylist()
        actions.sort(key=lambda action: (action["modification_time"], action["path"]))
        return tuple(
            DataFile(
                unquote(action["path"]),
                action["size_bytes"],
                action["num_records"],
                action.get("partition") or {},
            )
            for action in actions
        )

    def commit(self, version: int) -> Commit | None:
        """What a version did; None if there is no such version yet. Refused if it was there and is gone."""
        text = self._text(version)
        if text is None:
            newest = max(self._versions(), default=-1)
            if newest < version - 1:
                facts = {"path": self.uri, "newest version": newest, "read up to version": version - 1}
                hint = "start anew with another checkpoint: this is another table, or one that was put back"
                raise SourceFailed(message("a Delta table has fewer versions than were read of it", facts, hint))
            if newest < version:
                return None
            text = self._text(version)  # it may have come between the two looks
            if text is None:
                raise self.gone(version)
        return self._parsed(version, text)

    def _text(self, version: int) -> str | None:
        try:
            with self.files.open_input_stream(f"{_LOG}/{version:020}.json") as stream:
                return stream.read().decode()
        except FileNotFoundError:
            return None

    def _versions(self) -> Iterator[int]:
        """The versions whose logs or checkpoints are there."""
        for info in self.files.get_file_info(FileSelector(_LOG, allow_not_found=True)):
            name = info.base_name.partition(".")[0]
            if name.isdecimal():
                yield int(name)

    def _parsed(self, version: int, text: str) -> Commit:
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        metadata: dict[str, Any] = next((action["metaData"] for action in actions if "metaData" in action), {})
        for action in actions:
            refuse_features(self.uri, action.get("protocol", {}).get("readerFeatures") or ())
        refuse_features(self.uri, (), metadata.get("configuration") or {})
        added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
        if any(file.get("deletionVector") for file in added):
            refuse_features(self.uri, ["deletionVectors"])
        return Commit(
            version,
            info.get("operation", "unknown"),
            info.get("inCommitTimestamp", info.get("timestamp")),
            tuple(_file_of(file) for file in added),
            sum(bool(action.get("remove", {}).get("dataChange")) for action in actions),
            metadata.get("schemaString"),
            metadata.get("id"),
        )

    def first_since(self, time_ms: int, newest: int) -> int:
        """The first version that was committed at a time or later; the one after the newest if none was."""
        for version in range(newest, -1, -1):
            text = self._text(version)
            if text is None:
                raise self.gone(version)
            committed = self._parsed(version, text).time_ms
            if committed is not None and committed < time_ms:
                return version + 1
        return 0

    def gone(self, version: int) -> SourceFailed:
        """What is raised for a version whose log was removed."""
        first = min(self._versions(), default=None)
        facts = {"path": self.uri, "missing": f"version {version}", "oldest log": "none" if first is None else first}
        hint = "rows of it were never read: start anew with another checkpoint, where the table is now or at a later"
        hint += " startingVersion or startingTimestamp, and keep the log for longer (delta.logRetentionDuration)"
        return SourceFailed(message("the log of a Delta table is gone from where a query must go on", facts, hint))


def _file_of(add: Mapping[str, Any]) -> DataFile:
    stats = json.loads(add.get("stats") or "{}")
    return DataFile(unquote(add["path"]), add["size"], stats.get("numRecords"), add.get("partitionValues") or {})


def refuse_features(uri: str, features: Any, settings: Mapping[str, str | None] | None = None) -> None:
    """Refuse a table whose rows are not all that stands in its files, or are called otherwise there.

    Of columns by other names older protocols say so in the settings of the table alone.
    """
    named_otherwise = (settings or {}).get(_COLUMN_MAPPING) not in {None, "none"}
    unknown = sorted(
        {str(feature) for feature in features} - _FEATURES | ({"columnMapping"} if named_otherwise else set())
    )
    if unknown:
        facts = {"path": uri, "asks of readers": ", ".join(unknown)}
        hint = "read it by Spark's own Delta: sw.stream(spark.readStream.format('delta').load(path), ...)"
        raise PlanError(message("a Delta table needs more of its readers than this source can do", facts, hint))
