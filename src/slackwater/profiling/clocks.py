"""Clocks that are wrong, found by how long rows seem to be under way.

Most sources of a stream are under way about as long as the others. A source whose typical row is further from that than
a hundred times what is usual between sources has a clock that stands still, or is set to another time. No patience can
wait for its rows, and they must not decide what is advised for all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.progress.instants import FOREVER, Duration

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from slackwater.profiling.measures import SourceProfile
    from slackwater.profiling.recording import Recording

_UNUSUAL: Final = 100
_LEAST: Final = 1_000_000
"""What is usual between sources is a second, at least."""


@dataclass(frozen=True)
class WrongClock:
    """A source whose clock is wrong, and by how much: behind, or ahead where the number is below 0."""

    name: Hashable
    rows: int
    behind: Duration


def wrong_clocks(sources: Sequence[SourceProfile]) -> tuple[WrongClock, ...]:
    """Find them where times and arrivals can be compared; of two sources nobody knows which one is right."""
    medians = [one.median_delay for one in sources if one.median_delay is not None]
    if len(medians) < 3:  # noqa: PLR2004 - of two nobody knows
        return ()
    low, middle, high = (int(one) for one in np.quantile(medians, [0.25, 0.5, 0.75], method="nearest"))
    furthest = min(_UNUSUAL * max(high - low, _LEAST), FOREVER)
    found = [(one, one.median_delay - middle) for one in sources if one.median_delay is not None]
    return tuple(WrongClock(one.name, one.rows, behind) for one, behind in found if abs(behind) > furthest)


def without_wrong_clocks(recording: Recording, wrong: Sequence[WrongClock]) -> Recording:
    """The rows of all other sources; all rows where no clock is wrong."""
    if not wrong or recording.codes is None:
        return recording
    names = {one.name for one in wrong}
    sound = np.array([name not in names for name in recording.names])
    return recording.only(sound[recording.codes])
