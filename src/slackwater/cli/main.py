"""slackwater: reads the command line, runs a command, and ends as a good tool of Unix does.

What was asked for goes to the standard output; bars and errors go to the other one. A mistake of the user is one clear
message and exit code 2, an interruption 130; only what nobody has thought of has a traceback.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cyclopts import App, CycloptsError

import slackwater
from slackwater.cli.control_command import control_command
from slackwater.cli.explain_command import explain_command
from slackwater.cli.profile_command import profile_command
from slackwater.cli.rescale_command import rescale_command
from slackwater.cli.run_command import run_command
from slackwater.cli.warm_up_command import warm_up_command
from slackwater.cli.watch_command import watch_command
from slackwater.cli.why_command import why_command
from slackwater.errors import SlackwaterError, message

if TYPE_CHECKING:
    from collections.abc import Sequence

_MISTAKE: Final = 2
_INTERRUPTED: Final = 130

app = App(
    name="slackwater",
    help="The time layer for PySpark: run streams, and see how disordered they are, how they stand, and why.",
    version=slackwater.__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
app.command(control_command, name="control")
app.command(run_command, name="run")
app.command(explain_command, name="explain")
app.command(why_command, name="why")
app.command(watch_command, name="watch")
app.command(profile_command, name="profile")
app.command(rescale_command, name="rescale")
app.command(warm_up_command, name="warm-up")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    >>> main(["--version"])
    0.1.0
    0
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        app(given, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        asked = next((word for word in given if word in set(app)), "")
        hint = f"slackwater {asked} --help".replace("  ", " ")
        return _refused(message(str(error).strip(), {}, hint))
    except SlackwaterError as error:
        return _refused("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read has had enough, as `head` has
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def run() -> None:
    """End this process as a command does."""
    sys.exit(main())


def _refused(text: str) -> int:
    sys.stderr.write(f"slackwater: {text}\n")
    return _MISTAKE
