"""Whose a checkpoint is, and which run of a query works on it now: two cannot, and the newest wins.

A checkpoint belongs to a query for good. Beside what Spark keeps there, `_slackwater/query.json` has

    query   an id, made when the checkpoint is; folders of sinks are marked with it (`folder_sink.py`)
    run     an id, made by every start()
    epoch   how many starts there were
    plan    what a stored state depends on, line by line (`plan_lines.py`)
    state   the version of the form in which states are stored
    log     the folder inside in which Spark keeps its own files, once shards have become others (`rescaling.py`)
    before  how many micro-batches there were before the first that this folder has
    given   the `shards=` that the start was given, if it was
    fixed   why shards cannot become others; empty if they can (`wishes.py` looks at both when there is no Spark)
    control what control records may ask, by names of sources, steps and replicas; null where none are read

Rule 1: a start writes its own run there; whoever finds another run than its own stops, before it writes anything.
Rule 2: a plan that does not fit is refused before Spark starts.

A driver that was thought dead and works again finds the run of the driver that took its place. It stops at its next
micro-batch. In the one that both may be in they write the same: what a micro-batch reads is decided by Spark's log of
offsets, of which there is one.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, RunError, Superseded, message
from slackwater.runners.spark.planning.plan_lines import Line, differences
from slackwater.runners.spark.state.segments import VERSION
from slackwater.runners.spark.storage.files import files_at, shares_files, writing_to
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.storage.files import Files

HIDDEN: Final = "_slackwater"
"""The folder of our own files, inside a checkpoint, the folder of a sink, or that of a batch. Readers skip it."""

FORMAT: Final = 1
"""The form of these files."""

_NO_TIMEOUT: Final = Line("none")
_OTHER_CHECKPOINT: Final = "go on with the plan that made it, or start anew with another checkpoint and other folders"


@dataclass(frozen=True)
class Run:
    """One start of a query, as its checkpoint has it. It travels to where micro-batches are written."""

    query: str
    run: str
    epoch: int
    plan: Mapping[str, Line]
    checkpoint: Place
    shared: bool = True
    """Whether local files are those that Spark sees."""

    log: str = ""
    """Where in the checkpoint Spark's own files are; at its root, unless shards have become others."""

    before: int = 0
    """The number of the micro-batch that Spark calls 0."""

    given: int | None = None
    """How many shards the program says there are, if it does."""

    fixed: str = ""
    """Why it cannot have another number of shards; empty if it can."""

    control: Mapping[str, Any] | None = None
    """What control records may ask of it; None where it reads none."""

    @property
    def logs(self) -> Place:
        """Where Spark's own files are."""
        return Place.written(f"{self.checkpoint.address}/{self.log}") if self.log else self.checkpoint

    def files(self, session: SparkSession, place: Place) -> Files:
        """The way to the files of a place."""
        return files_at(session, place, shared=self.shared)

    def require_newest(self, session: SparkSession) -> None:
        """Refuse to go on when another run has taken the checkpoint over."""
        files = self.files(session, self.checkpoint)
        text = files.read(_record_at(self.checkpoint))
        if text is None:
            facts, hint = {"checkpoint": self.checkpoint.address}, "put it back, and start the query again"
            raise RunError(message("the checkpoint of a running query is gone", facts, hint))
        record = read_record(text, self.checkpoint)
        if record["run"] != self.run:
            starts = {"this start": self.epoch, "newest start": record["epoch"]}
            hint = "leave it to the newer one: nothing is lost; start this one again only when that has stopped"
            facts = {"checkpoint": self.checkpoint.address, **starts}
            raise Superseded(message("another driver has taken over this checkpoint", facts, hint))

    def write(self, session: SparkSession) -> None:
        """Take the checkpoint over."""
        with writing_to("the checkpoint", self.checkpoint):
            self.files(session, self.checkpoint).replace(_record_at(self.checkpoint), self._text())

    def _text(self) -> str:
        facts = {name: value for name, value in asdict(self).items() if name not in {"checkpoint", "shared"}}
        return as_record(state=VERSION, **facts)


def next_run(session: SparkSession, checkpoint: Place, plan: Mapping[str, Line]) -> Run:
    """The run that a start would be: of a new query, or the next of the one whose checkpoint it is.

    Nothing is written. A checkpoint of another plan, or of another version of this library, is refused.
    """
    record, shared = record_of(session, checkpoint)
    first = Run(uuid.uuid4().hex, uuid.uuid4().hex, 1, dict(plan), checkpoint, shared)
    if record is None:
        return first
    _require_same(_lines_in(record), plan, checkpoint)
    kept = {"query": record["query"], "log": record.get("log", ""), "before": record.get("before", 0)}
    return replace(first, epoch=record["epoch"] + 1, **kept)


def shards_in(record: Mapping[str, Any]) -> int:
    """How many shards a query had when it was started last, by what its checkpoint says."""
    return int(_lines_in(record)["shards"].says)


def record_of(session: SparkSession, checkpoint: Place) -> tuple[dict[str, Any] | None, bool]:
    """What a checkpoint says of its query, if it has one, and whether local files are those that Spark sees."""
    with writing_to("the checkpoint", checkpoint):
        shared = shares_files(session, checkpoint)
        return stored_record(files_at(session, checkpoint, shared=shared), checkpoint), shared


def stored_record(files: Files, checkpoint: Place) -> dict[str, Any] | None:
    """What a checkpoint says of its query, if it has one. One of another version of this library is refused."""
    text = files.read(_record_at(checkpoint))
    record = None if text is None else read_record(text, checkpoint)
    if record is not None and record["state"] != VERSION:
        facts = {"checkpoint": checkpoint.address, "version": record["state"], "this library reads": VERSION}
        hint = "go on with the version of slackwater that wrote it, or start anew with another checkpoint"
        raise PlanError(message("stored state has a format version that this release cannot read", facts, hint))
    return record


def required_record(files: Files, checkpoint: Place) -> dict[str, Any]:
    """The same, of a folder that somebody names; one that is no query's is refused."""
    record = stored_record(files, checkpoint)
    if record is None:
        hint = "name the folder that start(checkpoint=...) was given"
        raise PlanError(message("no query has this checkpoint", {"checkpoint": checkpoint.address}, hint))
    return record


def _lines_in(record: Mapping[str, Any]) -> dict[str, Line]:
    return {name: Line(*parts) for name, parts in record["plan"].items()}


def last_batch_begun(session: SparkSession, run: Run) -> int:
    """The greatest number of a micro-batch whose offsets a checkpoint has; -1 if it has none."""
    with writing_to("the checkpoint", run.checkpoint):
        begun = numbers_in(run.files(session, run.logs), f"{run.logs.address}/offsets")
    return begun[-1] + run.before if begun else -1


def numbers_in(files: Files, folder: str) -> list[int]:
    """The numbers that files of a folder are called by, the least first."""
    return sorted(int(name) for name in files.names(folder) if name.isdecimal())


def as_record(**facts: Any) -> str:
    """Write what is known as the text of a file."""
    return json.dumps({"format": FORMAT, **facts})


def read_record(text: str, place: Place) -> dict[str, Any]:
    """Read one of our files; refuse one that is damaged, or that another version wrote."""
    try:
        record = json.loads(text)
        form = record["format"]
    except (ValueError, TypeError, KeyError) as error:
        cause = f"{type(error).__name__}: {error}"
        hint = f"restore its {HIDDEN} from a copy"
        raise RunError(
            message("the owner file of a folder is damaged", {"folder": place.address, "cause": cause}, hint)
        ) from error
    if form != FORMAT:
        facts: dict[str, object] = {"folder": place.address, "format": form, "this library reads": FORMAT}
        raise PlanError(message("a folder was marked by another version of slackwater", facts, _OTHER_CHECKPOINT))
    return dict(record)


def _record_at(checkpoint: Place) -> str:
    return f"{checkpoint.address}/{HIDDEN}/query.json"


def _require_same(then: Mapping[str, Line], now: Mapping[str, Line], checkpoint: Place) -> None:
    """Refuse a plan that differs where states, or what has been decided, depend on it; show it line by line."""
    found = differences(then, now)
    if found:
        headline = "\n    ".join(["this checkpoint was made by a different plan", *found])
        raise PlanError(message(headline, {"checkpoint": checkpoint.address}, _hint_of(then, now)))


def _hint_of(then: Mapping[str, Line], now: Mapping[str, Line]) -> str:
    """What to do; the choices of a start are easily made as before."""
    other = {name for name in {**then, **now} if then.get(name) != now.get(name)}
    as_before = [choice for name, line in then.items() if name in other and (choice := _as_before(name, line))]
    if len(as_before) < len(other):
        return _OTHER_CHECKPOINT
    may_be_parted = other == {"shards"} and now.get("timeout", _NO_TIMEOUT) == _NO_TIMEOUT
    rescaled = "; or say rescale=True, and what is held goes to the new number of them" if may_be_parted else ""
    return f"start with {' and '.join(as_before)}{rescaled}"


def _as_before(name: str, line: Line) -> str:
    """How a start is made to choose as before; empty for what is in the plan."""
    match name, line.says:
        case "shards", number:
            return f"shards={number}"
        case "timeout" | "at_end", "none":
            return f"no {name}="
        case "timeout", _:
            return "a timeout="
        case "at_end", end:
            return f"at_end={end!r}"
    return ""
