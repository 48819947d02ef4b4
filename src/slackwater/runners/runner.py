"""What every runner gives back, and what it counts on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.progress.instants import Duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@dataclass(slots=True)
class Counters:
    """What one step has done so far."""

    rows_in: int = 0
    rows_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    buffered: int = 0
    """Events or partial results held now."""

    peak_buffered: int = 0
    """The most that was ever held."""

    idle_waiting: Duration = 0
    """For how long something was held back because an input was silent."""

    def __str__(self) -> str:
        return (
            f"in {self.rows_in} +{self.punctuations_in}p, out {self.rows_out} +{self.punctuations_out}p, "
            f"held {self.buffered} (peak {self.peak_buffered}), idle-waiting {format_duration(self.idle_waiting)}"
        )


@dataclass(frozen=True)
class Result:
    """What a finished run gives back."""

    table: pa.Table
    """All rows of the output, in the order they were sent."""

    counters: Mapping[str, Counters] = field(repr=False)
    """What each step did, by its name in explain()."""

    peak_queued: int = 0
    """The most elements that ever waited at once, in queues and for silent inputs."""

    def __str__(self) -> str:
        width = max(map(len, self.counters), default=0)
        steps = [f"{name:<{width}}  {counters}" for name, counters in self.counters.items()]
        return "\n".join([f"{self.table.num_rows} rows", *steps])
