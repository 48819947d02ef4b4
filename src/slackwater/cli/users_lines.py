"""Which lines of a user's own file led to a failure: those are shown instead of a traceback through this library."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import slackwater

if TYPE_CHECKING:
    from types import TracebackType

_LIBRARY: Final = str(Path(slackwater.__file__).parent)
_INSTALLED: Final = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_MOST: Final = 10
"""As many lines are shown, the last ones."""


def users_lines(trace: TracebackType | None) -> list[str]:
    """The lines, the most recent call last.

    >>> try:
    ...     sorted([1, "a"])
    ... except TypeError as error:
    ...     users_lines(error.__traceback__)[-1].partition(", in ")[2].partition(":")[0]
    '<module>'
    """
    calls = [call for call in traceback.extract_tb(trace) if not _is_foreign(call.filename)]
    return [
        f"{call.filename}:{call.lineno}, in {call.name}" + (f": {call.line}" if call.line else "")
        for call in calls[-_MOST:]
    ]


def _is_foreign(file: str) -> bool:
    """Whether it is this library's, Python's, or that of a package."""
    return file.startswith((_LIBRARY, "<frozen", "<string>", *_INSTALLED)) or "site-packages" in Path(file).parts
