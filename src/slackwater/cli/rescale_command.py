"""slackwater rescale: another number of shards for a query on Spark, from its next start on."""

from __future__ import annotations

import sys


def rescale_command(checkpoint: str, /, *, shards: int) -> None:
    """Let a query on Spark go on in another number of shards when it is started again.

    Nothing is done now: only the query's own program knows how what is held is parted. Its next start does it, as
    start(shards=N, rescale=True) would, before the query goes on.

    Parameters
    ----------
    checkpoint
        The folder that start(checkpoint=...) was given. One that is not on this machine is reached by Spark.
    shards
        How many there are to be. As many as there are now take an earlier wish back.
    """
    from slackwater.runners.spark.checkpoint.wishes import wish_for

    sys.stdout.write(f"{wish_for(checkpoint, shards)}\n")
