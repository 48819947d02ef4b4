"""Ctrl-C asks a command to stop where it can; a second one stops it at once.

PySpark has a handler of its own that cancels all jobs, and so the micro-batch in which a query is. While a query runs
there is this one instead, which only takes note.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType


@contextmanager
def keeping_ctrl_c() -> Iterator[None]:
    """Put back what answers Ctrl-C, whoever takes it meanwhile."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


class Stop:
    """Whether somebody has pressed Ctrl-C. In a thread other than the main one nobody can.

    >>> with Stop() as stop:
    ...     stop.asked
    False
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what signals bring
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
