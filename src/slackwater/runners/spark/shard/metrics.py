"""What a shard says of a micro-batch: how many rows, how far it has come, what it holds, and where the time went."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slackwater.progress.clock import SystemClock
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.progress.instants import Instant

ItemT = TypeVar("ItemT")

METRICS: Final = "metrics"
"""The output that these rows go to."""

_CLOCK: Final = SystemClock()


@dataclass
class Metrics:
    """The numbers of one shard and one micro-batch; those that are called so are totals since the query began."""

    shard: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    duplicates: int = 0
    rows_in_total: int = 0
    rows_out_total: int = 0
    late_total: int = 0
    duplicates_total: int = 0
    broken_bounds_total: int = 0
    """Rows that came though bounds ruled it out, late or not."""

    late_by_estimate_total: int = 0
    """Rows that came late by estimated bounds, in all shards together; every shard has the same number."""

    contradicted_total: int = 0
    """Rows of replicas that the one that led lacked, and that are not in the output."""

    passed_over_total: int = 0
    """Rows of replicas whose time the merged stream had passed: emitted before or not, nobody knows."""

    unsent: int = 0
    """Rows of replicas that a merge has neither sent nor left out yet."""

    shared: int = 0
    """Rows of replicas, in this micro-batch, that others are known to have, too."""

    only_some: int = 0
    """Rows of replicas, in this micro-batch, that others are known to lack; the rest are not compared."""

    open_events: int = 0
    """Events without an end that hold up a merge of revised replicas."""

    open_events_from: Instant = FOREVER
    """The start of the first of them; FOREVER if there is none."""

    replicas: int = 0
    """Replicas that a column names and that have appeared; every shard knows the same of them."""

    replicas_waiting: int = 0
    """Those of them whose punctuations do not count yet."""

    replicas_taken_over: int = 0
    """Those that lead because all who led had fallen silent: events may be missing before."""

    held: int = 0
    """Rows and groups that wait, for late rows or for the end of their window."""

    spilled: int = 0
    """Those of them that are not in memory, for they would take more than there is for them."""

    runs: int = 0
    """Ordered stretches that wait in sorts."""

    complete_before: Instant = BEGINNING
    """The punctuation of the output, in microseconds or sequence numbers."""

    in_time_from: tuple[Instant, ...] = ()
    """For each way in, the time from which on no row of the next micro-batch is late: for the driver, in no table."""

    why: str = ""
    """Why each step is complete no further, in JSON: `SparkQuery.why()` reads it. But for tables, sinks get columns."""

    state_bytes: int = 0
    """What was written to the state store."""

    decode_seconds: float = 0.0
    operate_seconds: float = 0.0
    state_seconds: float = 0.0
    encode_seconds: float = 0.0

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of what is done inside to a phase."""
        name, begun = f"{phase}_seconds", _CLOCK.now()
        try:
            yield
        finally:
            setattr(self, name, getattr(self, name) + (_CLOCK.now() - begun) / 1e6)

    def timing(self, phase: str, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Yield items, and add the time that it takes to make them to a phase."""
        waiting = iter(items)
        while True:
            with self.timed(phase):
                found = list(islice(waiting, 1))
            if not found:
                return
            yield found[0]

    def leave_out(self, counts: LeftOut) -> None:
        """Take over what merges of replicas say of the rows that they did not send."""
        self.contradicted_total, self.passed_over_total = counts.contradicted, counts.passed_over
        self.unsent = counts.unsent

    def as_row(self) -> dict[str, Any]:
        """One value for each column that a shard gives out for them: `METRICS_SPARK`."""
        values = asdict(self)
        return {
            "counts": [*(values[name] for name in _COUNTS), *self.in_time_from],
            "seconds": [values[name] for name in _SECONDS],
            "why": self.why,
        }


_SECONDS: Final = tuple(one.name for one in fields(Metrics) if one.type == "float")
_COUNTS: Final = tuple(one.name for one in fields(Metrics) if one.type in {"int", "Instant"})

_SPARK_TYPES: Final = {"int": "long", "Instant": "long", "float": "double", "str": "string"}

_SHOWN: Final = tuple(one for one in fields(Metrics) if one.type in _SPARK_TYPES)

METRIC_COLUMNS: Final = ", ".join(f"{one.name} {_SPARK_TYPES[str(one.type)]}" for one in _SHOWN)
"""A column for each metric, in Spark's words, as tables get them."""

METRICS_SPARK: Final = "counts array<long>, seconds array<double>, why string"
"""What a shard gives out for them, in Spark's words.

Spark turns what Python gives into Arrow column by column, at a tenth of a millisecond and more for each: thirty of them
took longer than all that a shard does for a thousand rows.
"""

METRIC_VALUES: Final = {
    one.name: f"counts[{_COUNTS.index(one.name)}]" if one.name in _COUNTS
    else f"seconds[{_SECONDS.index(one.name)}]" if one.name in _SECONDS
    else one.name
    for one in _SHOWN
}  # fmt: skip
"""Where each metric is in it, in Spark's words."""

_IN_TIME_FROM: Final = f"slice(counts, {len(_COUNTS) + 1}, size(counts))"

SHARD_AND_IN_TIME_FROM: Final = f"concat(array({METRIC_VALUES['shard']}), {_IN_TIME_FROM})"
"""The number of a shard, and for each way in from when on rows are in time, in Spark's words."""
