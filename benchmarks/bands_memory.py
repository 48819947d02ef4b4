"""What answering costs in memory: the bytes that operators hold, and by how much a fresh process grows.

A query that is watched is run step by step; after every step its snapshot is searched for arrays and Arrow buffers.
Scratch space is not in a snapshot, nor are rows on their way: so each method also runs in a process of its own, and by
how much VmHWM grows meanwhile is asked of the system.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from bands_queries import MEASURED, QUERIES, TIME, answered, grouped, streams_of
from held import copied, growth, held_bytes, in_fresh_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bands_queries import Columns, Setting

GROWN = ("advanced", "basic", "band 2", "MaxLatency")
"""The methods that are given a process of their own: those for three answers, and those for the full one alone."""


@dataclass(frozen=True)
class Watched:
    """What a run gave, and the most that its operators held between two batches."""

    tables: list[pa.Table]
    late: int
    peak_bytes: int


def watched(streams: Sequence[sw.OrderedStream]) -> Watched:
    """Run step by step, with a look at all that is held after every one."""
    answers: list[list[pa.RecordBatch]] = [[] for _ in streams]
    peak = 0
    with sw.Query([(stream, rows.append) for stream, rows in zip(streams, answers, strict=True)]) as query:
        while not query.finished:
            query.step()
            peak = max(peak, held_bytes(query.snapshot()))
        late = sum(counters.late for counters in query.counters().values())
    tables = [pa.Table.from_batches(rows, stream.schema) for stream, rows in zip(streams, answers, strict=True)]
    return Watched(tables, late, peak)


def grown_bytes(setting: Setting, columns: Columns, queries: Sequence[str]) -> dict[str, dict[str, int]]:
    """By how much the memory of a process grows while it answers a query, each method in a process of its own."""
    place = [one.name for one in MEASURED].index(setting.name)
    with tempfile.TemporaryDirectory() as folder:
        for name, column in columns.items():
            np.save(Path(folder) / name, column)
        return {
            query: {method: in_fresh_process(_grown, folder, tuple(columns), place, query, method) for method in GROWN}
            for query in queries
        }


def _grown(folder: str, names: tuple[str, ...], place: int, asked: str, method: str) -> int:
    setting, query = MEASURED[place], QUERIES[asked]
    columns = grouped({name: np.load(Path(folder) / f"{name}.npy") for name in names}, query)

    def answer(part: Mapping[str, NDArray[Any]]) -> None:
        answered(method, partial(sw.run_together, *streams_of(method, copied(part, TIME), setting, query)))

    answer({name: column[:200_000] for name, column in columns.items()})  # loads what is loaded once
    return growth(partial(answer, columns))
