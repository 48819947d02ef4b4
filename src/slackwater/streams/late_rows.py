"""Rows that came too late: which steps divert them, and who takes them, so that none is lost silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, StepNode, diverting_steps, nearest_diverting_steps, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from slackwater.streams.disordered import DisorderedStream
    from slackwater.streams.stream import Stream

Callback: TypeAlias = "Callable[[pa.RecordBatch], Any]"
"""Takes rows as users see them, time columns included."""


def late_streams(*streams: Stream) -> dict[str, DisorderedStream]:
    """The late rows of every step that diverts them, by the name of the step."""
    steps = diverting_steps(*(stream.node for stream in streams))
    return {name: _late_rows_of(step) for step, name in steps.items()}


def nearest_late_stream(stream: Stream) -> DisorderedStream:
    """The late rows of the nearest step above a stream; refused where there is none, or more than one."""
    hint = "ask for the late rows of a stream right behind one of these steps"
    return _late_rows_of(_the_one(nearest_diverting_steps(stream.node), stream, hint))


def only_late_stream(stream: Stream) -> DisorderedStream:
    """The late rows of the one step above a stream that diverts, however far; refused where there are more."""
    hint = "take the rows of all of them with for_each(..., on_late=...), or from the result of run()"
    return _late_rows_of(_the_one(diverting_steps(stream.node), stream, hint))


def require_late_rows_taken(*streams: Stream) -> None:
    """Refuse a query in which a step diverts late rows and no stream reads them."""
    roots = [stream.node for stream in streams]
    read = {node.step for node in walk(*roots) if isinstance(node, SideOutput) and node.output == LATE}
    for step, name in diverting_steps(*roots).items():
        if step not in read:
            facts = {"step": f"{name} {step.details()}".rstrip()}
            hint = "take them with on_late=..., read `stream.late` in the same query, or choose Late.drop()"
            raise PlanError(message("rows that come too late would be lost: nobody takes them", facts, hint))


def _late_rows_of(step: StepNode) -> DisorderedStream:
    from slackwater.streams.disordered import DisorderedStream

    return DisorderedStream(SideOutput(step, LATE))


def _the_one(steps: Iterable[StepNode], stream: Stream, hint_for_several: str) -> StepNode:
    found = list(steps)
    if not found:
        facts, hint = {"stream": stream.node.line}, "choose Late.divert() at the step that says when a row is too late"
        raise PlanError(message("no step above this stream diverts late rows", facts, hint))
    if len(found) > 1:
        names = diverting_steps(stream.node)
        facts = {"steps": ", ".join(names[step] for step in found)}
        raise PlanError(message("several steps above this stream divert late rows", facts, hint_for_several))
    return found[0]
