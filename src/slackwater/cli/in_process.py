"""Runs a pipeline in process, to the end of its sources or until Ctrl-C, and writes its rows to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import slackwater as sw
from slackwater.cli.display import Display, note
from slackwater.cli.places import by_place, nobody_takes, unplaced
from slackwater.cli.row_files import STANDARD_OUTPUT, row_place
from slackwater.cli.standing import Rate, Standing
from slackwater.cli.stopping import Stop
from slackwater.cli.users_lines import users_lines
from slackwater.errors import PlanError, SlackwaterError, StepFailed, message
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.plan.node import SideOutput, SourceNode, walk
from slackwater.streams.diverted_rows import diverted_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from slackwater.cli.pipeline import Output, Pipeline
    from slackwater.cli.places import Places
    from slackwater.cli.row_files import RowPlace
    from slackwater.plan.node import Node

_LOOK_AGAIN: Final = 0.25
"""Seconds between two looks whether somebody pressed Ctrl-C, while no row comes."""

_GOES_ON: Final = (
    "in process nothing goes on from here: run it again from the start; on Spark it goes on from a checkpoint"
)


class _Bound(NamedTuple):
    """A stream, and who takes its rows."""

    stream: sw.Stream
    take: Callable[[pa.RecordBatch], object]


def run_in_process(pipeline: Pipeline, places: Places, *, quiet: bool) -> None:
    """Run it. What ends it early leaves the rows so far beside what was asked for, and says where."""
    _refuse_frames(pipeline.streams)
    rate = Rate()
    with Stop() as stop, _Files(places.format) as files:
        bound = [*_main(pipeline, places, files), *_diverted(pipeline, places, files)]
        with Display(_rows_to_read(pipeline.streams), quiet=quiet) as display:
            stands = _run(bound, stop, display, rate)
    if not quiet:
        written = files.named()
        note(f"{stands.counts()} in {rate.seconds():,.1f} s" + (f"; rows are in {written}" if written else ""))


def _run(bound: Sequence[_Bound], stop: Stop, display: Display, rate: Rate) -> Standing:
    """Run until it has ended, or somebody stops it. Rows are written between two steps of the query."""
    ready: list[tuple[Callable[[pa.RecordBatch], object], pa.RecordBatch]] = []

    def taker(take: Callable[[pa.RecordBatch], object]) -> Callable[[pa.RecordBatch], object]:
        return lambda rows: ready.append((take, rows))

    query = sw.Query([(stream, taker(take)) for stream, take in bound])
    while not query.finished:
        more = query.step()
        for take, rows in ready:
            take(rows)
        ready.clear()
        if stop.asked and not query.finished:
            query.stop()
            display.end()
            note(f"stopped: {Standing(query.progress(), query.why()).line()}")
            note(_GOES_ON)
            raise KeyboardInterrupt
        if display.wanted:
            progress = query.progress()
            display.show(Standing(progress, query.why(), rate.of(progress.total_in)))
        if not more and not query.finished:
            query.wait_for_more(_LOOK_AGAIN)
    query.close()
    return Standing(query.progress())


def _main(pipeline: Pipeline, places: Places, files: _Files) -> Iterator[_Bound]:
    """The outputs, each with who takes its rows."""
    left = unplaced(pipeline, places.output)
    ending = places.format or "parquet"
    placed = by_place(left, places.output or STANDARD_OUTPUT, f"{{}}.{ending}") if left else {}
    if len(set(placed.values())) > 1 and places.output in {None, STANDARD_OUTPUT}:
        facts, hint = {"outputs": ", ".join(placed)}, "say --output FOLDER: each gets a file there, by its name"
        raise PlanError(message("outputs of different columns do not go to one place", facts, hint))
    for name, output in pipeline.outputs.items():
        yield _Bound(output.stream, _taker(name, output, placed, files))


def _taker(name: str, output: Output, placed: Mapping[str, str], files: _Files) -> Callable[[pa.RecordBatch], object]:
    if name in placed:
        return files.at(placed[name], output.stream, inside=len(set(placed.values())) > 1).write
    if isinstance(output.sink, str | Path):
        return files.at(str(output.sink), output.stream).write
    if callable(output.sink):
        take: Callable[[pa.RecordBatch], object] = output.sink
        return take
    facts, hint = {"output": name, "sink": repr(output.sink)}, "give a path or a function; or say --runner spark"
    raise PlanError(message("this sink is for streams of Spark DataFrames", facts, hint))


def _diverted(pipeline: Pipeline, places: Places, files: _Files) -> Iterator[_Bound]:
    """The rows that do not go on, late or left out, where a step diverts them and no output of the pipeline is them."""
    asked = {
        LATE: ("--late", "rows that come too late", 'late = "drop", Late.drop()', places.late),
        LEFT_OUT: ("--left-out", "rows that a merge leaves out", "LeftOutRows.drop()", places.left_out),
    }
    nodes = walk(*(stream.node for stream in pipeline.streams))
    own = {(node.step, node.output) for node in nodes if isinstance(node, SideOutput)}
    for output, (option, rows, policy, place) in asked.items():
        found = diverted_streams(*pipeline.streams, output=output)
        streams = {name: stream for name, stream in found.items() if not _is_in(own, stream.node)}
        if streams and place is None:
            raise nobody_takes(option, rows, streams, policy)
        if place is not None and not streams:
            facts, hint = {option: place}, f"leave {option} out"
            raise PlanError(message(f"no step of this pipeline diverts {rows}", facts, hint))
        apart = len(streams) > 1  # by their sources, though columns be the same
        for name, stream in streams.items():
            inside = f"{place}/{name}.{places.format or 'parquet'}"
            yield _Bound(stream, files.at(inside if apart else str(place), stream, inside=apart).write)


def _is_in(own: Collection[tuple[object, str]], node: Node) -> bool:
    return isinstance(node, SideOutput) and (node.step, node.output) in own


class _Files:
    """The files that are written; all appear when all went well, and none otherwise."""

    def __init__(self, form: str | None) -> None:
        self._form = form
        self._places: dict[str, tuple[pa.Schema, RowPlace]] = {}

    def at(self, place: str, stream: sw.Stream, *, inside: bool = False) -> RowPlace:
        """A file for the rows of a stream; streams of the same columns share it. One inside a folder makes that."""
        schema, found = self._places.get(place, (stream.schema, None))
        if found is None:
            if inside:
                _make_folder(Path(place).parent)
            found = row_place(place, self._form, schema)
            self._places[place] = schema, found
        elif schema != stream.schema:
            facts, hint = {"place": found.shown}, "name another file"
            raise PlanError(message("rows of different columns do not go to one place", facts, hint))
        return found

    def named(self) -> str:
        """All of them but the standard output."""
        return ", ".join(one.shown for one in self._files())

    def _files(self) -> list[RowPlace]:
        return [one for name, (_, one) in self._places.items() if name != STANDARD_OUTPUT]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for _, place in self._places.values():
                place.finish()
            return
        kept = ", ".join(place.abandon() for place in self._files())
        if isinstance(error, StepFailed) and error.__cause__ is not None:
            for line in users_lines(error.__cause__.__traceback__):
                error.add_note(f"    in  {line}")
        if kept and isinstance(error, KeyboardInterrupt):
            note(f"the rows until then are in {kept}")
        elif kept and isinstance(error, SlackwaterError):
            error.add_note(f"    the rows before it are in {kept}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        hint = "name a folder in one that is there, and that you may write to"
        facts = {"folder": folder, "cause": error.strerror or error}
        raise PlanError(message("rows cannot be written", facts, hint)) from error


def _refuse_frames(streams: Sequence[sw.Stream]) -> None:
    frames = [one.name for one in _sources(streams) if getattr(one.feed, "only_on_spark", False)]
    if frames:
        facts, hint = {"source": ", ".join(dict.fromkeys(frames))}, "say --runner spark"
        raise PlanError(message("a stream of a Spark DataFrame runs on Spark only", facts, hint))


def _rows_to_read(streams: Sequence[sw.Stream]) -> int | None:
    """How many rows there are, where all sources know before they are read."""
    counts: list[Any] = [getattr(one.feed, "rows_if_known", lambda: None)() for one in _sources(streams)]
    return None if None in counts else sum(counts)


def _sources(streams: Sequence[sw.Stream]) -> list[SourceNode]:
    return [node for node in walk(*(stream.node for stream in streams)) if isinstance(node, SourceNode)]
