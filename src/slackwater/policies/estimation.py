"""How bounds are learnt from the rows of a stream, in its units: what estimated rules have beside declared ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.progress.instants import Duration


@dataclass(frozen=True)
class Estimation:
    """How the deltas of estimated rules are learnt, in the units of a stream and its clock."""

    words: str
    clock: bool
    """Whether the clock is among the senders: how far rows are behind it is learnt, too."""

    loss: float | None = None
    """The share of rows that may be late by estimates; None where the paper's algorithm is followed instead."""

    window: float = 0.0
    """Figure 4: after how many rows, or how long, an estimate is lowered that nothing exceeded; infinite for never."""

    by_time: bool = False
    """Whether the window is a length of time, by the clock of arrivals."""

    alpha: float = 1.0
    """Figure 4: how much of an estimate is left when it is lowered."""

    adapts: bool = False
    """Whether windows grow where an estimate is exceeded soon after it was lowered, and shrink where it falls on."""

    start: Duration = 0
    """The delta that estimates have before anything has come."""
