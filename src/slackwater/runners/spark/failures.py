"""What a failed query on Spark is reported as: in this library's own words where it gave up itself, and else by a sign.

What fails in a Python worker comes to the driver as text, inside of what Spark and Java say of it. A worker that gives
up because of a user's function writes the lines of that function into its text, behind a mark, since Spark leaves out
what an exception was raised from. So users read one message: the step, the row and its values, and their own lines.
"""

from __future__ import annotations

import os
import re
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from slackwater import errors
from slackwater.errors import RunError, StepFailed, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_USERS_LINES: Final = "The function's own lines, the most recent call last:"
"""What stands before them, in the text of a failure."""

_MOST_LINES: Final = 20
"""So many calls are shown, the last ones: a recursion has no end."""

_LIBRARY: Final = f"{Path(errors.__file__).parent}{os.sep}"
"""Where the files of this library are: what they call last is the user's."""

_END: Final = (
    r"(?:\s+SQLSTATE: |\n\s+at |\nCaused by: |\n\n(?:The above exception|During handling|Driver stack|JVM stack)"
    r"|\nTraceback \(most recent|\n[\w.]+\.\w*(?:Error|Exception): |\Z)"
)
"""What follows the words of an exception, in the texts of Spark. The words themselves may have several lines."""

_OWN_WORDS: Final = re.compile(rf"slackwater\.errors\.(?P<name>\w+): (?P<words>.*?){_END}", re.DOTALL)
"""The message of this library inside of Spark's."""

_PYTHON_SAYS: Final = re.compile(
    rf"Traceback \(most recent call last\):\n(?:[ ].*\n)*"
    rf"(?:py4j\S+: .*\n: (?:[\w.]+: )?)?(?P<words>(?s:\S.*?)){_END}"
)
"""The message of an exception of Python, or of the one of Java that it stands for."""

_CAUSE: Final = re.compile(rf"\nCaused by: [\w.$]+: (?P<words>(?s:.*?)){_END}")
"""The message of an exception of Java that led to another one; some have none."""

_RESTORE: Final = "restore the checkpoint from a copy, or start anew with another one and other folders"
_MAKE_ROOM: Final = "make room; started again, it goes on from its checkpoint"
_MEND: Final = "put the file back as it was; started again, it goes on from its checkpoint"
_LEAVE: Final = "leave it to the other; start this one again only when that has stopped"
_START_AGAIN: Final = "start it again, and it goes on from its checkpoint; workers are often killed for want of memory"
_OVERLOADED: Final = "start it again, and it goes on from its checkpoint; the machine may be too busy"
_SAME_PLAN: Final = "start the plan that the checkpoint was made by, or name another checkpoint"
_SAME_PYTHON: Final = "let workers be the Python of the driver: set PYSPARK_PYTHON before the session is made"
_READ_ON: Final = "the exception this one was raised from has all that Spark says"

_HEADLINES: Final = {
    "No space left on device": ("no space is left where a query on Spark writes", _MAKE_ROOM),
    "CONCURRENT_STREAM_LOG_UPDATE": ("another driver works on this checkpoint", _LEAVE),
    "Failed to read log file": ("the log of what a query on Spark has read is damaged", _RESTORE),
    "StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION": ("the log of what a query on Spark has read is damaged", _RESTORE),
    "[FAILED_READ_FILE": ("a file of a source cannot be read", _MEND),
    "[CANNOT_LOAD_STATE_STORE": ("the stored state of a query on Spark is damaged or incomplete", _RESTORE),
    "Python worker exited unexpectedly": ("a Python worker of a query on Spark was killed, or crashed", _START_AGAIN),
    "Python worker failed to connect back": ("a Python worker of a query on Spark did not start in time", _OVERLOADED),
    "sources in the checkpoint offsets and now": ("this checkpoint was made by a plan of other sources", _SAME_PLAN),
    "No module named 'slackwater'": ("the Python workers of a query on Spark cannot import slackwater", _SAME_PYTHON),
    "[PYTHON_VERSION_MISMATCH]": ("the Python workers of a query on Spark are of another version", _SAME_PYTHON),
    "": ("a query on Spark failed", _READ_ON),
}
"""What happened, and what to do, by what Spark says of it."""


@contextmanager
def with_users_lines() -> Iterator[None]:
    """Let a failure of a user's function say, in its text, on which lines of that function."""
    try:
        yield
    except StepFailed as failure:
        add_users_lines(failure)
        raise


def add_users_lines(failure: StepFailed) -> None:
    """Note on a failure the lines of the user's function that it was raised from, if there are any."""
    cause = failure.__cause__
    lines = [] if cause is None else _lines_of_user(cause.__traceback__)
    if lines and not hasattr(failure, "__notes__"):
        failure.add_note("\n".join([_USERS_LINES, *lines]))


def _lines_of_user(trace: TracebackType | None) -> list[str]:
    """The calls behind the last one of this library, each on one line."""
    calls = traceback.extract_tb(trace)
    own = max((place for place, call in enumerate(calls) if call.filename.startswith(_LIBRARY)), default=-1)
    shown = [f'  File "{call.filename}", line {call.lineno}, in {call.name}: {call.line}' for call in calls[own + 1 :]]
    left_out = len(shown) - _MOST_LINES
    return [f"  ... {left_out} calls before", *shown[-_MOST_LINES:]] if left_out > 0 else shown


def raised(error: Exception) -> RunError:
    """The failure of a query, ready to be raised: with all that Spark says before it, unless it says all itself."""
    failure = failure_of(error)
    if type(failure) is RunError:
        failure.__cause__ = error
    failure.__suppress_context__ = True
    return failure


def failure_of(error: Exception) -> RunError:
    """Say why a query failed: in this library's own words, if it was the one that gave up."""
    text = str(error).partition("\n=== Streaming Query ===")[0]
    own = _OWN_WORDS.search(text)
    if own is not None:
        kind = getattr(errors, own["name"], RunError)
        words, _, lines = own["words"].partition(f"\n{_USERS_LINES}\n")
        failure: RunError = (kind if issubclass(kind, RunError) else RunError)(words.strip())
        if lines:
            failure.add_note(f"{_USERS_LINES}\n{lines.rstrip()}")
        return failure
    messages = [found["words"].strip() for found in _PYTHON_SAYS.finditer(text)]
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    facts = {"Spark says": messages[-1] if messages else first}
    cause = _CAUSE.search(text)
    if cause is not None and cause["words"].strip() not in facts["Spark says"]:
        facts["cause"] = cause["words"].strip()
    headline, hint = next(words for sign, words in _HEADLINES.items() if sign in text)
    return RunError(message(headline, facts, hint))
