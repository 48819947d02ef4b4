"""By how much a fresh process grows while it merges: scratch space, rows on their way, what allocators keep.

Each variant runs in a process of its own. The batches are made beforehand and are not counted; what goes out is
dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from held import growth, in_fresh_process
from merge_feeding import BATCH, ORDERED, REVISED, merge_all, plain_name, turns_of
from replicated import Generator

if TYPE_CHECKING:
    from measure import Report
    from merge_feeding import Batches


def run(report: Report, ordered: int, revised: int, *, quick: bool) -> None:
    """Ordered replicas with long payloads (figure 2), and revised ones (figure 6)."""
    cases = [("ordered", ordered, name, 10) for name in ("R3", "R3-")]
    if not quick:
        cases += [("revised", revised, name, 10) for name in ("R3", "C+R1", "R3-")]
        cases += [("ordered", ordered, name, 2) for name in ("R3", "R3-")]
        cases += [("ordered", ordered, name, 10) for name in ("R0", "R1", "R2", "R4")]
    rows = []
    for replicas, events, name, inputs in cases:
        mebibytes = in_fresh_process(_grown, replicas, events, name, inputs) / 2**20
        rows.append([replicas, name, inputs, mebibytes])
        report.figures[f"{plain_name(name)}_process_growth_mib_{replicas}_{inputs}_inputs"] = round(mebibytes, 1)
    report.table(
        f"by how much a fresh process grows, batches of {BATCH:,}", ("replicas", "variant", "inputs", "MiB"), rows
    )


def _grown(replicas: str, events: int, name: str, inputs: int) -> int:
    variant = {**ORDERED, **REVISED}[name]
    batches = _ordered(events, inputs) if replicas == "ordered" else _revised(events, inputs)
    merge_all(variant, inputs, turns_of([replica[:2] for replica in batches]))  # loads what is loaded once
    return growth(partial(merge_all, variant, inputs, turns_of(batches)))


def _ordered(events: int, inputs: int) -> Batches:
    """The replicas of figure 2: payloads of 1,000 bytes. All replicas share the memory of one."""
    generator = Generator(events, stable_freq=0.01, disorder=0, alive=events // 10, word_bytes=1_000)
    return [generator.replica(1).batches(BATCH, generator.words())] * inputs


def _revised(events: int, inputs: int) -> Batches:
    """The replicas of figure 6: counts over windows of disordered replicas."""
    generator = Generator(events, stable_freq=0.001, disorder=0.5)
    return [generator.aggregated(seed, BATCH) for seed in range(1, inputs + 1)]
