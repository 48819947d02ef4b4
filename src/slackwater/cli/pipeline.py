"""A pipeline that somebody wrote in a file: the streams that it asks for, by name, and where their rows are to go.

    def pipeline(spark=None): ...     a Python file: it returns one stream, or several (`python_file.py`)
    [source] ... [sort] ...           a TOML file: a source and a few steps (`toml_file.py`)

Either is only read here. What it asks for is run by `in_process.py` or `on_spark.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import slackwater as sw
    from slackwater.plan.node import Node

Runner: TypeAlias = Literal["in-process", "spark"]
"""Who runs it."""

MAIN: Final = "main"
"""The name of the only output."""


@dataclass(frozen=True)
class Output:
    """A stream, and who takes its rows, if the pipeline says so: a path, a function, or a sink of Spark."""

    stream: sw.Stream
    sink: Any = None


@dataclass(frozen=True)
class Pipeline:
    """What a file asks for. Where it does not say where rows go, the command line does."""

    outputs: Mapping[str, Output]
    places: Mapping[str, str] = field(default_factory=dict)
    """What the file says itself of `output`, `late`, `format` and `checkpoint`, by these names."""

    @property
    def streams(self) -> list[sw.Stream]:
        """All that it asks for, in its order."""
        return [output.stream for output in self.outputs.values()]

    @property
    def nodes(self) -> list[Node]:
        """The plans of them."""
        return [stream.node for stream in self.streams]


def read_pipeline(file: str, runner: Runner, arguments: Sequence[str] = (), *, session: Callable[[], Any]) -> Pipeline:
    """Read a pipeline for a runner. A session of Spark is asked for where the pipeline takes one."""
    path = Path(file)
    readers = {".py": _read_python, ".toml": _read_toml}
    if path.suffix not in readers:
        facts, hint = (
            {"file": file},
            "name a Python file with a function pipeline(), or a TOML file: NAME.py, NAME.toml",
        )
        raise PlanError(message("this is no pipeline by its name", facts, hint))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanError(message("a pipeline is a text in UTF-8", {"file": file, "cause": error})) from error
    except OSError as error:
        facts, hint = (
            {"file": file, "cause": error.strerror or str(error)},
            "name a file that is there and that you may read",
        )
        raise PlanError(message("a pipeline could not be read", facts, hint)) from error
    return readers[path.suffix](path, text, runner, arguments, session)


def _read_python(
    path: Path, text: str, runner: Runner, arguments: Sequence[str], session: Callable[[], Any]
) -> Pipeline:
    from slackwater.cli.python_file import pipeline_of_python

    return pipeline_of_python(path, text, runner, arguments, session)


def _read_toml(path: Path, text: str, runner: Runner, arguments: Sequence[str], session: Callable[[], Any]) -> Pipeline:
    from slackwater.cli.toml_file import pipeline_of_toml

    if arguments:
        facts, hint = (
            {"file": path, "arguments": " ".join(arguments)},
            "leave them out, or write the pipeline in Python",
        )
        raise PlanError(message("a TOML file takes no arguments", facts, hint))
    return pipeline_of_toml(path, text, session() if runner == "spark" else None)
