"""Windows over application time: tumbling, hopping and sliding, as frozen values that know their own arithmetic.

A window replaces the interval of an event at t by the intervals of the windows it falls into. Nothing here needs
order, so a window may stand before a sort. All arithmetic is on int64 and exact: remainders are taken before anything
is subtracted, so that no intermediate result leaves the range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.errors import BadDuration, message
from slackwater.kernels.progress.past_grid import past_grid
from slackwater.progress.instants import FOREVER
from slackwater.progress.saturating import earlier, later, within_int64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.progress.instants import Duration, Instant

MOST_WINDOWS: Final = 1_000_000
"""Windows that one event may fall into.

Each of them is an answer, and a row of its own for what follows; where panes cannot be used the event is copied as
often. A day every second is 86,400, a week 604,800: these work, by panes. At a million the times of the windows of one
event alone take 16 MB. Beyond it a hop was meant in another unit, or sliding() was.
"""


@dataclass(frozen=True)
class Window(ABC):
    """What all windows share: every one of them is `size` long."""

    size: Duration

    def __post_init__(self) -> None:
        _refuse_unless_positive("size", self.size)

    @abstractmethod
    def back(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """How long before each event the first window starts that contains it, or the next one if none does."""

    def count(self, times: NDArray[np.int64]) -> NDArray[np.int64] | None:  # noqa: ARG002 - most windows need no look
        """How many windows contain each event; None when it is always one."""
        return None

    def closed_behind(self, newest: Instant) -> Instant:
        """Up to where events must be complete that every window is which an event until then may be in.

        >>> Tumbling(10).closed_behind(25), Sliding(10).closed_behind(25), Hopping(10, 4).closed_behind(25)
        (30, 35, 34)
        """
        return _on_grid(newest, self.apart, self.starts_at) + self.size

    @property
    def apart(self) -> Duration:
        """How far the starts of the windows of one event are apart."""
        return self.size

    @property
    def starts_at(self) -> Instant:
        """A time at which some window starts."""
        return 0

    def punctuations(self, complete_before: NDArray[np.int64]) -> NDArray[np.int64]:
        """The greatest punctuations that hold after the window, given those before it; they never go back.

        The guarantee that nothing comes before t becomes the least start of a window that an event at or after t can
        have. What would leave int64 stays at BEGINNING or FOREVER.

        >>> Tumbling(10).punctuations(np.array([9, 10, FOREVER])).tolist() == [0, 10, FOREVER]
        True
        """
        back = self.back(complete_before)
        moved = np.where(
            back < 0, later(complete_before, -np.minimum(back, 0)), earlier(complete_before, np.maximum(back, 0))
        )
        return np.where(complete_before == FOREVER, FOREVER, moved)

    @abstractmethod
    def done_before(self, bound: Instant) -> Instant:
        """Every event that starts before this instant is only in windows that end at or before the bound.

        >>> Tumbling(10).done_before(25), Sliding(10).done_before(25), Hopping(10, 4).done_before(25)
        (20, 16, 16)
        """


@dataclass(frozen=True)
class Tumbling(Window):
    """Windows of `size` side by side, one of them starting at `offset`; an event is in exactly one.

    >>> Tumbling(10, offset=3).back(np.array([2, 3, 12])).tolist()
    [9, 0, 9]
    """

    offset: Duration = 0

    @property
    def starts_at(self) -> Instant:
        """The offset."""
        return self.offset

    def back(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """How long each event is past the start of its window."""
        return past_grid(times, self.size, self.offset)

    def done_before(self, bound: Instant) -> Instant:
        """The start of the window that the bound is in."""
        return within_int64(_on_grid(bound, self.size, self.offset))


@dataclass(frozen=True)
class Hopping(Window):
    """Windows of `size` that start every `hop` (Spark calls this a sliding window).

    They overlap when hop < size, and leave gaps when hop > size: an event in a gap is in no window.

    >>> window = Hopping(size=10, hop=5)
    >>> window.count(np.array([7])).tolist(), window.back(np.array([7])).tolist()
    ([2], [7])
    """

    hop: Duration
    offset: Duration = 0

    def __post_init__(self) -> None:
        _refuse_unless_positive("size", self.size)
        _refuse_unless_positive("hop", self.hop)

    def back(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """How long before each event its first window starts; negative, for an event in a gap, to the next one."""
        past = past_grid(times, self.hop, self.offset)
        return past + (self._windows(past) - 1) * self.hop

    def count(self, times: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """How many windows contain each event."""
        return self._windows(past_grid(times, self.hop, self.offset))

    @property
    def most(self) -> int:
        """The most windows that contain one event.

        >>> Hopping(60, 25).most, Hopping(60, 60).most, Hopping(60, 61).most
        (3, 1, 1)
        """
        return -(-self.size // self.hop)

    @property
    def apart(self) -> Duration:
        """One hop."""
        return self.hop

    @property
    def starts_at(self) -> Instant:
        """The offset."""
        return self.offset

    def done_before(self, bound: Instant) -> Instant:
        """The start of the first window that ends past the bound; those of later windows are not sooner."""
        return within_int64(_on_grid(bound - self.size, self.hop, self.offset) + self.hop)

    def _windows(self, past: NDArray[np.int64]) -> NDArray[np.int64]:
        # Starts at t - past - j * hop count while past + j * hop < size; this is the number of such j, rounded up.
        return -((past - self.size) // self.hop)


@dataclass(frozen=True)
class Sliding(Window):
    """Every event lives for `size` from its own time on; aggregates then give what the last `size` held.

    >>> Sliding(10).back(np.array([7])).tolist()
    [0]
    """

    def back(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nothing: the window starts with the event."""
        return np.zeros_like(times)

    def punctuations(self, complete_before: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same: the window starts with the event."""
        return complete_before

    def done_before(self, bound: Instant) -> Instant:
        """The first event whose window ends past the bound."""
        return within_int64(bound - self.size + 1)

    def closed_behind(self, newest: Instant) -> Instant:
        """The end of the window that the newest event starts."""
        return newest + self.size


def _on_grid(time: int, size: Duration, offset: Duration) -> int:
    """The last multiple of a size, shifted, that is not after a time."""
    return time - (time - offset) % size


def _refuse_unless_positive(name: str, length: Duration) -> None:
    if not 0 < length <= FOREVER:
        raise BadDuration(message("a window needs a length above zero", {name: length}))
