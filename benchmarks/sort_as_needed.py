"""What it brings to select, project and give windows before a sort instead of behind it (figure 9).

A pipeline of three operators is timed in both orders, on the same batches of 262,144 rows:
    late     punctuate ──> sort ──> step ──> dropped        sort everything, as soon as it comes
    early    punctuate ──> step ──> sort ──> dropped        sort as needed
The operators are those of the plan, called one after the other, without a source and without a runner: their cost would
be the same in both. The plan itself puts the step before the sort, so the late order is built by hand.

"all" compares the whole pipelines. "sort" compares the sort alone, fed with all rows or with what the step left of
them, as the paper does. Events carry four 32-bit columns; a patience as long as the greatest lateness keeps all.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, sections IV-A and VI-C.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import disordered
import slackwater as sw
from measure import interleaved
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.rows import AssignWindow, Select, UnaryNode, Where
from slackwater.policies.lateness import Lateness
from slackwater.policies.windows import Tumbling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from slackwater.events.batch import EventBatch
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node

    Step = Callable[[Node], UnaryNode]

STREAMS: dict[str, Callable[[int], NDArray[np.int64]]] = {
    "s30_64": partial(disordered.synthetic, percent=30, spread=64),
    "cloud_like": disordered.cloud_like,
    "android_like": disordered.android_like,
}
"""The streams of figure 9."""

BATCH_ROWS = 262_144
"""Rows of a batch. In smaller ones, of which a tenth is left, what a call costs at all hides what its rows cost."""

EVERY = sw.Every.rows(10_000)
"""How often is punctuated."""

SELECTIVITIES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.01)
"""Which part of the rows is kept. At 1 the predicate is evaluated and keeps all."""

PROJECTED = (4, 3, 2, 1)
"""How many of the four columns are kept."""

WINDOWS = (10, 100, 1_000, 10_000, 100_000)
"""Lengths of windows, in events."""

_PAYLOAD = ("group", "a", "b", "c")
_VALUES = 2**31 - 1  # "a" is spread evenly below


@dataclass(frozen=True)
class _Below:
    """A predicate that costs next to nothing: one comparison of one 32-bit column."""

    limit: int
    __name__ = "below"

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        return pc.less(rows.column("a"), pa.scalar(self.limit, pa.int32()))


def _where(part: float) -> Step:
    return lambda node: Where(node, _Below(round(part * _VALUES)))


def _select(columns: int) -> Step:
    return lambda node: Select(node, {name: name for name in _PAYLOAD[:columns]})


def _tumbling(size: int) -> Step:
    return lambda node: AssignWindow(node, Tumbling(size))


STEPS: dict[str, dict[float, Step]] = {
    "selection": {part: _where(part) for part in SELECTIVITIES},
    "projection": {columns: _select(columns) for columns in PROJECTED},
    "window": {size: _tumbling(size) for size in WINDOWS},
}
"""What is moved before the sort, by its one parameter."""


class _Pipeline:
    """Operators in a row, each fed with what the one before it has put out; the rows of the last are dropped."""

    def __init__(self, nodes: Sequence[UnaryNode]) -> None:
        self._operators: list[Operator[Any]] = [node.build(node.verb) for node in nodes]
        self.seconds = [0.0] * len(nodes)
        self.rows_out = 0

    def take(self, batch: EventBatch, first: int = 0) -> None:
        """Let a batch run through, from the given operator on."""
        batches: Sequence[EventBatch] = (batch,)
        for number in range(first, len(self._operators)):
            begun = time.perf_counter()
            batches = [out for batch in batches for out in self._operators[number].on_batch(0, batch).batches]
            self.seconds[number] += time.perf_counter() - begun
        self.rows_out += sum(batch.rows for batch in batches)

    def end(self) -> None:
        """Let go what is held, operator by operator."""
        for number, operator in enumerate(self._operators):
            begun = time.perf_counter()
            batches = operator.on_end(0).batches
            self.seconds[number] += time.perf_counter() - begun
            for batch in batches:
                self.take(batch, number + 1)


@dataclass
class _Order:
    """A pipeline in one order: runs on call, and remembers how long each step took in each run."""

    nodes: Sequence[UnaryNode]
    batches: Sequence[EventBatch]
    rows_out: int = 0
    seconds: list[list[float]] = field(default_factory=list)

    def __call__(self) -> None:
        pipeline = _Pipeline(self.nodes)
        for batch in self.batches:
            pipeline.take(batch)
        pipeline.end()
        self.rows_out = pipeline.rows_out
        self.seconds.append(pipeline.seconds)

    def nanoseconds(self, events: int) -> dict[str, float]:
        """Nanoseconds per event that came in, of each step and of all: medians of the runs but the first."""
        by_step = zip(*self.seconds[1:], strict=True)
        steps = {n.verb: 1e9 / events * median(taken) for n, taken in zip(self.nodes, by_step, strict=True)}
        return {**steps, "all": 1e9 / events * median(map(sum, self.seconds[1:]))}


def run(report: Report, *, quick: bool) -> None:
    """Time every step in both orders on every stream."""
    gc.freeze()
    events, repeats, steps = (2_000_000, 3, _some(STEPS)) if quick else (5_000_000, 3, STEPS)
    measured = {name: _measured(generate(events), steps, repeats) for name, generate in STREAMS.items()}
    gc.unfreeze()
    for step in STEPS:
        _table(report, step, {name: by[step] for name, by in measured.items()}, events)
    _figures(report, measured)


def _some(steps: Mapping[str, Mapping[float, Step]]) -> dict[str, dict[float, Step]]:
    """What a short run measures."""
    chosen = {1.0, 0.5, 0.1, 0.01, 4, 100, 10_000}
    return {name: {p: step for p, step in by.items() if p in chosen} for name, by in steps.items()}


Speeds = dict[str, dict[float, dict[str, dict[str, float]]]]
"""By step, by its parameter, by order: nanoseconds per event of each operator."""


def _measured(times: NDArray[np.int64], chosen: Mapping[str, Mapping[float, Step]], repeats: int) -> Speeds:
    source = sw.stream(_rows(times), time="at").node
    patience = int((np.maximum.accumulate(times) - times).max())
    batches = [source.schema.read(rows, "table") for rows in _rows(times).to_batches(BATCH_ROWS)]
    punctuated = Punctuate(source, Lateness((patience,), EVERY, sw.Late.raise_error()))
    found: Speeds = {}
    for name, steps in chosen.items():
        found[name] = {}
        for parameter, step in steps.items():
            before, behind = step(punctuated), step(Sort(punctuated))
            orders = {
                "late": _Order((punctuated, Sort(punctuated), behind), batches),
                "early": _Order((punctuated, before, Sort(before)), batches),
            }
            interleaved(orders, repeats)
            assert orders["late"].rows_out == orders["early"].rows_out, f"{name} {parameter}: rows differ"
            found[name][parameter] = {order: one.nanoseconds(len(times)) for order, one in orders.items()}
    return found


def _rows(times: NDArray[np.int64]) -> pa.Table:
    return pa.table({"at": times, **disordered.payload(len(times), groups=100)})


def _speedup(orders: Mapping[str, Mapping[str, float]], of: str = "all") -> float:
    return orders["late"][of] / orders["early"][of]


_PARAMETER = {"selection": "kept", "projection": "columns", "window": "events"}


def _table(report: Report, step: str, measured: Mapping[str, Any], events: int) -> None:
    rows = [
        [name, parameter, *late.values(), *early.values(), late["sort"] / early["sort"], late["all"] / early["all"]]
        for name, by in measured.items()
        for parameter, (late, early) in ((parameter, orders.values()) for parameter, orders in by.items())
    ]
    order_of_steps = ("punctuate", "sort", step, "late", "punctuate", step, "sort", "early")
    report.table(
        f"early {step}, {events:,} events: ns per event that comes in, in late and early order; early is faster by",
        ("data", _PARAMETER[step], *order_of_steps, "sort x", "all x"),
        rows,
    )
    report.series[step] = {
        name: {str(p): {of: round(_speedup(orders, of), 3) for of in ("all", "sort")} for p, orders in by.items()}
        for name, by in measured.items()
    }


def _figures(report: Report, measured: Mapping[str, Speeds]) -> None:
    """The least over the streams: of keeping 10 %, of keeping one column, of the best window."""
    best = {
        "early_selection_speedup_10pct": {name: by["selection"][0.1] for name, by in measured.items()},
        "early_projection_speedup": {name: by["projection"][1] for name, by in measured.items()},
    }
    for of, suffix in (("sort", ""), ("all", "_all_steps")):
        for figure, by in best.items():
            report.figures[f"{figure}{suffix}"] = round(min(_speedup(orders, of) for orders in by.values()), 2)
        windows = {name: max(_speedup(o, of) for o in by["window"].values()) for name, by in measured.items()}
        report.figures[f"early_window_speedup{suffix}"] = round(min(windows.values()), 2)
        for name, speedup in windows.items():
            report.figures[f"early_window_speedup{suffix}_{name}"] = round(speedup, 2)
