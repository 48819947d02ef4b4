"""Who opens the files that Spark finds, for the tasks that read them with Arrow.

ByArrow        Arrow's own file systems, with the keys and settings that these find where tasks run
ByFileSystem   one that the user hands over, of fsspec or Arrow; it travels to the tasks
ByHadoop       Spark reads whole files with its own settings and hands over their bytes: any file system of Hadoop's
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeAlias
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from slackwater.errors import PlanError, message

FileSystem: TypeAlias = Any
"""A file system of fsspec (an `AbstractFileSystem`) or of Arrow (a `pyarrow.fs.FileSystem`)."""

_WRITTEN: Final = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_LOCAL: Final = "file:"
_KNOWN_TO_ARROW: Final = frozenset({"file", "s3", "s3a", "gs", "hdfs"})
"""Schemes that Arrow opens by itself, all but the first with credentials and settings of its own."""

_WITHOUT_HOST: Final = frozenset({"local", "hdfs"})
"""File systems of Arrow whose paths begin at a root; those of stores begin with the bucket, which is the host."""


class FileOpener(Protocol):
    """Opens a file by its path as Spark says it: with its scheme, and nothing in it encoded."""

    takes_contents: ClassVar[bool]
    """Whether Spark has to hand over the bytes of files, and not only their paths."""

    def opened(self, path: str, content: pa.Scalar | None) -> pa.NativeFile:
        """Open a file, whose bytes are there already if they are asked for."""
        ...


@dataclass(frozen=True)
class ByArrow:
    """Arrow opens files by what stands in their paths."""

    takes_contents: ClassVar = False

    def opened(self, path: str, content: pa.Scalar | None = None) -> pa.NativeFile:  # noqa: ARG002 - there is none
        """Open it."""
        if path.startswith(_LOCAL):
            # Not mapped into memory: a file that is cut short while it is read is then an error, and no crash.
            return pa.OSFile(path.removeprefix(_LOCAL))
        system, inside = fs.FileSystem.from_uri(as_uri(path))
        return system.open_input_file(inside)


@dataclass(frozen=True)
class ByFileSystem:
    """A file system of the user's opens them."""

    system: FileSystem
    takes_contents: ClassVar = False

    def opened(self, path: str, content: pa.Scalar | None = None) -> pa.NativeFile:  # noqa: ARG002 - there is none
        """Open it."""
        if not isinstance(self.system, fs.FileSystem):
            return fs.PyFileSystem(fs.FSSpecHandler(self.system)).open_input_file(path)  # fsspec takes schemes off
        found = _WRITTEN.fullmatch(path)
        assert found is not None, path
        host = "" if self.system.type_name in _WITHOUT_HOST else found["host"] or ""
        return self.system.open_input_file(f"{host}{found['path']}" if host else found["path"])


@dataclass(frozen=True)
class ByHadoop:
    """Spark has read them."""

    takes_contents: ClassVar = True

    def opened(self, path: str, content: pa.Scalar | None) -> pa.NativeFile:
        """Read the bytes where they are."""
        assert content is not None, path
        return pa.BufferReader(content.as_buffer())


def as_uri(path: str) -> str:
    """A path of Spark's as Arrow reads addresses: names may have blanks and percent signs in them.

    >>> as_uri("s3a://bucket/at=10%3A00/my file.parquet")
    's3://bucket/at%3D10%253A00/my%20file.parquet'
    """
    scheme, mark, rest = path.partition("://")
    host, slash, inside = rest.partition("/")
    return f"{'s3' if scheme == 's3a' else scheme}{mark}{host}{slash}{quote(inside)}"


def opener_of(path: str, filesystem: FileSystem | None) -> FileOpener:
    """Who opens files of a path: whom the user names, or Arrow where it knows the file system, or Spark.

    >>> opener_of("s3a://bucket/in", None), opener_of("abfss://box@account/in", None), opener_of("s3a://b/in", "hadoop")
    (ByArrow(), ByHadoop(), ByHadoop())
    """
    if filesystem is None:
        found = _WRITTEN.fullmatch(path)
        scheme = (found["scheme"] if found else None) or "file"
        return ByArrow() if scheme.lower() in _KNOWN_TO_ARROW else ByHadoop()
    if filesystem == "hadoop":
        return ByHadoop()
    if isinstance(filesystem, fs.FileSystem) or hasattr(filesystem, "_strip_protocol"):
        return ByFileSystem(filesystem)
    facts = {"filesystem": repr(filesystem)}
    hint = 'take fsspec.filesystem("abfs", ...), a pyarrow.fs.FileSystem, or "hadoop" for Spark\'s own'
    raise PlanError(message("files cannot be opened by this", facts, hint))
