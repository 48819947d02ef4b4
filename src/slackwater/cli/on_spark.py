"""Runs a pipeline on Spark: starts its query, shows each micro-batch, and stops it between two of them on Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import slackwater as sw
from slackwater.cli.display import Display, note
from slackwater.cli.pipeline import read_pipeline
from slackwater.cli.places import by_place, nobody_takes, unplaced
from slackwater.cli.row_files import STANDARD_OUTPUT
from slackwater.cli.session import the_session
from slackwater.cli.standing import Standing
from slackwater.cli.stopping import Stop
from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.plan.node import SourceNode, walk
from slackwater.progress.instants import as_duration
from slackwater.streams.diverted_rows import diverted_streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.cli.pipeline import Pipeline
    from slackwater.cli.places import Places

_LOOK_AGAIN: Final = 0.25
"""Seconds between two looks at the query, and at whether somebody pressed Ctrl-C."""

_SHOW_AGAIN: Final = 1.0
"""Seconds between two looks at what Spark reports, which costs something."""

_FORMATS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "parquet": ("parquet", {}), "csv": ("csv", {"header": True}), "jsonl": ("json", {}),
}  # fmt: skip
"""What Spark calls a format, and how it writes it."""


class Choices(NamedTuple):
    """What a query on Spark is started with."""

    available_now: bool = False
    flush: bool = False
    every: str | None = None
    shards: int | None = None
    metrics: str | None = None
    name: str | None = None

    def options(self) -> dict[str, Any]:
        """The same for start()."""
        if self.available_now and self.every is not None:
            facts, hint = {"--every": self.every}, "leave one of them out"
            raise PlanError(message("--available-now ends when all is done, and --every goes on", facts, hint))
        if self.flush and not self.available_now:
            raise PlanError(message("--flush is for a query that ends", {}, "say --available-now, too"))
        trigger: dict[str, Any] | None = {"availableNow": True} if self.available_now else None
        if self.every is not None:
            trigger = {"processingTime": f"{as_duration(self.every, calendar=True) // 1_000} milliseconds"}
        at_end = "flush" if self.flush else None
        return {
            "trigger": trigger,
            "at_end": at_end,
            "shards": self.shards,
            "metrics": self.metrics and _from_the_root(self.metrics),
            "name": self.name,
        }


def run_on_spark(file: str, arguments: Sequence[str], places: Places, choices: Choices, *, quiet: bool) -> None:
    """Start it, and see it through: until it has ended, has failed, or somebody stops it."""
    options = choices.options()
    with Stop() as stop, the_session(file) as session:
        pipeline = read_pipeline(file, "spark", arguments, session=session.get)
        found = places.or_of(pipeline)
        _refuse_what_spark_cannot_read(pipeline.streams)
        outputs, diverted = _main(pipeline, found), _diverted(pipeline, found)
        checkpoint = _checkpoint(found)
        if stop.asked:
            raise KeyboardInterrupt
        query = sw.start_together(outputs, checkpoint=_from_the_root(checkpoint), **diverted, **options)
        if not quiet:
            note(f"query {query.spark.name or query.id} runs, with its checkpoint in {checkpoint}")
        with Display(None, quiet=quiet, seconds=_SHOW_AGAIN) as display:
            stopped = not _seen_through(query, stop, display)
        if stopped:
            note(f"stopped: {_standing(query).line()}")
            note(f"the same command goes on from here, by its checkpoint in {checkpoint}; nothing is lost or doubled")
            raise KeyboardInterrupt
        if not quiet:
            note(_standing(query).counts() if query.last_micro_batch() else "done: there was nothing new")


def _seen_through(query: sw.SparkQuery, stop: Stop, display: Display) -> bool:
    """Show it until it has ended; say whether it has. On Ctrl-C it is stopped between two micro-batches."""
    shown = None
    try:
        while not query.wait(_LOOK_AGAIN):
            if stop.asked:
                note("stopping behind this micro-batch; Ctrl-C again interrupts it, and it is done anew")
                query.stop()
                return False
            if display.wanted and (last := query.last_micro_batch().get("batch_id")) != shown:
                shown = last
                display.show(_standing(query))
    except BaseException:
        query.spark.stop()
        raise
    return True


def _standing(query: sw.SparkQuery) -> Standing:
    last = query.last_micro_batch()
    rate = last["rows_in"] / last["seconds"] if last.get("seconds") else None
    return Standing(query.progress(), query.why(), rate)


def _main(pipeline: Pipeline, places: Places) -> list[tuple[sw.Stream, Any]]:
    """The outputs, each with its sink."""
    left = unplaced(pipeline, places.output)
    if left and places.output in {None, STANDARD_OUTPUT}:
        facts, hint = {"outputs": ", ".join(left)}, "say --output FOLDER"
        raise PlanError(message("a query on Spark writes to folders", facts, hint))
    placed = by_place(left, places.output, "{}") if left and places.output is not None else {}
    return [
        (one.stream, one.sink if name not in placed else _folder(placed[name], places.format))
        for name, one in pipeline.outputs.items()
    ]


def _diverted(pipeline: Pipeline, places: Places) -> dict[str, Any]:
    """Who takes the rows that do not go on; where several steps divert them, a folder for each, by its source."""
    asked = {
        LATE: ("--late", "rows that come too late", 'late = "drop", Late.drop()', places.late),
        LEFT_OUT: ("--left-out", "rows that a merge leaves out", "LeftOutRows.drop()", places.left_out),
    }
    given: dict[str, Any] = {}
    for output, (option, rows, policy, place) in asked.items():
        streams = diverted_streams(*pipeline.streams, output=output)
        if streams and place is None:
            raise nobody_takes(option, rows, streams, policy)
        if place is not None:
            names = list(streams)
            inside = (
                {name: f"{place.rstrip('/')}/{name}" for name in names}
                if len(names) > 1
                else dict.fromkeys(names, place)
            )
            given[option.lstrip("-").replace("-", "_")] = {
                name: _folder(one, places.format) for name, one in inside.items()
            } or _folder(place, places.format)
    return given


def _folder(place: str, form: str | None) -> sw.FolderSink:
    name, options = _FORMATS[form or "parquet"]
    return sw.FolderSink(_from_the_root(place), format=name, options=options)


def _from_the_root(place: str) -> str:
    """A place as it is called from everywhere: Java need not be where this process is."""
    return place if "://" in place else str(Path(place).absolute())


def _checkpoint(places: Places) -> str:
    """The folder of the checkpoint: the one that was named, or one beside the output."""
    if places.checkpoint is not None:
        return places.checkpoint
    if places.output is None:
        raise PlanError(message("a query on Spark has a checkpoint", {}, "say --checkpoint FOLDER"))
    return f"{places.output.rstrip('/')}.checkpoint"


def _refuse_what_spark_cannot_read(streams: Sequence[sw.Stream]) -> None:
    sources = [node for node in walk(*(stream.node for stream in streams)) if isinstance(node, SourceNode)]
    strangers = [one.name for one in sources if not getattr(one.feed, "only_on_spark", False)]
    if strangers:
        facts = {"source": ", ".join(dict.fromkeys(strangers))}
        hint = (
            "take the session in pipeline(spark), and make the stream of a DataFrame of it; or say --runner in-process"
        )
        raise PlanError(message("Spark runs streams of its own DataFrames", facts, hint))
    ended = [one.name for one in sources if not one.feed.live]
    if ended:
        facts, hint = (
            {"source": ", ".join(dict.fromkeys(ended))},
            "read it by spark.readStream, or sw.parquet_files(spark, ...)",
        )
        raise PlanError(message("a query on Spark reads streaming DataFrames, and this one ends", facts, hint))
