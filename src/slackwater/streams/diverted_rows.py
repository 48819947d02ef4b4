"""Rows that did not go on, late or left out by a merge: which steps divert them, and who takes them.

None is lost silently: a query in which nobody takes them is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.plan.diverted_names import names_of_diverted
from slackwater.plan.node import SideOutput, StepNode, diverting_steps, nearest_diverting_steps, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from slackwater.operators.emission import OutputName
    from slackwater.streams.disordered import DisorderedStream
    from slackwater.streams.stream import Stream

Callback: TypeAlias = "Callable[[pa.RecordBatch], Any]"
"""Takes rows as users see them, time columns included."""


class _Words(NamedTuple):
    """How messages speak of rows that did not go on."""

    rows: str
    lost: str
    take: str
    choose: str
    drop: str


_WORDS: Final = {
    LATE: _Words(
        "late rows",
        "rows that come too late would be lost: nobody takes them",
        "take them with on_late=..., read `stream.late` in the same query",
        "choose Late.divert() at the step that says when a row is too late",
        "Late.drop()",
    ),
    LEFT_OUT: _Words(
        "rows that are left out",
        "rows that a merge of replicas leaves out would be lost: nobody takes them",
        "take them with on_left_out=..., read `stream.left_out` in the same query",
        "merge_replicas(..., left_out=LeftOutRows.divert())",
        "LeftOutRows.drop()",
    ),
}


def diverted_streams(*streams: Stream, output: OutputName = LATE) -> dict[str, DisorderedStream]:
    """The late rows, or those left out, of every step that diverts them, by the name of the source."""
    steps = names_of_diverted(*(stream.node for stream in streams), output=output)
    return {name: _rows_of(step, output) for step, name in steps.items()}


def nearest_diverted_stream(stream: Stream, output: OutputName = LATE) -> DisorderedStream:
    """The late rows, or those left out, of the nearest step above; refused where there is none, or more than one."""
    hint = f"ask for the {_WORDS[output].rows} of a stream right behind one of these steps"
    return _rows_of(_the_one(nearest_diverting_steps(stream.node, output), stream, hint, output), output)


def only_late_stream(stream: Stream) -> DisorderedStream:
    """The late rows of the one step above a stream that diverts, however far; refused where there are more."""
    hint = "take the rows of all of them with for_each(..., on_late=...), or from the result of run()"
    return _rows_of(_the_one(diverting_steps(stream.node), stream, hint, LATE), LATE)


def require_diverted_rows_taken(*streams: Stream, besides: Iterable[OutputName] = ()) -> None:
    """Refuse a query in which a step diverts rows and no stream reads them; but for outputs that somebody will take."""
    roots = [stream.node for stream in streams]
    read = {(node.step, node.output) for node in walk(*roots) if isinstance(node, SideOutput)}
    for output, words in _WORDS.items():
        for step, name in diverting_steps(*roots, output=output).items():
            if (step, output) not in read and output not in besides:
                facts = {"step": f"{name} {step.details()}".rstrip()}
                raise PlanError(message(words.lost, facts, f"{words.take}, or choose {words.drop}"))


def _rows_of(step: StepNode, output: OutputName) -> DisorderedStream:
    from slackwater.streams.disordered import DisorderedStream

    return DisorderedStream(SideOutput(step, output))


def _the_one(steps: Iterable[StepNode], stream: Stream, hint_for_several: str, output: OutputName) -> StepNode:
    found, words = list(steps), _WORDS[output]
    if not found:
        facts = {"stream": stream.node.line}
        raise PlanError(message(f"no step above this stream diverts {words.rows}", facts, words.choose))
    if len(found) > 1:
        names = names_of_diverted(stream.node, output=output)
        facts = {f"{output} rows of": ", ".join(names[step] for step in found)}
        raise PlanError(message(f"several steps above this stream divert {words.rows}", facts, hint_for_several))
    return found[0]
