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

    late: int = 0
    """Rows that came too late and did not go on. A query that was resumed goes on counting where the other was."""

    duplicates: int = 0
    """Rows that were left out because another one stands for the same event, from the very beginning, as for `late`."""

    ignored: int = 0
    """Rows that were left out because nobody is interested in their time any more."""

    def __str__(self) -> str:
        left_out = f"late {self.late}, " if self.late else ""
        left_out += f"duplicates {self.duplicates}, " if self.duplicates else ""
        left_out += f"ignored {self.ignored}, " if self.ignored else ""
        return (
            f"in {self.rows_in} +{self.punctuations_in}p, out {self.rows_out} +{self.punctuations_out}p, {left_out}"
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

    late: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """The rows that came too late, by the name in explain() of the step that diverted them."""

    def __str__(self) -> str:
        late = sum(counters.late for counters in self.counters.values())
        rows = f"{self.table.num_rows} rows" + (f", {late} came too late" if late else "")
        width = max(map(len, self.counters), default=0)
        steps = [f"{name:<{width}}  {counters}" for name, counters in self.counters.items()]
        return "\n".join([rows, *steps])
