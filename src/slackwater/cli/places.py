"""Which output goes where: by the pipeline itself or the command line, one place for all rows of the same columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping

    import slackwater as sw
    from slackwater.cli.pipeline import Pipeline


@dataclass(frozen=True)
class Places:
    """Where rows go, as the command line says, or else the file."""

    output: str | None = None
    late: str | None = None
    left_out: str | None = None
    format: str | None = None
    checkpoint: str | None = None

    def or_of(self, pipeline: Pipeline) -> Places:
        """What the command line leaves open is as the file has it."""
        return replace(self, **{name: getattr(self, name) or place for name, place in pipeline.places.items()})


def unplaced(pipeline: Pipeline, output: str | None) -> dict[str, sw.Stream]:
    """The streams for which the command line says where rows go; refused where all have a place in the pipeline."""
    left = {name: one.stream for name, one in pipeline.outputs.items() if one.sink is None}
    if output is not None and not left:
        facts, hint = {"--output": output, "outputs": ", ".join(pipeline.outputs)}, "leave --output out"
        raise PlanError(message("the pipeline says itself where rows go", facts, hint))
    return left


def by_place(streams: Mapping[str, sw.Stream], place: str, inside: str) -> dict[str, str]:
    """A place for each stream: the same for all with the same columns, else one inside for each, `inside` its name."""
    kinds = {stream.schema for stream in streams.values()}
    if len(kinds) == 1:
        return dict.fromkeys(streams, place)
    wrong = [name for name in streams if not name or "/" in name or name.startswith(("_", "."))]
    if wrong:
        facts, hint = {"name": wrong[0]}, "name it by letters and digits: it names a file"
        raise PlanError(message("an output cannot be called so", facts, hint))
    return {name: f"{place.rstrip('/')}/{inside.format(name)}" for name in streams}


def nobody_takes(option: str, rows: str, streams: Mapping[str, Any], policy: str) -> PlanError:
    """The refusal where rows that do not go on would be lost."""
    facts = {"source": ", ".join(streams)}
    hint = f"say {option} PLACE, or choose {policy} in the pipeline"
    return PlanError(message(f"{rows} would be lost: nobody takes them", facts, hint))
