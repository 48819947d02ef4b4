"""What Spark reports of a micro-batch, read: how far the query has come, what it counted, and why it is no further.

Spark sums up the metrics of all shards as it writes them, and reports the sums with the progress of the query: to
whoever holds the query, and to listeners, on classic sessions and over Spark Connect. All of them read it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.operators.replicas.open_events import OpenEvents
from slackwater.progress.instants import BEGINNING
from slackwater.runners.in_process.progress import Progress
from slackwater.runners.prometheus import prometheus_text
from slackwater.runners.result import Counters
from slackwater.runners.spark.shard.metrics import METRIC_VALUES, METRICS
from slackwater.runners.spark.shard.reasons import reasons_together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from slackwater.operators.why import Why
    from slackwater.runners.spark.checkpoint.ownership import Run

ALL_SHARDS: Final = "all shards"
"""Whose counters they are: shards are not distinguished, nor are steps."""

_COUNTED: Final = {
    "rows_in": "rows_in_total", "rows_out": "rows_out_total", "late": "late_total", "duplicates": "duplicates_total",
    "broken_bounds": "broken_bounds_total",
    "late_by_estimate": "late_by_estimate_total",
    "contradicted": "contradicted_total", "passed_over": "passed_over_total", "unsent": "unsent", "buffered": "held",
}  # fmt: skip
"""Which metric of shards is which counter."""

_OBSERVED: Final = "slackwater"
"""The name under which Spark reports the sums of all shards' metrics."""


@dataclass(frozen=True, repr=False)
class MicroBatch:
    """What a micro-batch of a query on Spark did, and how the query stood behind it; see `QueryListener`.

    One in which no shard had anything to do is not reported.
    """

    query: str
    """The id of the query, which is made with its checkpoint, and stays: `SparkQuery.id`."""

    name: str | None
    """What Spark calls the query: `start(name=...)`."""

    batch_id: int
    """Its number, as sinks get it; Spark counts anew where shards have become others."""

    seconds: float
    """How long it took."""

    figures: Mapping[str, Any]
    """The metrics of all shards, summed up, as in `SparkQuery.last_micro_batch()`; times are numbers."""

    calendar: bool = True
    """Whether times are microseconds in UTC; otherwise they are sequence numbers."""

    def __repr__(self) -> str:
        return f"<MicroBatch {self.batch_id} of {self.name or self.query}, {self.rows_in} rows in>"

    @property
    def rows_in(self) -> int:
        """Rows that came in this micro-batch."""
        return int(self.figures["rows_in"])

    @property
    def rows_out(self) -> int:
        """Rows that all outputs sent in this micro-batch."""
        return int(self.figures["rows_out"])

    @property
    def late(self) -> int:
        """Rows of this micro-batch that came too late."""
        return int(self.figures["late"])

    @property
    def duplicates(self) -> int:
        """Rows of this micro-batch that were left out because another one stands for the same event."""
        return int(self.figures["duplicates"])

    @property
    def progress(self) -> Progress:
        """How far the query had come behind it, and how many rows there were in all."""
        figures = self.figures
        events = OpenEvents(figures.get("open_events", 0), figures.get("open_events_from", BEGINNING))
        return Progress(
            self.calendar,
            figures.get("complete_before", BEGINNING),
            newest={},
            held={ALL_SHARDS: held} if (held := figures.get("held", 0)) else {},
            total_in=figures.get("rows_in_total", 0),
            total_out=figures.get("rows_out_total", 0),
            total_late=figures.get("late_total", 0),
            waits={ALL_SHARDS: events} if events.count else {},
        )

    @property
    def counters(self) -> dict[str, Counters]:
        """What all shards had done together since the query began, restarts included."""
        return {ALL_SHARDS: Counters(**{ours: self.figures.get(theirs, 0) for ours, theirs in _COUNTED.items()})}

    @property
    def why(self) -> tuple[Why, ...]:
        """Why the streams were complete no further; where each source goes by its own heartbeat, `origins` has them."""
        return reasons_together(self.figures.get("why") or ())

    def prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The same as Prometheus reads it; see `SparkQuery.prometheus()`."""
        named = {"query": self.name or self.query, **(labels or {})}
        return prometheus_text(self.progress, self.counters, self.why, named, by_step=False)


def observed(released: DataFrame, run: Run, *, calendar: bool) -> DataFrame:
    """Let Spark sum up the metrics of all shards, which costs no further pass; and say whose they are."""
    from pyspark.sql import functions

    is_metrics = released["output"] == METRICS
    value = {name: functions.expr(of_metrics) for name, of_metrics in METRIC_VALUES.items()}
    counts = ("rows_in", "rows_out", "late", "duplicates")
    left_out = ("contradicted_total", "passed_over_total", "unsent", "shared", "only_some", "open_events")
    totals = tuple(f"{name}_total" for name in (*counts, "broken_bounds"))
    summed = (*counts, *totals, *left_out, "held", "spilled", "runs", "state_bytes")
    phases = ("decode_seconds", "operate_seconds", "state_seconds", "encode_seconds")
    return released.observe(
        _OBSERVED,
        functions.count_if(is_metrics).alias("shards"),
        *(functions.sum(value[name]).alias(name) for name in (*summed, *phases)),
        *(
            functions.max(value[name]).alias(name)
            for name in ("replicas", "replicas_waiting", "replicas_taken_over", "late_by_estimate_total")
        ),
        *(
            functions.min(functions.when(is_metrics, value[name])).alias(name)
            for name in ("complete_before", "open_events_from")
        ),
        functions.collect_list(functions.when(is_metrics, value["why"])).alias("why"),
        functions.max(functions.lit(run.query)).alias("query"),
        functions.max(functions.lit(run.before)).alias("before"),
        functions.max(functions.lit(calendar)).alias("calendar"),
    )


def micro_batch_of(report: Any) -> MicroBatch | None:
    """Read what Spark reports of a query; nothing where no shard has worked, or the query is none of ours."""
    row = report.observedMetrics.get(_OBSERVED)
    return None if row is None else _micro_batch(row.asDict(), report.name, report.batchId, report.batchDuration)


def micro_batch_in(report: Mapping[str, Any]) -> MicroBatch | None:
    """The same, read from the text of a report of classic Spark."""
    row = report.get("observedMetrics", {}).get(_OBSERVED)
    return None if row is None else _micro_batch(row, report["name"], report["batchId"], report["batchDuration"])


def _micro_batch(observed: dict[str, Any], name: str | None, batch_id: int, milliseconds: int) -> MicroBatch | None:
    figures = dict(_named(observed))
    if not figures.get("shards"):
        return None
    query, before, calendar = (figures.pop(one) for one in ("query", "before", "calendar"))
    return MicroBatch(query, name, before + batch_id, milliseconds / 1_000, figures, calendar)


def _named(observed: dict[str, Any]) -> dict[str, Any]:
    """Observed metrics by name. Spark Connect keeps values and names apart.

    >>> _named({"values": [2, 7], "schema": {"fields": [{"name": "shards"}, {"name": "late"}]}})
    {'shards': 2, 'late': 7}
    """
    if observed.keys() != {"values", "schema"}:
        return observed
    names = [field["name"] for field in observed["schema"]["fields"]]
    return dict(zip(names, observed["values"], strict=True))
