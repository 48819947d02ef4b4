"""Windows by trial: every start in reach of an event is tried, one instant after the other.

And functions over windows by lists: whole windows of plain rows are collected, then handed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.events.elements import Insert, Punctuate
from slackwater.policies.windows import Hopping, Sliding, Tumbling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from slackwater.events.elements import Element, Row
    from slackwater.policies.windows import Window
    from slackwater.progress.instants import Instant


def window_oracle(elements: Iterable[Element], window: Window) -> list[Element]:
    """Rewrite inserts and punctuations; payloads stay as they are. Only for small times and windows.

    >>> [str(element) for element in window_oracle([Insert("A", 7)], Hopping(size=10, hop=5))]
    ['insert(A, 0, 10)', 'insert(A, 5, 15)']
    """
    windowed: list[Element] = []
    for element in elements:
        if isinstance(element, Punctuate):
            windowed.append(Punctuate(least_start_from(element.complete_before, window)))
        else:
            starts = window_starts(element.start, window)
            windowed += [Insert(element.payload, start, start + window.size) for start in starts]
    return windowed


def map_windows_oracle(events: Iterable[Insert], function: Callable[[Sequence[Row]], Iterable[Row]]) -> list[Insert]:
    """Call a function with the payloads of each interval, as they came; its answers get the interval, in order.

    >>> rows = [Insert(("a",), 5, 9), Insert(("b",), 0, 5), Insert(("c",), 5, 9)]
    >>> [str(answer) for answer in map_windows_oracle(rows, lambda window: [(len(window),)])]
    ['insert((1,), 0, 5)', 'insert((2,), 5, 9)']
    """
    windows: dict[tuple[Instant, Instant], list[Row]] = {}
    for event in events:
        assert isinstance(event.payload, tuple)
        windows.setdefault((event.start, event.end), []).append(event.payload)
    return [Insert(row, *interval) for interval in sorted(windows) for row in function(windows[interval])]


def window_starts(at: Instant, window: Window) -> list[Instant]:
    """The starts of all windows that contain an instant, in order."""
    if isinstance(window, Sliding):
        return [at]
    return [start for start in range(at - window.size + 1, at + 1) if _is_start(start, window)]


def least_start_from(at: Instant, window: Window) -> Instant:
    """The least start of a window that any event at or after an instant can have: the greatest true punctuation."""
    later = range(at, at + 2 * (window.size + window.apart))
    return min(start for instant in later for start in window_starts(instant, window))


def _is_start(instant: Instant, window: Window) -> bool:
    assert isinstance(window, Tumbling | Hopping)
    return (instant - window.offset) % window.apart == 0
