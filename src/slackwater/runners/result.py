"""What every runner gives back, and what it counts on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slackwater import notebook
from slackwater.events.shown_values import show_value
from slackwater.progress.instants import Duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slackwater.operators.replicas.left_out import LeftOut


@dataclass(slots=True)
class Counters:
    """What one step has done so far, in all; only `buffered` is of this moment."""

    rows_in: int = 0
    rows_out: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    buffered: int = 0
    """Events or partial results held now."""

    peak_buffered: int = 0
    """The most that was ever held at once, while a batch was worked on too."""

    idle_waiting: Duration = 0
    """For how long something was held back because an input was silent."""

    late: int = 0
    """Rows that came too late and did not go on. A query that was resumed goes on counting where the other was."""

    broken_bounds: int = 0
    """Rows that came though bounds ruled it out, late or not, from the very beginning: counted for each bound."""

    late_by_estimate: int = 0
    """Rows that came behind the stream because of an estimated bound, where declared bounds would have kept them."""

    duplicates: int = 0
    """Rows that were left out because another one stands for the same event, from the very beginning, as for `late`."""

    ignored: int = 0
    """Rows that were left out because nobody is interested in their time any more, or in the replica they are from."""

    contradicted: int = 0
    """Of a merge of replicas: rows of events that are not in the output, because the replica that led lacked them, or
    who had them was detached. This and the next four are explained where `LeftOut` is, and count as `late` does."""

    passed_over: int = 0
    """Rows whose time the output had passed already: emitted before or not, nobody knows any more."""

    revised: int = 0
    """Rows that changed an event of a replica, or took it back, and rows that were taken back before they went out."""

    corrections: int = 0
    """Rows out that add no event to the output: adjusts, and the inserts that some of them take back."""

    unsent: int = 0
    """Rows that a merge has taken in, and neither sent nor left out yet."""

    left: int = 0
    """Of a merge: how often a replica failed and left, while the others went on."""

    def leave_out(self, counts: LeftOut) -> None:
        """Take over what a merge says of the rows that it did not send."""
        self.contradicted, self.passed_over, self.revised = counts.contradicted, counts.passed_over, counts.revised
        self.corrections, self.unsent = counts.corrections, counts.unsent

    def __str__(self) -> str:
        names = (
            "late",
            "broken_bounds",
            "late_by_estimate",
            "duplicates",
            "ignored",
            "contradicted",
            "passed_over",
            "revised",
            "corrections",
            "unsent",
        )
        counts = ((name.replace("_", " "), getattr(self, name)) for name in names)
        left_out = "".join(f"{name} {count}, " for name, count in counts if count)
        left_out += f"replicas left {self.left}, " if self.left else ""
        return (
            f"total in {self.rows_in} +{self.punctuations_in}p, "
            f"out {self.rows_out} +{self.punctuations_out}p, {left_out}"
            f"idle-waiting {format_duration(self.idle_waiting)}; now held {self.buffered} (peak {self.peak_buffered})"
        )


_ROWS_SHOWN = 10
"""As many rows of a result are shown in a notebook, at most."""


@dataclass(frozen=True, repr=False)
class Result:
    """What a finished run gives back.

    >>> import slackwater as sw
    >>> sw.stream([{"at": 1, "x": 2}, {"at": 9, "x": 3}, {"at": 2, "x": 4}], time="at").sort(patience=5).run()
    <Result of 2 rows, 2 columns, 1 came too late>
    """

    table: pa.Table
    """All rows of the output, in the order they were sent."""

    counters: Mapping[str, Counters] = field(repr=False)
    """What each step did, by its name in explain()."""

    peak_queued: int = 0
    """The most elements that ever waited at once, in queues and for silent inputs."""

    late_by_source: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """The rows that came too late, by the name of the source they came from: see `late`."""

    left_out_by_source: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    """The rows that merges of replicas left out and diverted, by the names of their sources: see `left_out`."""

    @property
    def late(self) -> Any:
        """The rows that came too late: a table, where one step diverts such rows.

        Where several do, a mapping with a table for each, by the name of the source that the rows came from, such as
        `clicks`, or `web+app` of two; a second step on the same source has `clicks#2`. Where none does, nothing: {}.

        >>> import slackwater as sw
        >>> clicks = sw.stream([{"at": 1}, {"at": 9}, {"at": 2}], time="at", name="clicks")
        >>> clicks.sort(patience=5).run().late.to_pylist()
        [{'at': 2, 'late_bound': 4, 'late_by': 2}]
        >>> soon, _ = sw.run_together(clicks.sort(patience=5), clicks.sort(patience=7))
        >>> {name: table.num_rows for name, table in soon.late.items()}
        {'clicks': 1, 'clicks#2': 0}
        """
        return _one_or_all(self.late_by_source)

    @property
    def left_out(self) -> Any:
        """The rows that a merge of replicas left out and diverted: a table, or tables by source, as for `late`."""
        return _one_or_all(self.left_out_by_source)

    def __repr__(self) -> str:
        rows, columns = _several(self.table.num_rows, "row"), _several(self.table.num_columns, "column")
        return f"<Result of {rows}, {columns}{self._came_too_late()}>"

    def _repr_html_(self) -> str:
        shown = self.table.slice(0, _ROWS_SHOWN)
        rows = [[show_value(column[row]) for column in shown.columns] for row in range(shown.num_rows)]
        more = self.table.num_rows - shown.num_rows
        return notebook.block(
            repr(self),
            notebook.table(shown.column_names, rows),
            *([notebook.note(f"and {_several(more, 'more row')}")] if more else []),
            notebook.folded("steps", str(self)),
        )

    def _came_too_late(self) -> str:
        late = sum(counters.late for counters in self.counters.values())
        return f", {late} came too late" if late else ""

    def __str__(self) -> str:
        rows = f"{self.table.num_rows} rows{self._came_too_late()}"
        width = max(map(len, self.counters), default=0)
        steps = [f"{name:<{width}}  {counters}" for name, counters in self.counters.items()]
        return "\n".join([rows, *steps])


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _one_or_all(tables: Mapping[str, pa.Table]) -> Any:
    """The only table, or all of them by name."""
    return next(iter(tables.values())) if len(tables) == 1 else tables
