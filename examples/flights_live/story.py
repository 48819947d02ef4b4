"""What happens, told as it happens: the second of the run, the clock of the feed, and what it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass
class Story:
    """What was told so far."""

    told: list[tuple[datetime, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def tell(self, when: datetime, what: str) -> None:
        """Say what happens."""
        self.told.append((when, what))
        print(f"{time.monotonic() - self._began:>4.0f} s  {when:%b %d %H:%M}  {what}", flush=True)


def show(*lines: str) -> None:
    """Say more about it."""
    for line in lines:
        print(f"      {line}", flush=True)
