"""slackwater control: ask something of a query on Spark while it runs, wherever that is."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from slackwater.runners.control import Control

Action = Literal["pause", "resume", "retire", "patience", "flush", "attach", "detach", "list"]
"""What can be asked."""


def control_command(
    checkpoint: str, action: Action = "list", name: str = "", /, *, step: str = "", complete_from: str = ""
) -> None:
    """Ask something of a query that was started with control=True: pause a source, take another patience, flush.

    It is written into the checkpoint as a record with a number, and the query reads it with its next micro-batch.

    Parameters
    ----------
    checkpoint
        The folder that start(checkpoint=...) was given. One that is not on this machine is reached by Spark.
    action
        pause, resume or retire a source; take another patience; flush what is held; attach or detach a replica; or list
        what has been asked.
    name
        The source: a stream, or one of the sources of a stream with bounds. The patience: 10s, or a whole number. The
        replica, by the name of its stream.
    step
        Whose patience, where several steps have one: as why() and explain() call it.
    complete_from
        From when on a replica that is attached has everything: 2026-03-01T12:00:00, or a whole number.
    """
    from slackwater.runners.spark.checkpoint.control_folder import control_of

    control = control_of(checkpoint)
    if action == "list":
        for one in control.asked():
            sys.stdout.write(f"{one}\n")
        return
    number = _ask(control, action, name, step, complete_from)
    sys.stdout.write(f"record {number}: the query reads it with its next micro-batch\n")


def _ask(control: Control, action: Action, name: str, step: str, complete_from: str) -> int:
    if action == "flush":
        _refuse_more(action, name)
        return control.flush()
    if not name:
        what = "how long" if action == "patience" else "whom"
        raise PlanError(message(f"{action} needs to know {what}", {}, f"slackwater control CHECKPOINT {action} ..."))
    if action == "patience":
        return control.patience(int(name) if name.isdecimal() else name, step=step or None)
    if action == "attach":
        return control.attach(name, complete_from=_moment(complete_from))
    ask = {"detach": control.detach, "pause": control.pause, "resume": control.resume, "retire": control.retire}[action]
    return ask(name)


def _moment(written: str) -> int | datetime:
    if written.removeprefix("-").isdecimal():
        return int(written)
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        hint = "--complete-from 2026-03-01T12:00:00, or a whole number"
        raise PlanError(message("this is no time", {"got": repr(written)}, hint)) from None


def _refuse_more(action: Action, name: str) -> None:
    if name:
        raise PlanError(message(f"{action} takes no name", {"got": name}, "leave it out"))
