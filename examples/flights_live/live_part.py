"""The live part: collectors publish, a sample is profiled, the query runs, and what may go wrong does."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq
from broker import recorded
from feed_clock import FeedClock
from hearing import BLUE, GREEN
from live_query import PATIENCES
from mishaps import AHEAD_BY, Mishaps
from story import Story, show

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path
    from subprocess import Popen

    from processes import Processes

_AT_ONCE: Final = 1_000.0
"""Days a second: as fast as collectors can."""

_PATIENT_SECONDS: Final = 300


@dataclass
class LivePart:
    """Who takes part."""

    server: str
    folder: Path
    days: int
    days_per_second: float
    messages: int
    """Of a micro-batch, at most."""

    processes: Processes
    story: Story

    def run(self) -> sw.StreamProfile:
        """From the first message to the last, and until the query has taken it; return what the sample showed."""
        mishaps = Mishaps.in_days(self.days)
        collectors = {name: self._start_collector(name) for name in (BLUE, GREEN)}
        with closing(FeedClock(self.server, collectors)) as clock:
            self.story.tell(clock.now, "blue and green publish, each in its own order and by its own clock")
            clock.run_until(mishaps.sampled, _AT_ONCE)
            query = self._start_query()  # Java starts meanwhile
            profile = self._profiled_sample(mishaps.sampled)
            for when, happens in sorted(self._happenings(mishaps).items()):
                clock.run_until(when, self.days_per_second)
                self.story.tell(when, happens)
                if when == mishaps.killed:
                    query = self._killed_at_work(clock, query, mishaps.end)
                if when == mishaps.dead:
                    self.processes.kill(collectors[BLUE])
                    clock.forget(BLUE)
        self.processes.finish(query)
        return profile

    def _happenings(self, mishaps: Mishaps) -> dict[datetime, str]:
        return {
            mishaps.quiet: "blue loses its line, and keeps what it hears",
            mishaps.back: "blue has its line again, and sends all of that",
            mishaps.wrong: f"green's clock jumps {AHEAD_BY.days} days ahead, and so do the departures that it reports",
            mishaps.right: "green's clock is set right",
            mishaps.killed: "the query is to be killed at work",
            mishaps.dead: "blue is killed, for good",
            mishaps.end: "the feed pauses; the query takes what is left",
        }

    def _start_collector(self, name: str) -> Popen[bytes]:
        listed = self.folder / "flights.parquet"
        return self.processes.start("collector.py", name, self.server, listed, str(self.days), log=f"{name}.log")

    def _start_query(self) -> Popen[bytes]:
        return self.processes.start("live_query.py", self.server, self.folder, str(self.messages), log="query.log")

    def _profiled_sample(self, now: datetime) -> sw.StreamProfile:
        """Record what has come so far, and measure it."""
        sample = recorded(self.server).drop_columns("sequence")
        pq.write_table(sample, self.folder / "sample.parquet")
        profile = sw.profile(self.folder / "sample.parquet", time="departed", arrived="heard", origin="collector")
        self.story.tell(now, f"{len(sample):,} messages are recorded as a sample, and profiled:")
        wanted = ("out of order", "late by", "within a source", "copies", ".sort(patience", ".in_bands(")
        show(*(line.strip() for line in str(profile).splitlines() if line.strip().startswith(wanted)))
        show(f"the query has .in_bands({', '.join(PATIENCES)}), and bounds: no message comes 12h after a departure")
        return profile

    def _killed_at_work(self, clock: FeedClock, query: Popen[bytes], end: datetime) -> Popen[bytes]:
        """Kill the query and all that it has started within a micro-batch that is not its first; start it again."""
        self._wait(query, lambda: bool(self._numbers("commits")))
        clock.run_until(end, self.days_per_second, stop=lambda: self._under_way() is not None)
        self.processes.kill(query)
        number = self._under_way()
        where = "between two micro-batches" if number is None else f"in micro-batch {number}"
        self.story.tell(clock.now, f"killed {where}, with its Java and its workers; started again")
        return self._start_query()

    def _under_way(self) -> int | None:
        """The micro-batch that the query has begun and not committed."""
        begun = self._numbers("offsets") - self._numbers("commits")
        return max(begun, default=None)

    def _numbers(self, log: str) -> set[int]:
        entries = (self.folder / "checkpoint" / log).glob("*")
        return {int(entry.name) for entry in entries if entry.name.isdecimal()}

    def _wait(self, query: Popen[bytes], done: Callable[[], bool]) -> None:
        """Wait for the query, as long as it lives."""
        deadline = time.monotonic() + _PATIENT_SECONDS
        while not done():
            if query.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the query does not get on; see logs/query.log")
            time.sleep(0.05)
