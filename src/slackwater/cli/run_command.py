"""slackwater run: runs a pipeline from a file, in process or on Spark, and shows how it comes along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from slackwater.cli.pipeline import Runner, read_pipeline
from slackwater.cli.places import Places
from slackwater.cli.plain_warnings import plain_warnings
from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACE = Parameter(allow_leading_hyphen=True)
_FLAG = Parameter(negative=())


def run_command(
    pipeline: str,
    /,
    *arguments: str,
    runner: Runner = "in-process",
    output: Annotated[str | None, _PLACE] = None,
    late: Annotated[str | None, _PLACE] = None,
    left_out: Annotated[str | None, _PLACE] = None,
    format: Literal["parquet", "csv", "jsonl"] | None = None,  # noqa: A002 - as users call it
    quiet: Annotated[bool, _FLAG] = False,
    checkpoint: str | None = None,
    available_now: Annotated[bool, _FLAG] = False,
    flush: Annotated[bool, _FLAG] = False,
    every: str | None = None,
    shards: int | None = None,
    metrics: str | None = None,
    name: str | None = None,
) -> None:
    """Run a pipeline.

    In process rows go to the standard output, as lines of JSON, or to files, which appear when all went well. On Spark
    they go to folders, and the query goes on from its checkpoint when it is started again. How it comes along is shown
    on the standard error. Ctrl-C stops it between two steps, and says how to go on.

    Parameters
    ----------
    pipeline
        A Python file with a function pipeline() that returns a stream or several, or a TOML file.
    arguments
        Words for pipeline(), behind --; name=value goes to the parameter of that name.
    runner
        Who runs it.
    output
        Where rows go: a file by its ending (.parquet, .csv, .jsonl), - for the standard output; on Spark a folder.
        Outputs of different columns get a file, or a folder, each in it.
    late
        Where rows go that come too late.
    left_out
        Where rows go that a merge of replicas leaves out and diverts.
    format
        How rows are written, whatever the ending says.
    quiet
        Show nothing but what goes wrong.
    checkpoint
        On Spark: the folder in which the query keeps what it has read and holds. Without it OUTPUT.checkpoint.
    available_now
        On Spark: take what there is now, and end.
    flush
        On Spark, with --available-now: let out all that is held, as final. The query takes nothing any more.
    every
        On Spark: begin a micro-batch every so often, such as 10s.
    shards
        On Spark: how many parts share the work.
    metrics
        On Spark: a folder for the figures of each micro-batch and shard.
    name
        On Spark: what it calls the query.
    """
    on_spark = {
        "--checkpoint": checkpoint,
        "--available-now": available_now,
        "--flush": flush,
        "--every": every,
        "--shards": shards,
        "--metrics": metrics,
        "--name": name,
    }
    if runner != "spark":
        _refuse_options_of_spark(on_spark)
    with plain_warnings():
        if runner == "spark":
            from slackwater.cli.on_spark import Choices, run_on_spark

            choices = Choices(available_now, flush, every, shards, metrics, name)
            run_on_spark(pipeline, arguments, Places(output, late, left_out, format, checkpoint), choices, quiet=quiet)
            return
        from slackwater.cli.in_process import run_in_process

        found = read_pipeline(pipeline, runner, arguments, session=_no_session)
        run_in_process(found, Places(output, late, left_out, format).or_of(found), quiet=quiet)


def _no_session() -> Any:
    raise AssertionError("in process nobody asks for a session")


def _refuse_options_of_spark(options: Mapping[str, object]) -> None:
    given = [option for option, value in options.items() if value]
    if given:
        facts, hint = {"options": ", ".join(given)}, "say --runner spark, or leave them out"
        raise PlanError(message("these options are for queries on Spark", facts, hint))
