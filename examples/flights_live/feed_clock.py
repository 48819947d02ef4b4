"""The clock of the feed: it strikes every 24 minutes of flights, and goes on when all collectors have sent what is due.

So one who is slower, because the machine is busy, is not late: a second of this clock may be half a day of flights.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import nats
from flight_list import BEGIN
from nats.errors import NoRespondersError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from subprocess import Popen

STRIKES_EVERY: Final = timedelta(minutes=24)
_PATIENT_SECONDS: Final = 120


class FeedClock:
    """Strikes for the collectors that live."""

    def __init__(self, server: str, collectors: Mapping[str, Popen[bytes]]) -> None:
        self.now = BEGIN
        self._collectors = dict(collectors)
        self._runner = asyncio.Runner()
        self._client = self._runner.run(nats.connect(server))

    def run_until(self, end: datetime, days_per_second: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let it go on to an instant, no faster than this, or until somebody says stop."""
        self._runner.run(self._strike(end, timedelta(days=days_per_second), stop))

    def forget(self, collector: str) -> None:
        """Wait for a collector no longer: it is dead."""
        del self._collectors[collector]

    def close(self) -> None:
        """Let the server go."""
        with suppress(Exception):  # whatever has happened to it
            self._runner.run(self._client.close())
        self._runner.close()

    async def _strike(self, end: datetime, a_second: timedelta, stop: Callable[[], bool]) -> None:
        began, first = time.monotonic(), self.now
        while self.now < end and not stop():
            self.now = min(self.now + STRIKES_EVERY, end)
            await asyncio.gather(*(self._told(name) for name in self._collectors))
            due = began + (self.now - first) / a_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _told(self, name: str) -> None:
        """Tell a collector what time it is, and wait until it has sent what it had heard by then."""
        deadline = time.monotonic() + _PATIENT_SECONDS
        while True:
            if self._collectors[name].poll() is not None:
                raise RuntimeError(f"the collector {name} has ended; see its log")
            try:
                await self._client.request(f"clock.{name}", self.now.isoformat().encode(), timeout=_PATIENT_SECONDS)
            except NoRespondersError:  # it does not listen yet
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
            else:
                return
