"""slackwater why: why a query on Spark is complete no further, by what its checkpoint has."""

from __future__ import annotations

import json as json_format
import sys

from slackwater.cli.checkpoint_view import CheckpointView, as_record, header, standing_of


def why_command(checkpoint: str, /, *, json: bool = False) -> None:
    """Say how far a query on Spark is complete, whom it waits for, and by which bound.

    It is as of its last micro-batch, by what the query leaves in its checkpoint. Neither Spark nor Java is started,
    unless the checkpoint is in a store that only Spark reaches.

    Parameters
    ----------
    checkpoint
        The folder that start(checkpoint=...) was given, or slackwater run --checkpoint.
    json
        Print all that is known as JSON.
    """
    status = CheckpointView(checkpoint).status()
    if json:
        sys.stdout.write(json_format.dumps(as_record(status)) + "\n")
        return
    standing = standing_of(status)
    lines = [*header(status), *([] if standing is None else standing.lines())]
    sys.stdout.write("\n".join(lines) + "\n")
