"""The memory of a sort while the stream flows: what the operator holds, and by how much a fresh process grows.

The first is the bytes of arrays and Arrow buffers in the query's snapshot, looked at after every batch. The second is
VmHWM of a process that does nothing else, from the moment before the sort to its end: scratch space, rows on their way
and all that allocators keep are in it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import disordered
import slackwater as sw
from held import BATCH_ROWS, copied, growth, held_bytes, in_fresh_process
from sort_streams import GENERATORS, latency_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from measure import Report

    Columns = dict[str, NDArray[Any]]


def run(report: Report, names: Sequence[str], events: int) -> None:
    """Measure some streams."""
    rows = []
    for name in names:
        waiting, held, grown = in_fresh_process(_measured, name, events)
        rows.append([name, f"{waiting:,}", held / 2**20, held / waiting, grown / 2**20])
        report.figures[f"whole_sort_held_mib_{name}"] = round(held / 2**20, 1)
        report.figures[f"whole_sort_process_growth_mib_{name}"] = round(grown / 2**20, 1)
    report.table(
        f"memory online, {events:,} events of five columns, batches of {BATCH_ROWS:,}, a punctuation for each",
        ("data", "most rows waiting", "MiB held", "bytes per row", "growth of a fresh process, MiB"),
        rows,
    )


def _measured(name: str, events: int) -> tuple[int, int, int]:
    """The most rows that wait, the most bytes that the query holds, and by how much the process grows."""
    columns: Columns = {"at": GENERATORS[name](events), **disordered.payload(events, groups=100)}
    patience = latency_of(columns["at"])
    _sort({column: values[:BATCH_ROWS] for column, values in columns.items()}, patience)  # loads what is loaded once
    grown = growth(partial(_sort, columns, patience))
    waiting, held = 1, 0
    with sw.Query([(_sorted(columns, patience), deque[Any](maxlen=1).append)]) as query:
        while not query.finished:
            query.step()
            held = max(held, held_bytes(query.snapshot()))
            waiting = max(waiting, *(counters.buffered for counters in query.counters().values()))
    return waiting, held, grown


def _sorted(columns: Columns, patience: int) -> sw.OrderedStream:
    return sw.stream(copied(columns, {}), time="at").sort(patience, every=sw.Every.batch(), late=sw.Late.raise_error())


def _sort(columns: Columns, patience: int) -> None:
    _sorted(columns, patience).for_each(deque[Any](maxlen=1).append)
