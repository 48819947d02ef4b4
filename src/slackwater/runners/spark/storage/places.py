"""Where folders are, however they are written: `out`, `./out/`, `a/../out` and `file:///home/ann/out` are one place.

Two places that overlap cannot have two writers: who writes to the outer one replaces, or reads, what is in the inner.
"""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

LOCAL: Final = "file"
"""The scheme of files of this machine."""

_WRITTEN: Final = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_SAME_SCHEME: Final = {"s3": "s3a", "s3n": "s3a"}
"""Schemes that are other names for one store."""


@dataclass(frozen=True)
class Place:
    """A folder: the scheme, the host, or bucket, and the path, from its root and without detours.

    >>> (
    ...     Place.written("file:///data/x/../out/"),
    ...     Place.written("hdfs://Names/out").holds(Place.written("hdfs://names/out/late")),
    ... )
    (Place(scheme='file', host='', path='/data/out'), True)
    """

    scheme: str
    host: str
    path: str

    @classmethod
    def written(cls, text: str) -> Place:
        """The place of an address that has a scheme and starts at the root."""
        found = _WRITTEN.fullmatch(text)
        assert found is not None, text
        scheme, host = (found["scheme"] or LOCAL).lower(), (found["host"] or "").lower()
        path = posixpath.normpath("/" + found["path"].lstrip("/"))
        if scheme == LOCAL:
            return cls(scheme, "", os.path.realpath(path))  # symbolic links are detours too
        return cls(scheme, host, path)

    @property
    def address(self) -> str:
        """How Spark is given it."""
        return f"{self.scheme}://{self.host}{self.path}"

    def holds(self, other: Place) -> bool:
        """Whether another place is this one, or inside of it."""
        if _SAME_SCHEME.get(self.scheme, self.scheme) != _SAME_SCHEME.get(other.scheme, other.scheme):
            return False
        return self.host == other.host and f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")

    def overlaps(self, other: Place) -> bool:
        """Whether one of the two holds the other."""
        return self.holds(other) or other.holds(self)


def place_of(session: SparkSession, written: str) -> Place:
    """Find the place that Spark means by a path. What has no scheme, or no root, is for the session to say."""
    found = _WRITTEN.fullmatch(written)
    if found is not None and found["scheme"] and found["path"].startswith("/"):
        return Place.written(written)
    return Place.written(_qualified(session, written))


def _qualified(session: SparkSession, written: str) -> str:
    """Ask a file system, or, where there is none to ask, let Spark look for what is not there: it says where it did."""
    jvm = getattr(session, "_jvm", None)
    if jvm is not None:
        try:
            path = jvm.org.apache.hadoop.fs.Path(written)
        except Exception as error:
            hint = "write it from the root, with a scheme, such as file:///data/out, or without one"
            raise PlanError(message("Spark cannot read this as a path", {"path": written}, hint)) from error
        system = path.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001 - Spark has no public way to it
        return str(system.makeQualified(path).toString())
    from pyspark.errors import AnalysisException

    nowhere = f"nowhere-{uuid.uuid4().hex}"
    try:
        _ = session.read.format("binaryFile").load(f"{written.rstrip('/')}/{nowhere}").schema
    except AnalysisException as error:
        return str((error.getMessageParameters() or {})["path"]).removesuffix(nowhere)
    raise AssertionError(nowhere)


def refuse_overlaps(
    sinks: Mapping[str, Place], checkpoint: Place, sources: Sequence[Place], *, formats: Mapping[str, str]
) -> None:
    """Refuse folders of which one would be written into, or read as part of, another.

    `sinks` has a place for each sink that writes files, by the outputs that it takes; `formats` says how each writes.
    """
    named = list(sinks.items())
    for number, (outputs, place) in enumerate(named):
        for others, other in named[:number]:
            if place == other:
                facts = {others: formats[others], outputs: formats[outputs], "folder": place.address}
                hint = "give each a folder of its own, or both the same format and options"
                raise PlanError(message("two sinks would write to one folder, each in its own way", facts, hint))
            if place.overlaps(other):
                facts = {others: other.address, outputs: place.address}
                hint = "let them stand side by side"
                raise PlanError(message("the folder of a sink lies inside that of another", facts, hint))
        if place.overlaps(checkpoint):
            facts, hint = {outputs: place.address, "checkpoint": checkpoint.address}, "let them stand side by side"
            raise PlanError(message("the folder of a sink and the checkpoint lie inside each other", facts, hint))
        for source in sources:
            if place.overlaps(source):
                facts, hint = {outputs: place.address, "source": source.address}, "write to another folder"
                raise PlanError(message("the query would read what it writes itself", facts, hint))


def folders_read_by(frame: DataFrame) -> list[str]:
    """The paths that a streaming DataFrame reads files from."""
    plan: Any = getattr(frame, "_plan", None)
    if plan is not None:
        session: Any = frame.sparkSession
        return sorted(_paths_in(plan.to_proto(session.client)))
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 - nothing public says it
    relations = [leaves.apply(number) for number in range(leaves.size())]
    files = [one for one in relations if one.getClass().getSimpleName() == "StreamingRelation"]
    options = [one.dataSource().options().get("path") for one in files]
    return sorted(str(option.get()) for option in options if option.isDefined())


def _paths_in(plan: Any) -> set[str]:
    """The paths of all file sources in a plan of Spark Connect, whatever steps stand between."""
    if plan.DESCRIPTOR.name == "DataSource":
        return set(plan.paths) | {value for name, value in plan.options.items() if name == "path"}
    found: set[str] = set()
    for field, value in plan.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if _is_repeated(field) else [value]:
            found |= _paths_in(one)
    return found


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
