"""What became of a change that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from changes import Change
    from nearest_tests import Chosen


@dataclass(frozen=True)
class Verdict:
    """A change, and which test noticed it."""

    file: Path
    change: Change
    killed_by: str | None
    """The test that failed, or None if all passed."""

    asked: Chosen
    seconds: float
    unsure: str = ""
    """Why nothing follows from it, if nothing does: it was not planted, or what failed fails without it, too."""
