"""Small files beside what Spark writes, wherever that is: read, made once, replaced, and folders moved at once.

    file:                         Python's own calls, on the machine of the driver
    hdfs:, s3a:, abfs: ...        Hadoop's file systems, by the session's Java (`hadoop_files.py`)
    the same over Connect, and    reads and writes of Spark itself: a file is a folder with one part, and nothing can
    file: on another machine      be moved

What is moved appears whole or not at all. Where that cannot be, batches are written in place (`renames` is False).
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from slackwater.errors import RunError, message
from slackwater.runners.spark.storage.places import LOCAL, Place, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_MAKE_ROOM: Final = "make it writable, or make room; started again, the query goes on from its checkpoint"

_MAY_READ: Final = "see whether it is there, and whether you may read it"


class Files(Protocol):
    """Files of one file system, by their full addresses."""

    renames: bool
    """Whether a folder can be moved at once."""

    plain: bool
    """Whether what is made is a file as Spark makes it, which it could read as one of its own."""

    def read(self, address: str) -> str | None:
        """The text of a file; None if there is none."""
        ...

    def exists(self, address: str) -> bool:
        """Whether something is there."""
        ...

    def create(self, address: str, text: str) -> bool:
        """Make a file, unless there is one; say whether it was made."""
        ...

    def replace(self, address: str, text: str) -> None:
        """Make a file, or put another in its place."""
        ...

    def put(self, address: str, data: pa.Buffer) -> None:
        """Write a file where there is none; for folders that nobody reads before they are moved."""
        ...

    def names(self, folder: str) -> list[str]:
        """What a folder has in it; nothing, if it is not there."""
        ...

    def move(self, folder: str, to: str) -> bool:
        """Move a folder, unless something is there already; say whether it was moved."""
        ...

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, or a file, if it is there."""
        ...


class LocalFiles:
    """Files of this machine."""

    renames = True
    plain = True

    def read(self, address: str) -> str | None:
        """The text of a file; None if there is none."""
        try:
            return _local(address).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, address: str) -> bool:
        """Whether something is there."""
        return _local(address).exists()

    def create(self, address: str, text: str) -> bool:
        """Make a file, unless there is one: a link to what is written already is made at once, or not at all."""
        written = self._written(_local(address), text)
        try:
            _local(address).hardlink_to(written)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        return True

    def replace(self, address: str, text: str) -> None:
        """Make a file, or put another in its place."""
        self._written(_local(address), text).replace(_local(address))

    def put(self, address: str, data: pa.Buffer) -> None:
        """Write a file where there is none, down to the disk."""
        self._put(_local(address), data)

    def _written(self, beside: Path, text: str) -> Path:
        """Write to a new file beside one, down to the disk."""
        path = beside.with_name(f".{beside.name}.{uuid.uuid4().hex}")
        self._put(path, text.encode())
        return path

    def _put(self, path: Path, data: bytes | pa.Buffer) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                if len(data):
                    os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def names(self, folder: str) -> list[str]:
        """What a folder has in it; nothing, if it is not there."""
        return sorted(path.name for path in _local(folder).iterdir()) if _local(folder).is_dir() else []

    def move(self, folder: str, to: str) -> bool:
        """Move a folder; only an empty one gives way."""
        try:
            _local(folder).rename(_local(to))
        except OSError:
            if not _local(to).exists():
                raise
            return False
        return True

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, or a file, if it is there."""
        if _local(folder).is_dir():
            shutil.rmtree(_local(folder))
        else:
            _local(folder).unlink(missing_ok=True)


def _local(address: str) -> Path:
    return Path(Place.written(address).path)


@dataclass(frozen=True)
class SparkFiles:
    """Files that only Spark can reach: each is a folder with one text in it."""

    session: SparkSession
    renames = False
    plain = False

    def read(self, address: str) -> str | None:
        """The text of a file; None if there is none."""
        from pyspark.errors import AnalysisException

        try:
            found = self.session.read.text(address, wholetext=True).collect()
        except AnalysisException as error:
            if _is_missing(error):
                return None
            raise
        return found[0][0] if found else None

    def exists(self, address: str) -> bool:
        """Whether something is there."""
        from pyspark.errors import AnalysisException

        try:
            _ = self.session.read.format("binaryFile").load(address).schema
        except AnalysisException as error:
            if _is_missing(error):
                return False
            raise
        return True

    def create(self, address: str, text: str) -> bool:
        """Make a file, unless there is one. Two that do so at the same moment are not distinguished here."""
        if self.read(address) is not None:
            return False
        self.replace(address, text)
        return True

    def replace(self, address: str, text: str) -> None:
        """Make a file, or put another in its place."""
        rows = self.session.createDataFrame([(text.replace("\n", " "),)], "value string")
        rows.coalesce(1).write.mode("overwrite").text(address)

    def put(self, address: str, data: pa.Buffer) -> None:
        """Refuse: Spark writes rows, not bytes."""
        raise NotImplementedError(address)

    def names(self, folder: str) -> list[str]:
        """What a folder has in it, hidden things left out; nothing, if it is not there."""
        from pyspark.errors import AnalysisException

        reader = self.session.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            paths = reader.load(folder).select("path").collect()
        except AnalysisException as error:
            if _is_missing(error):
                return []
            raise
        start = len(Place.written(folder).path.rstrip("/")) + 1
        return sorted({Place.written(path).path[start:].partition("/")[0] for (path,) in paths})

    def move(self, folder: str, to: str) -> bool:
        """Refuse: Spark moves nothing."""
        raise NotImplementedError(f"{folder} -> {to}")

    def remove(self, folder: str) -> None:
        """Refuse: Spark removes nothing."""
        raise NotImplementedError(folder)


def _is_missing(error: Any) -> bool:
    return error.getCondition() == "PATH_NOT_FOUND"


def files_at(session: SparkSession, place: Place, *, shared: bool = True) -> Files:
    """The way to the files of a place. `shared`: whether this process sees the local files that Spark does."""
    if place.scheme == LOCAL and shared:
        return LocalFiles()
    if getattr(session, "_jvm", None) is not None:
        from slackwater.runners.spark.storage.hadoop_files import HadoopFiles

        return HadoopFiles(session, place.scheme)
    return SparkFiles(session)


def reached(path: str) -> tuple[Place, Files]:
    """A folder that somebody names, and the way to its files: of this machine, or, elsewhere, by a session."""
    if _is_local(path):
        return Place.written(path if path.startswith(f"{LOCAL}:") else str(Path(path).absolute())), LocalFiles()
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    place = place_of(session, path)
    return place, files_at(session, place)


def _is_local(path: str) -> bool:
    """Whether a path is one of this machine: it has no scheme, or that of files. One letter is a drive of Windows.

    >>> [_is_local(path) for path in ("checkpoint", "/data/checkpoint", "file:/data/checkpoint", "C:/checkpoint")]
    [True, True, True, True]
    >>> [_is_local(path) for path in ("s3a://bucket/checkpoint", "dbfs:/mnt/checkpoint")]
    [False, False]
    """
    found = _SCHEME.match(path)
    return found is None or found[1].lower() == LOCAL


def shares_files(session: SparkSession, place: Place) -> bool:
    """Whether this process sees the files of a place that Spark sees: over Connect that may be another machine's."""
    if place.scheme != LOCAL or getattr(session, "_jvm", None) is not None:
        return True
    probe = f"{place.address}/_slackwater/probe-{uuid.uuid4().hex}"
    SparkFiles(session).replace(probe, "seen?")
    seen = _local(probe).is_dir()
    LocalFiles().remove(probe)
    return seen


@contextmanager
def writing_to(what: str, place: Place, *, done: str = "written") -> Iterator[None]:
    """Say in one sentence which folder could not be read or written; `done` says which of both."""
    try:
        yield
    except OSError as error:
        raise _unusable(what, place, done, f"{type(error).__name__}: {error}") from error
    except Exception as error:
        cause_in_java = getattr(error, "java_exception", None)
        if cause_in_java is None:
            raise
        raise _unusable(what, place, done, str(cause_in_java.toString()).partition("\n")[0]) from error


def _unusable(what: str, place: Place, done: str, cause: str) -> RunError:
    hint = _MAKE_ROOM if done == "written" else _MAY_READ
    return RunError(message(f"{what} cannot be {done}", {"folder": place.address, "cause": cause}, hint))
