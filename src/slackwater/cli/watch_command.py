"""slackwater watch: a query on Spark, micro-batch by micro-batch, from its checkpoint."""

from __future__ import annotations

import json as json_format
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from slackwater.cli.checkpoint_view import (
    CheckpointView,
    NoStatusYet,
    as_record,
    header,
    seems_over,
    standing_of,
    state_in_words,
)
from slackwater.cli.display import in_place
from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slackwater.runners.spark.checkpoint.status import Status


def watch_command(checkpoint: str, /, *, every: float = 1.0, once: bool = False, json: bool = False) -> None:
    """Watch a query on Spark: how far it is, how many rows come, who holds it back, how many are late.

    It reads what the query leaves in its checkpoint behind each micro-batch, and starts neither Spark nor Java. On a
    terminal it shows all of it in place, elsewhere a line for each micro-batch. It ends when the query has; Ctrl-C ends
    it, and not the query.

    Parameters
    ----------
    checkpoint
        The folder that start(checkpoint=...) was given, or slackwater run --checkpoint.
    every
        Seconds between two looks.
    once
        Look once, and end.
    json
        Print a line of JSON for each micro-batch.
    """
    if not every > 0:
        raise PlanError(message("--every is a number of seconds above zero", {"got": every}))
    view = CheckpointView(checkpoint)
    status = view.status()
    if once:
        _print(_as_json(status) if json else "\n".join(_lines(status)))
        return
    pause = threading.Event()
    with _shown(json=json) as show:
        show(status)
        while not seems_over(status):
            pause.wait(every)
            with suppress(NoStatusYet):  # it is just being replaced
                status = view.status()
            show(status)


@contextmanager
def _shown(*, json: bool) -> Iterator[Callable[[Status], None]]:
    """Shows a status: in place where somebody looks on, else what is new of it, in a line."""
    if json or not sys.stdout.isatty():
        yield _Lines(json=json)
        return
    from rich.console import Console

    with in_place(Console()) as show:
        yield lambda status: show("\n".join(_lines(status)))


class _Lines:
    """Prints a line for each micro-batch, and one where the state is another."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._state: tuple[object, ...] = ()
        self._batch: tuple[object, ...] = ()

    def __call__(self, status: Status) -> None:
        """Print what is new."""
        state = status.run, state_in_words(status).partition(" ")[0]
        batch = status.run, status.at, status.micro_batch and status.micro_batch.batch_id
        if self._json:
            if (state, batch) != (self._state, self._batch):
                _print(_as_json(status))
        else:
            if state != self._state:
                _print(header(status)[0])
            standing = standing_of(status)
            if batch != self._batch and standing is not None and status.micro_batch is not None:
                _print(f"{status.micro_batch.batch_id}: {standing.line()}")
        self._state, self._batch = state, batch


def _lines(status: Status) -> list[str]:
    standing = standing_of(status)
    return [*header(status), *([] if standing is None else standing.lines())]


def _as_json(status: Status) -> str:
    return json_format.dumps(as_record(status))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
