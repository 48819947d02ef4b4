"""Lets a step of a query end before Ctrl-C stops it, so that what is held is whole and the query can go on.

Signals come to the main thread only, so nothing is done elsewhere; nor where somebody has a handler of his own. The
handler that was there is put back when the work is done.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class DeferredInterrupt:
    """Notes the first Ctrl-C; a second one stops the work at once, whatever it leaves behind.

    >>> with DeferredInterrupt() as stop:
    ...     pass
    >>> stop.came
    False
    """

    __slots__ = ("_installed", "came")

    def __init__(self) -> None:
        self.came = False
        self._installed = False

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what signals bring
        if self.came:
            raise KeyboardInterrupt
        self.came = True
