"""What somebody wishes of the next start of a query: that it goes on in another number of shards.

States can be parted only by who has the plan (`rescaling.py`), and that is the query's own program. So the command
`slackwater rescale` changes nothing: it leaves a wish in the checkpoint, `_slackwater/wish.json`, and the next start()
does what it would do for `shards=8, rescale=True`. A query that runs goes on until it is started again.

    slackwater rescale ── wish.json ── start(): states are parted ── query.json has 8 ── wish.json is removed

Whoever is killed in between finds what is left to do: a wish for as many as there are is removed, and nothing else.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.runners.spark.checkpoint.ownership import (
    HIDDEN,
    as_record,
    read_record,
    record_of,
    required_record,
    shards_in,
)
from slackwater.runners.spark.storage.files import SparkFiles, files_at, reached, writing_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files
    from slackwater.runners.spark.storage.places import Place

_COMMAND: Final = "slackwater rescale"


def wish_for(path: str, shards: int) -> str:
    """Wish for so many shards from the next start on, or, for as many as there are, for nothing; say what will be."""
    if shards < 1:
        raise PlanError(message("shards is a whole number above zero", {"got": shards}))
    place, files = reached(path)
    with writing_to("the checkpoint", place):
        record = required_record(files, place)
        there, given = shards_in(record), record.get("given")
        if shards == there:
            files.remove(_wish_at(place))
            return message(f"the query stays in {there} shard{'s' * (there > 1)}", {"checkpoint": place.address})
        _refuse_what_cannot_be(files, place, record)
        files.replace(_wish_at(place), as_record(query=record["query"], shards=shards))
    facts = {"checkpoint": place.address, "last start": f"number {record['epoch']}"}
    hint = f"until then nothing changes; {_take_back(place, there)} takes it back"
    if given is not None:
        facts["its program"] = f"was given shards={given}: leave that out, or the next start is refused"
    become = "1 shard becomes" if there == 1 else f"{there} shards become"
    return message(f"{become} {shards} when the query is started again", facts, hint)


def _refuse_what_cannot_be(files: Files, place: Place, record: dict[str, Any]) -> None:
    """Refuse what the next start would refuse, as far as the last one knew."""
    because = record.get("fixed", "")
    if files.names(f"{place.address}/flushed"):
        because = "it has been flushed, and has come to its end"
    if because:
        facts, hint = {"checkpoint": place.address, "because": because}, "leave it at as many as it has"
        raise PlanError(message("this query cannot be taken to another number of shards", facts, hint))


@dataclass(frozen=True)
class Earlier:
    """What a start finds of the one before it."""

    checkpoint: Place
    shards: int | None = None
    """How many there were; None if there was none."""

    wished: int | None = None
    """How many somebody wishes for, if anybody does."""

    wish: str | None = None
    """The wish as it is written, also where it is none of this query's."""

    controlled: bool | None = None
    """Whether it read control records; None if there was none."""

    @contextmanager
    def as_wished(self) -> Iterator[None]:
        """Say in a refusal whose wish it was."""
        try:
            yield
        except PlanError as refusal:
            if self.wished is None:
                raise
            taken_back = _take_back(self.checkpoint, self.shards)
            raise PlanError(f"{refusal}; {self.wished} were wished for, which this takes back: {taken_back}") from None


def earlier_start(session: SparkSession, checkpoint: Place, given: int | None) -> Earlier:
    """How many shards there were, and how many somebody wishes for; refused where start() says another number."""
    record, shared = record_of(session, checkpoint)
    if record is None:
        return Earlier(checkpoint)
    with writing_to("the checkpoint", checkpoint):
        text = files_at(session, checkpoint, shared=shared).read(_wish_at(checkpoint))
    there, wish = shards_in(record), None if text is None else read_record(text, checkpoint)
    controlled = record.get("control") is not None
    if wish is None or wish["query"] != record["query"]:  # of one that had the folder before
        return Earlier(checkpoint, there, wish=text, controlled=controlled)
    wished = int(wish["shards"])
    if given not in {None, wished}:
        facts = {"checkpoint": checkpoint.address, "start() says": f"shards={given}", "wished were": wished}
        hint = f"leave shards= out; or take the wish back: {_take_back(checkpoint, there)}"
        raise PlanError(message("somebody wished for another number of shards than start() says", facts, hint))
    return Earlier(checkpoint, there, wished, text, controlled)


def grant(session: SparkSession, run: Run, earlier: Earlier) -> None:
    """Forget the wish that a start has found, and fulfilled or had no use for; one that came since is for the next."""
    files = run.files(session, run.checkpoint)
    if earlier.wish is not None and not isinstance(files, SparkFiles):
        with writing_to("the checkpoint", run.checkpoint):
            if files.read(_wish_at(run.checkpoint)) == earlier.wish:
                files.remove(_wish_at(run.checkpoint))


def _take_back(checkpoint: Place, shards: int | None) -> str:
    return f"{_COMMAND} {checkpoint.address} --shards {shards}"


def _wish_at(checkpoint: Place) -> str:
    return f"{checkpoint.address}/{HIDDEN}/wish.json"
