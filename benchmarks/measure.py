"""The harness of all benchmarks: warm-up, interleaved repeats, medians, plain tables, one JSON line."""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

RESULTS = Path(__file__).parent / "results"
"""Where a full run leaves its figures, for make figures and for review."""


@dataclass(frozen=True)
class Taken:
    """The seconds that work took where it was done: what a contender in another process returns."""

    seconds: float


FORMAT = 2
"""Which names the figures of a result file have: 2 since whole operators and kernels have names of their own."""


def interleaved(contenders: Mapping[str, Callable[[], Any]], repeats: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Time every contender in turn, round by round, so that a change of the machine's mood hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(warm_up + repeats):
        if round_number <= warm_up:
            gc.freeze()  # what lives already, modules and compiled kernels, is not searched again before every run
        for name, work in contenders.items():
            gc.collect()
            taken = _seconds(work)
            if round_number >= warm_up:
                seconds[name].append(taken)
    gc.unfreeze()
    return seconds


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    made = work()
    if isinstance(made, Taken):
        return made.seconds
    del made  # giving the memory back is part of the work
    return time.perf_counter() - begun


def medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median time of every contender."""
    return {name: statistics.median(times) for name, times in seconds.items()}


def times_slower(rival: Sequence[float], ours: Sequence[float]) -> float:
    """How many times as long a rival takes: the median over the rounds, for within a round both met the same mood."""
    return statistics.median(theirs / own for theirs, own in zip(rival, ours, strict=True))


def least(ratios: Iterable[float]) -> float:
    """The least of some ratios, as it is quoted."""
    return round(min(ratios), 2)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    found = dict(line.split(":", 1) for line in reversed(_lines("/proc/cpuinfo")) if ":" in line)
    about = {name.strip(): value.strip() for name, value in found.items()}
    # In virtual machines the name is that of many processors: the family and what it can do tell them apart.
    words = [about.get("model name", platform.processor()), f"family {about.get('cpu family', '?')}"]
    words += ["AVX-512"] if "avx512f" in about.get("flags", "").split() else []
    kilobytes = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": ", ".join(words),
        "cores": os.cpu_count(),
        "memory_gib": round(kilobytes / 2**20),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "pyarrow", "numba", "narwhals")},
    }


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@dataclass
class Report:
    """What a benchmark says: rows for people, named figures for machines, series for pictures."""

    name: str
    figures: dict[str, float] = field(default_factory=dict)
    series: dict[str, Any] = field(default_factory=dict)

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table in plain columns."""
        cells = [[_cell(value) for value in row] for row in (header, *rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
        print(f"\n{title}")
        for row in cells:
            print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))

    def save(self) -> None:
        """Keep the figures of a full run, with the machine they were measured on."""
        RESULTS.mkdir(exist_ok=True)
        kept = {"format": FORMAT, "machine": machine(), "figures": self.figures, "series": self.series}
        (RESULTS / f"{self.name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
