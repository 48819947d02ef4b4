"""slackwater explain: the plan of a pipeline, as the runner would run it; nothing is run."""

from __future__ import annotations

import sys

from slackwater.cli.pipeline import Runner, read_pipeline
from slackwater.cli.plain_warnings import plain_warnings
from slackwater.streams.explaining import explained


def explain_command(
    pipeline: str, /, *arguments: str, runner: Runner = "in-process", shards: int | None = None
) -> None:
    """Show the plan of a pipeline: a line for each step, with what is known of its rows, and why.

    Nothing is run. A pipeline that reads DataFrames of Spark needs a session even to be shown.

    Parameters
    ----------
    pipeline
        A Python file with a function pipeline() that returns a stream or several, or a TOML file.
    arguments
        Words for pipeline(), behind --; name=value goes to the parameter of that name.
    runner
        Who would run it. Of Spark it says besides what is done where, and which columns decide the shard of a row.
    shards
        On Spark: as many as there would be.
    """
    with plain_warnings():
        if runner == "spark":
            from slackwater.cli.session import the_session

            with the_session(pipeline) as session:
                found = read_pipeline(pipeline, runner, arguments, session=session.get)
                shown = explained(*found.nodes, runner="spark", shards=shards)
        else:
            found = read_pipeline(pipeline, runner, arguments, session=lambda: None)
            shown = explained(*found.nodes, runner="in_process", shards=shards)
    sys.stdout.write(f"{shown}\n")
