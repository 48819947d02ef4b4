"""The folder of a checkpoint that control records are written to, and that the query reads as one of its sources.

    query.control, slackwater control ── control/0000000007.json ── a source of the query ── every shard

Spark finds the files as it finds those of any source, and writes into its log of offsets which of them belong to a
micro-batch. So a record is read once, in a micro-batch of its own or together with rows, and a micro-batch that is done
again has the same records. They reach every shard, whichever rows it has.

Rule 1: a file appears whole, and a number is given once, whoever else writes at the same time.
Rule 2: a record stays where it is: what a micro-batch has read must be there if it is done again.

Where only Spark reaches the files (Connect to another machine) two who write at the same moment may take one number,
and one of them is lost; nothing there is made only if it is not there yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.progress.instants import FOREVER
from slackwater.runners.control import Control, standing_of
from slackwater.runners.control_records import Controllable, ControlRecord
from slackwater.runners.spark.checkpoint.ownership import HIDDEN, as_record, required_record
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.storage.files import reached, writing_to
from slackwater.runners.spark.wire.packed_rows import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.control import AskedRecord
    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.checkpoint.wishes import Earlier
    from slackwater.runners.spark.storage.files import Files
    from slackwater.runners.spark.storage.places import Place
    from slackwater.runners.steering import SteeringState

_ENDING: Final = ".json"
_DIGITS: Final = 10
_UNUSED: Final = ("CAST(-1 AS INT) AS pipeline", "0L AS task", f"CAST({CONTROL} AS LONG) AS number")
_TEXT: Final = ("0L AS rows", "0L AS high_water", "CAST(value AS BINARY) AS body")
_NO_CLOCK: Final = (f"CAST({FOREVER} AS LONG) AS since", "0L AS now")


@dataclass(frozen=True)
class ControlFolder:
    """The folder of one query, by its checkpoint."""

    checkpoint: Place
    files: Files
    controllable: Controllable
    """What may be asked of it."""

    @classmethod
    def of_run(cls, session: SparkSession, run: Run) -> ControlFolder | None:
        """The folder of a start; None if it reads no records."""
        if run.control is None:
            return None
        return cls(run.checkpoint, run.files(session, run.checkpoint), Controllable.stored(run.control))

    @property
    def address(self) -> str:
        """Where it is."""
        return f"{self.checkpoint.address}/control"

    def beside(self, packed: DataFrame, shards: int) -> DataFrame:
        """Packed rows, and the records, each for every shard."""
        with writing_to("the checkpoint", self.checkpoint):
            # Spark reads no folder that is not there; of this file it sees nothing.
            self.files.create(f"{self.address}/{HIDDEN}", as_record(what="records of slackwater control"))
        keys = ", ".join(f"{key}L" for key in shard_keys(shards))
        reader = packed.sparkSession.readStream.option("wholetext", "true").option("recursiveFileLookup", "true")
        every = f"explode(array({keys})) AS shard"
        return packed.union(reader.text(self.address).selectExpr(every, *_UNUSED, *_TEXT, *_NO_CLOCK))

    def write(self, record: ControlRecord) -> int:
        """Write a record down, and return the number that it got."""
        with writing_to("the checkpoint", self.checkpoint):
            number = max(self.numbers(), default=0) + 1
            while not self.files.create(self._file(number), record.numbered(number).as_text()):
                number += 1
        return number

    def numbers(self) -> list[int]:
        """The numbers of the records that are there."""
        names = (name.removesuffix(_ENDING) for name in self.files.names(self.address) if name.endswith(_ENDING))
        return sorted(int(name) for name in names if name.isdecimal())

    def asked(self) -> dict[int, str]:
        """What was asked, by number; of what is no record, as much."""
        found = {}
        for number in self.numbers():
            try:
                found[number] = str(ControlRecord.of_text(self.files.read(self._file(number)) or ""))
            except PlanError:
                found[number] = "this is no record"
        return found

    def _file(self, number: int) -> str:
        return f"{self.address}/{number:0{_DIGITS}}{_ENDING}"


class SparkControl(Control):
    """Writes records for a query on Spark, and reads in its reports what has become of them."""

    def __init__(self, folder: ControlFolder, states: Callable[[], list[tuple[int, SteeringState]]] = list) -> None:
        self._folder = folder
        self._states = states

    def __repr__(self) -> str:
        return f"<control records in {self._folder.address}>"

    def _controllable(self) -> Controllable:
        return self._folder.controllable

    def _ask(self, record: ControlRecord) -> int:
        return self._folder.write(record)

    def records(self) -> list[AskedRecord]:
        """What has been asked so far; what has become of it is known from the first micro-batch after a start on."""
        states = self._states()
        state = states[-1][1] if states else None
        return [
            standing_of(number, asked, state, _first_that_had_read(states, number))
            for number, asked in self._folder.asked().items()
        ]

    def asked(self) -> list[str]:
        """What has been asked so far, line by line; of a query that may run elsewhere no more is known."""
        return [f"{number}  {asked}" for number, asked in self._folder.asked().items()]


def _first_that_had_read(states: list[tuple[int, SteeringState]], number: int) -> int | None:
    """In which micro-batch a record was read; None if that was before all that is remembered."""
    had_read = [state.has_read(number) for _, state in states]
    return states[had_read.index(True)][0] if True in had_read[1:] and not had_read[0] else None


def control_of(path: str) -> SparkControl:
    """Write records for the query of a checkpoint, wherever it runs, as far as its last start noted what it can do."""
    place, files = reached(path)
    with writing_to("the checkpoint", place):
        notes = required_record(files, place).get("control")
    if notes is None:
        raise _not_controlled(place)
    return SparkControl(ControlFolder(place, files, Controllable.stored(notes)))


def require_as_before(earlier: Earlier, control: object) -> bool:
    """Whether a start has a control stream: as it was chosen, and as the checkpoint has it."""
    if not (control is None or isinstance(control, bool)):
        hint = "say control=True, or leave it out"
        raise PlanError(message("control= says whether records are read", {"got": repr(control)}, hint))
    if earlier.controlled is None:
        return bool(control)
    if control is None or control == earlier.controlled:
        return earlier.controlled
    if control:
        raise _not_controlled(earlier.checkpoint)
    facts = {"checkpoint": earlier.checkpoint.address}
    hint = "leave control= out: Spark's log of offsets has its records as a source"
    raise PlanError(message("this query has a control stream, and keeps it", facts, hint))


def _not_controlled(checkpoint: Place) -> PlanError:
    facts: dict[str, Any] = {"checkpoint": checkpoint.address}
    hint = "say start(control=True) with a new checkpoint: Spark adds no source to a log of offsets that is there"
    return PlanError(message("this query was started without control=True", facts, hint))
