"""Folders of files as sinks: each belongs to one query, and each micro-batch appears there once, whole, and for good.

    out/_slackwater/owner.json                 which query may write here, and which batches are whose
    out/_slackwater/staged/...                 a micro-batch while it is written
    out/batch_id=7/part-00000-....parquet      one that is written
    out/batch_id=7/_slackwater/batch.json      which query's, and which micro-batch it was

A micro-batch is written beside the others and then moved to its place in one step. After a crash Spark runs the last
micro-batch again: one that is there already is not written again, so that nobody who reads the folder, be it a stream,
sees other files for the same rows. On object stores, which cannot move a folder in one step, and wherever only Spark
itself can reach the files, it is written in place, and written anew if it was not finished.

A query that adopts a folder goes on behind the last batch: stretches of numbers belong to different queries.
Names that begin with `_` are skipped by the readers of Spark, pandas and Arrow. For Polars write
`out/batch_id=*/*.parquet`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from slackwater.errors import PlanError, RunError, Superseded, message
from slackwater.runners.spark.checkpoint.ownership import HIDDEN, as_record, last_batch_begun, read_record
from slackwater.runners.spark.output.driver_parquet import DriverParquet
from slackwater.runners.spark.storage.files import writing_to
from slackwater.runners.spark.storage.places import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files

_BATCH: Final = "batch_id="
_NOWHERE: Final = "noop"
"""The format of Spark that writes nothing."""


@dataclass(frozen=True)
class FolderSink:
    """Files of any format that Spark has, a folder for each micro-batch: `batch_id=7` in the folder given.

    The folder belongs to the query that first writes there, as long as its checkpoint lives. Another one is refused,
    unless it adopts the folder: `adopt` is the id of the query that had it, which the refusal names.

    >>> import slackwater as sw
    >>> sink = sw.FolderSink(f"{folder}/out", format="csv", options={"header": True})
    >>> frame = spark.createDataFrame([(1, "a")], "at long, k string")
    >>> frame.write.mode("append").parquet(f"{folder}/in")
    >>> rows = sw.stream(spark.readStream.schema(frame.schema).parquet(f"{folder}/in"), time="at").sort(patience=5)
    >>> query = rows.start(
    ...     checkpoint=f"{folder}/checkpoint",
    ...     main=sink,
    ...     on_late=lambda rows, batch_id: None,
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> spark.read.csv(f"{folder}/out", header=True).first().k
    'a'
    """

    path: str
    format: str = "parquet"
    options: Mapping[str, Any] = field(default_factory=dict)
    adopt: str | None = None
    reads_once: ClassVar = True
    """Whether rows are asked for only once, so that they need not be kept."""

    def place(self, session: SparkSession) -> Place | None:
        """Where it writes; None if nowhere."""
        return None if self.format == _NOWHERE else place_of(session, self.path)

    def described(self) -> str:
        """How it writes, in words."""
        return ", ".join([self.format, *(f"{name}={value}" for name, value in sorted(self.options.items()))])

    def claimed(self, session: SparkSession, run: Run) -> Claim | NoFolder:
        """See whether a run may write here; refuse it if not. Nothing is written yet."""
        place = self.place(session)
        return NoFolder() if place is None else Claim.of(self, place, session, run)


@dataclass(frozen=True)
class Stretch:
    """Batches of one query: its micro-batches from `first` on are folders from `number` on."""

    query: str
    first: int
    number: int


@dataclass(frozen=True)
class Claim:
    """A folder that a run may have: `take()` it, and it writes there."""

    sink: FolderSink
    place: Place
    run: Run
    stretches: tuple[Stretch, ...]
    new: bool
    """Whether nobody has had it yet."""

    @classmethod
    def of(cls, sink: FolderSink, place: Place, session: SparkSession, run: Run) -> Claim:
        """Look at who has the folder."""
        with writing_to("the folder of a sink", place):
            files = run.files(session, place)
            text, names = files.read(_owner_at(place)), files.names(place.address)
        found = [int(name.removeprefix(_BATCH)) for name in names if name.removeprefix(_BATCH).isdecimal()]
        if text is None:
            _refuse_what_nobody_has(place, names)
            if sink.adopt is not None:
                facts, hint = (
                    {"folder": place.address, "adopt": sink.adopt},
                    "leave adopt= out, or name the right folder",
                )
                raise PlanError(
                    message("there is nothing to adopt: no query has had the folder of a sink", facts, hint)
                )
            return cls(sink, place, run, (Stretch(run.query, 0, 0),), new=True)
        record = read_record(text, place)
        stretches = tuple(Stretch(**one) for one in record["stretches"])
        if record["files"] != sink.format:
            facts, hint = (
                {"folder": place.address, "format": record["files"], "now": sink.format},
                "write to another folder",
            )
            raise PlanError(message("the folder of a sink has files of another format", facts, hint))
        if record["query"] != run.query:
            _refuse_unless_adopted(sink, place, record, len(found))
            stretches = (*stretches, next_stretch(stretches, run.query, max(found, default=-1) + 1))
        claim = cls(sink, place, run, stretches, new=False)
        claim._refuse_later_batches(session, files, found)
        return claim

    def _refuse_later_batches(self, session: SparkSession, files: Files, found: Sequence[int]) -> None:
        """Refuse a checkpoint that is older than the folder: its next micro-batches are others of the same name."""
        stretch, begun = self.stretches[-1], last_batch_begun(session, self.run)
        owned = OwnedFolder(self.sink, self.place, self.run, self.stretches)
        later = [
            number for number in found if number >= stretch.number and number - stretch.number + stretch.first > begun
        ]
        whole = [number for number in sorted(later) if owned.written_by(files, number) is not None]
        if whole:
            name = f"{_BATCH}{whole[0]}"
            facts = {"folder": f"{self.place.address}/{name}", "checkpoint ends with": f"micro-batch {begun}"}
            hint = f"remove {name} and those behind it if the checkpoint was restored from a copy"
            raise PlanError(message("the folder of a sink is further than the checkpoint", facts, hint))

    def take(self, session: SparkSession) -> OwnedFolder:
        """Write down whose the folder is, and remove what an earlier run left half-written."""
        facts = {"query": self.run.query, "run": self.run.run, "epoch": self.run.epoch, "plan": dict(self.run.plan)}
        text = as_record(**facts, files=self.sink.format, stretches=[asdict(one) for one in self.stretches])
        with writing_to("the folder of a sink", self.place):
            files = self.run.files(session, self.place)
            if not self.new:
                files.replace(_owner_at(self.place), text)
            elif not files.create(_owner_at(self.place), text):
                raise _other_owner(self.place, read_record(files.read(_owner_at(self.place)) or "", self.place))
            if files.renames:
                files.remove(f"{self.place.address}/{HIDDEN}/staged")
        on_driver = DriverParquet.of(session, self.sink.format, self.sink.options) if files.renames else None
        return OwnedFolder(self.sink, self.place, self.run, self.stretches, on_driver)


@dataclass(frozen=True)
class OwnedFolder:
    """A folder that a run writes to."""

    sink: FolderSink
    place: Place
    run: Run
    stretches: tuple[Stretch, ...]
    on_driver: DriverParquet | None = None
    """How the driver writes a few rows itself; None if only Spark can."""

    reads_once: ClassVar = True
    """Rows are asked for only once."""

    @property
    def prefers_few(self) -> bool:
        """Whether few rows cost less if they come by the driver, though they are kept for it."""
        return self.on_driver is not None

    def has(self, session: SparkSession, batch_id: int) -> bool:
        """Whether a micro-batch is written already. Refuse to say for a folder that has gone to another query."""
        files = self.run.files(session, self.place)
        self._require_owned(files)
        number = self.number_of(batch_id)
        found = self.written_by(files, number)
        if found is None:
            return False
        if (found["query"], found["batch"]) != (self.run.query, batch_id):
            facts = {
                "folder": f"{self.place.address}/{_BATCH}{number}",
                "of query": found["query"],
                "this": self.run.query,
            }
            hint = "move that folder away, and start the query again"
            raise RunError(message("another query wrote a batch where this one goes on", facts, hint))
        return True

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write a micro-batch that is not there yet."""
        writer = rows.write.mode("overwrite").format(self.sink.format).options(**self.sink.options)
        self._write_by(lambda _, folder: writer.save(folder), rows.sparkSession, batch_id)

    def write_few(self, tables: Sequence[pa.Table], columns: StructType, session: SparkSession, batch_id: int) -> bool:
        """The same for a few rows that the driver has; say whether it was done. If not, it is left to Spark."""
        data = None if self.on_driver is None else self.on_driver.file_of(tables, columns)
        if data is None:
            return False

        def save(files: Files, folder: str) -> None:
            with writing_to("the folder of a sink", self.place):
                files.remove(folder)
                files.put(f"{folder}/part-00000.parquet", data)
                files.put(f"{folder}/_SUCCESS", pa.py_buffer(b""))  # as Spark does, for those who wait for it

        self._write_by(save, session, batch_id)
        return True

    def _write_by(self, save: Callable[[Files, str], object], session: SparkSession, batch_id: int) -> None:
        """Let files be written where nobody looks, and then appear; in place, if nothing can be moved."""
        files, number = self.run.files(session, self.place), self.number_of(batch_id)
        batch = f"{self.place.address}/{_BATCH}{number}"
        staged = f"{self.place.address}/{HIDDEN}/staged/{self.run.run}-{batch_id}" if files.renames else batch
        save(files, staged)
        facts = as_record(query=self.run.query, run=self.run.run, batch=batch_id)
        files.replace(f"{staged}/{HIDDEN}/batch.json", facts)
        if files.renames:
            self._publish(files, staged, batch, number)

    def _publish(self, files: Files, staged: str, batch: str, number: int) -> None:
        """Let a micro-batch appear, in the place of one that is half there, if there is."""
        self._require_owned(files)
        if self.written_by(files, number) is None:
            files.remove(batch)
        if not files.move(staged, batch):
            files.remove(staged)  # a driver that was thought dead was a moment faster: it has written the same

    def number_of(self, batch_id: int) -> int:
        """The number under which a micro-batch of this query stands in the folder."""
        stretch = next(one for one in reversed(self.stretches) if one.query == self.run.query and one.first <= batch_id)
        return stretch.number + batch_id - stretch.first

    def written_by(self, files: Files, number: int) -> dict[str, Any] | None:
        """Whose a batch is; None if it is not there, or not whole."""
        text = files.read(f"{self.place.address}/{_BATCH}{number}/{HIDDEN}/batch.json")
        return None if text is None else read_record(text, self.place)

    def _require_owned(self, files: Files) -> None:
        text = files.read(_owner_at(self.place))
        if text is None:
            facts, hint = {"folder": self.place.address}, f"put its {HIDDEN} back, and start the query again"
            raise RunError(message("the owner file of a sink folder is gone", facts, hint))
        record = read_record(text, self.place)
        if record["run"] != self.run.run:
            facts = {"folder": self.place.address, "owner": record["query"], "this query": self.run.query}
            hint = "leave it to the newer one, or write to another folder; nothing is lost"
            raise Superseded(message("the folder of a sink was taken over", facts, hint))


@dataclass(frozen=True)
class NoFolder:
    """A claim on nothing, for a format that writes nothing."""

    reads_once: ClassVar = True
    """Rows are asked for only once."""

    def take(self, session: SparkSession) -> NoFolder:  # noqa: ARG002 - as for folders
        """Nothing is taken."""
        return self

    def write(self, rows: DataFrame, batch_id: int) -> None:  # noqa: ARG002 - as for folders
        """Let rows be computed, and write nothing."""
        rows.write.mode("overwrite").format(_NOWHERE).save()

    def write_few(self, tables: Sequence[pa.Table], columns: StructType, session: SparkSession, batch_id: int) -> bool:  # noqa: ARG002 - as for folders
        """Nothing is left to do for rows that the driver has: they are computed."""
        return True


def _owner_at(place: Place) -> str:
    return f"{place.address}/{HIDDEN}/owner.json"


def next_stretch(stretches: Sequence[Stretch], query: str, number: int) -> Stretch:
    """The stretch of a query that comes behind all others; micro-batches that it wrote earlier stay where they are."""
    first = 0
    for one, behind in zip(stretches, [*(other.number for other in stretches[1:]), number], strict=True):
        if one.query == query:
            first = one.first + behind - one.number
    return Stretch(query, first, number)


def _refuse_what_nobody_has(place: Place, names: Sequence[str]) -> None:
    seen = [name for name in names if not name.startswith(("_", "."))]
    if seen:
        facts, hint = (
            {"folder": place.address, "has": ", ".join(seen[:3])},
            "write to another folder, or empty this one",
        )
        raise PlanError(message("the folder of a sink has something in it that no query wrote", facts, hint))


def _refuse_unless_adopted(sink: FolderSink, place: Place, record: Mapping[str, Any], batches: int) -> None:
    if sink.adopt != record["query"]:
        raise _other_owner(place, record, batches)


def _other_owner(place: Place, record: Mapping[str, Any], batches: int | None = None) -> PlanError:
    facts = {"folder": place.address, "owner": record["query"], **({} if batches is None else {"batches": batches})}
    hint = (
        "go on with the checkpoint of that query, or write to another folder, "
        f"or go on behind its last batch: slackwater.runners.spark.FolderSink(path, adopt={record['query']!r})"
    )
    return PlanError(message("the folder of a sink belongs to another query", facts, hint))
