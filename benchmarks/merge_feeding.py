"""How replicas are fed to the variants of the merge, and what is measured of it: speed, and the memory of operators.

R0 to R4   the papers' cases, the later the more general
R3-        R3 with an index for each replica: what sharing the nodes is worth
C+R1       every replica is put in order first, its revisions applied (Cleanse); then R1 merges
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from held import held_bytes
from measure import interleaved, medians
from slackwater.events.gather import no_rows
from slackwater.operators.emission import Emission
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.settle import SettleOperator
from slackwater.operators.replicas.strictly_ordered import MergeStrictlyOrdered
from slackwater.testing.reference.naive_merge import MergeRevisedApart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from measure import Report
    from replicated import Generator
    from slackwater.events.batch import EventBatch

    Batches = Sequence[Sequence[EventBatch]]
    Turns = Sequence[tuple[int, EventBatch]]

BATCH = 4_096
"""Elements of a batch, unless it says otherwise."""


class Merge(Protocol):
    """Whatever takes the batches of replicas and hands out one stream."""

    def on_batch(self, port: int, batch: EventBatch) -> Emission:
        """Take a batch."""


class CleanseThenMerge:
    """Every replica is cleansed by itself; what comes out is in order, and R1 is enough."""

    __slots__ = ("_cleanse", "_merge")

    def __init__(self, replicas: int, no_rows: pa.RecordBatch) -> None:
        self._cleanse = [SettleOperator(no_rows) for _ in range(replicas)]
        self._merge = MergeOrderedSameTies(replicas, no_rows)

    def on_batch(self, port: int, batch: EventBatch) -> Emission:
        """Cleanse, and merge what is settled."""
        settled = self._cleanse[port].on_batch(port, batch).batches
        return Emission.of(*(out for one in settled for out in self._merge.on_batch(port, one).batches))


ORDERED: dict[str, Callable[..., Merge]] = {
    "R0": MergeStrictlyOrdered,
    "R1": MergeOrderedSameTies,
    "R2": MergeOrderedWithKey,
    "R3": MergeRevisedWithKey,
    "R3-": MergeRevisedApart,
    "R4": MergeMultiset,
}
"""All variants can merge replicas that are strictly ordered and never revised."""

REVISED: dict[str, Callable[..., Merge]] = {
    "R3": MergeRevisedWithKey,
    "R3-": MergeRevisedApart,
    "C+R1": CleanseThenMerge,
}
"""The variants of figure 6."""


# ---- feeding ---------------------------------------------------------------------------------------------------------


def batches_of(generator: Generator, inputs: int, words: pa.Array | None = None, rows: int = BATCH) -> Batches:
    """The batches of so many replicas, all made beforehand."""
    return [generator.replica(seed).batches(rows, words) for seed in range(1, inputs + 1)]


def elements_in(batches: Batches) -> int:
    """How many elements all replicas have."""
    return sum(len(batch) for replica in batches for batch in replica)


def empty_like(batch: EventBatch) -> pa.RecordBatch:
    """An empty payload with memory of its own, for a slice would keep the batch alive."""
    return no_rows(batch.payload.schema)


def turns_of(batches: Batches) -> Turns:
    """Replicas in turn, batch by batch: the first leads, the others tell the same a little later."""
    rounds = zip_longest(*batches)
    return [(port, batch) for together in rounds for port, batch in enumerate(together) if batch is not None]


def merge_all(variant: Callable[..., Merge], inputs: int, turns: Turns) -> int:
    """Merge all; return how many elements went out."""
    merge = variant(inputs, empty_like(turns[0][1]))
    return sum(len(out) for port, batch in turns for out in merge.on_batch(port, batch).batches)


def peak_mib(variant: Callable[..., Merge], inputs: int, turns: Turns) -> float:
    """The most that a merge has in memory, in MiB, looked at now and then."""
    merge, peak = variant(inputs, empty_like(turns[0][1])), 0
    for number, (port, batch) in enumerate(turns):
        merge.on_batch(port, batch)
        if number % 5 == 0:
            peak = max(peak, held_bytes(merge))
    return peak / 2**20


def speeds(variants: dict[str, Callable[..., Merge]], batches: Batches, repeats: int) -> dict[str, float]:
    """Millions of elements per second, those of all replicas counted."""
    turns, inputs = turns_of(batches), len(batches)
    work = {name: partial(merge_all, variant, inputs, turns) for name, variant in variants.items()}
    return {name: elements_in(batches) / taken / 1e6 for name, taken in medians(interleaved(work, repeats)).items()}


def by_inputs(
    variants: dict[str, Callable[..., Merge]], made: Callable[[int], Batches], inputs: Sequence[int], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Throughput and memory of each variant, for each number of replicas."""
    speed: dict[str, list[float]] = {name: [] for name in variants}
    memory: dict[str, list[float]] = {name: [] for name in variants}
    for count in inputs:
        batches = made(count)
        turns = turns_of(batches)
        for name, value in speeds(variants, batches, repeats).items():
            speed[name].append(value)
            memory[name].append(peak_mib(variants[name], count, turns))
    return speed, memory


def tables(
    report: Report,
    title: str,
    along: tuple[str, Sequence[Any]],
    speed: dict[str, list[float]],
    memory: dict[str, list[float]],
) -> None:
    """Print speed and memory of each variant, by what was varied."""
    what, values = along
    for measured, figures in (("M elements/s", speed), ("the most in memory, MiB", memory)):
        rows = [[value, *(column[i] for column in figures.values())] for i, value in enumerate(values)]
        report.table(f"{title}: {measured}", (what, *figures), rows)


def plain_name(name: str) -> str:
    """The name of a variant as figures have it."""
    return {"R3-": "r3_minus", "C+R1": "cleanse"}.get(name, name.lower())
