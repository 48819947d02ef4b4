"""Files of Hadoop's file systems, by the Java of a classic session, with the settings and credentials that it has."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MOVE_AT_ONCE: Final = frozenset({"file", "hdfs", "webhdfs", "viewfs", "abfs", "abfss", "ofs", "maprfs"})
"""Schemes of file systems that move a folder in one step. Object stores copy file by file."""


class HadoopFiles:
    """Files by Hadoop's own calls."""

    plain = True

    def __init__(self, session: SparkSession, scheme: str) -> None:
        self._java: Any = session._jvm  # noqa: SLF001 - Spark has no public way to it
        self._settings: Any = session._jsc.hadoopConfiguration()  # noqa: SLF001 - the same
        self._new_array: Any = session.sparkContext._gateway.new_array  # type: ignore[union-attr] # noqa: SLF001
        self.renames = scheme in _MOVE_AT_ONCE

    def read(self, address: str) -> str | None:
        """The text of a file; None if there is none."""
        system, path = self._found(address)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def exists(self, address: str) -> bool:
        """Whether something is there."""
        system, path = self._found(address)
        return bool(system.exists(path))

    def create(self, address: str, text: str) -> bool:
        """Make a file, unless there is one."""
        if not self.renames:
            system, path = self._found(address)
            if system.exists(path):
                return False
            self._write(address, text.encode())
            return True
        return self._move(self._written(address, text), address)

    def replace(self, address: str, text: str) -> None:
        """Make a file, or put another in its place."""
        if not self.renames:
            self._write(address, text.encode())
            return
        self._move(self._written(address, text), address, "OVERWRITE")

    def put(self, address: str, data: pa.Buffer) -> None:
        """Write a file where there is none."""
        self._write(address, data.to_pybytes())

    def names(self, folder: str) -> list[str]:
        """What a folder has in it; nothing, if it is not there."""
        system, path = self._found(folder)
        return sorted(one.getPath().getName() for one in system.listStatus(path)) if system.exists(path) else []

    def move(self, folder: str, to: str) -> bool:
        """Move a folder, unless something is there already."""
        return self._move(folder, to)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        system, path = self._found(folder)
        system.delete(path, True)

    def _found(self, address: str) -> tuple[Any, Any]:
        path = self._java.org.apache.hadoop.fs.Path(address)
        return path.getFileSystem(self._settings), path

    def _write(self, address: str, data: bytes) -> None:
        system, path = self._found(address)
        stream = system.create(path, True)
        stream.write(bytearray(data))
        stream.close()

    def _written(self, address: str, text: str) -> str:
        """Write to a new file beside one."""
        folder, _, name = address.rpartition("/")
        beside = f"{folder}/.{name}.{uuid.uuid4().hex}"
        self._write(beside, text.encode())
        return beside

    def _move(self, address: str, to: str, *how: str) -> bool:
        """Move in one step. FileSystem.rename would move a folder into one that is there; this refuses."""
        hadoop = self._java.org.apache.hadoop.fs
        rename = getattr(hadoop, "Options$Rename")
        options = self._new_array(rename, len(how))
        for number, name in enumerate(how):
            options[number] = rename.valueOf(name)
        context = hadoop.FileContext.getFileContext(hadoop.Path(address).toUri(), self._settings)
        try:
            context.rename(hadoop.Path(address), hadoop.Path(to), options)
        except Exception as error:
            system, path = self._found(to)
            if getattr(error, "java_exception", None) is None or not system.exists(path):
                raise
            self._found(address)[0].delete(hadoop.Path(address), True)
            return False
        return True
