"""How time and space grow, beside what the paper's Table IV says: by inputs, events alive, payloads, ties, duplicates.

Every curve varies one thing and leaves the rest. Its exponent is that of its last two points, where what is there
anyway weighs least: 0 means that nothing grows, 1 that it grows in proportion. Time is that of an element of any
replica, in batches of 4,096; space is all that the operator has. Where the table says O(log w), for the paper keeps a
tree, ours has a hash table.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-E, Table IV.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import interleaved, medians
from merge_feeding import BATCH, ORDERED, batches_of, elements_in, merge_all, peak_mib, plain_name, turns_of
from replicated import Generator, Replica
from slackwater.events.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from measure import Report
    from merge_feeding import Batches


@dataclass(frozen=True)
class Curve:
    """What is varied, over which values, for which variants, and what the table says of time and space."""

    what: str
    values: Sequence[int]
    batches: Callable[[int], Batches]
    table: dict[str, tuple[str, str]]
    """By variant: the time of an insert, the space."""


def run(report: Report, *, quick: bool) -> None:
    """Measure every curve."""
    rows = []
    series: dict[str, Any] = {}
    for curve in _curves(20_000 if quick else 100_000, quick=quick):
        time, space = _measured(curve, 2 if quick else 5)
        series[curve.what] = {"values": list(curve.values), "ns": time, "mib": space}
        for name, (said_time, said_space) in curve.table.items():
            for kind, said, found in (("ns", said_time, time[name]), ("MiB", said_space, space[name])):
                exponent = _exponent(curve.values, found)
                shown = [f"{value:.4g}" for value in (found[0], found[-1])]
                reach = f"{curve.values[0]:,} to {curve.values[-1]:,}"
                rows.append([name, kind, curve.what, reach, *shown, exponent, said])
                of = "time" if kind == "ns" else "space"
                report.figures[f"{plain_name(name)}_{of}_exponent_by_{curve.what}"] = round(exponent, 2)
    report.table(
        f"growth (Table IV), batches of {BATCH:,}",
        ("case", "of", "by", "of values", "first", "last", "exponent", "Table IV"),
        rows,
    )
    report.series["growth"] = series


def _curves(events: int, *, quick: bool) -> list[Curve]:
    revised = Generator(events, stable_freq=0.01, revised=0.2)
    alive = (1_000, 4_000, 16_000) if quick else (1_000, 4_000, 16_000, 64_000)
    ties = (1, 100, 10_000) if quick else (1, 10, 100, 1_000, 10_000)
    general = {"R3": ("O(log w)", "O(w (p + n))"), "R4": ("O(log w + log d)", "O(w (p + n d))")}
    simple = {"R0": ("O(1)", "O(1)"), "R1": ("O(n)", "O(n)"), "R2": ("O(n)", "O(g p)")}
    return [
        Curve("inputs", (2, 4, 8), partial(_ordered, revised), {**simple, **general}),
        Curve("alive", alive, lambda w: batches_of(replace(revised, events=4 * max(w, 5_000), alive=w), 2), general),
        Curve("payload_bytes", (10, 100, 1_000), partial(_words, events // 4), general),
        Curve("ties", ties, partial(_tied, events), {name: simple[name] for name in ("R1", "R2")}),
        Curve("duplicates", (1, 4, 16), partial(_doubled, events), {"R4": general["R4"]}),
    ]


def _measured(curve: Curve, repeats: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Nanoseconds per element and MiB of each variant, at each value."""
    time: dict[str, list[float]] = {name: [] for name in curve.table}
    space: dict[str, list[float]] = {name: [] for name in curve.table}
    for value in curve.values:
        batches = curve.batches(value)
        turns, elements = turns_of(batches), elements_in(batches)
        work = {name: partial(merge_all, ORDERED[name], len(batches), turns) for name in curve.table}
        for name, seconds in medians(interleaved(work, repeats)).items():
            time[name].append(round(1e9 * seconds / elements, 1))
            space[name].append(round(peak_mib(ORDERED[name], len(batches), turns), 4))
    return time, space


def _exponent(values: Sequence[int], found: Sequence[float]) -> float:
    """The slope of the curve between its last two points where both axes are logarithmic.

    Less than a kibibyte counts as one, for what the simple cases remember is a number or two.

    >>> _exponent([1, 10, 100], [5.0, 5.0, 50.0])
    1.0
    """
    before, last = (max(value, 2**-10) for value in found[-2:])
    return float(np.log(last / before) / np.log(values[-1] / values[-2]))


def _ordered(generator: Generator, inputs: int) -> Batches:
    """Ordered replicas without adjusts, so that all variants can merge them."""
    return [replace(generator, disorder=0, revised=0).replica(1).batches(BATCH)] * inputs


def _words(events: int, word_bytes: int) -> Batches:
    generator = Generator(events, stable_freq=0.01, alive=2_000, word_bytes=word_bytes)
    return batches_of(generator, 2, generator.words())


def _tied(events: int, ties: int) -> Batches:
    """Two ordered replicas in which so many events have the same start, with payloads that tell them apart."""
    place = np.arange(events)
    return [_inserts(place // ties * 1_000, place % ties, place)] * 2


def _doubled(events: int, duplicates: int) -> Batches:
    """Two ordered replicas that tell the same start and payload so many times, with ends of their own."""
    place = np.arange(events)
    start = place // duplicates * 1_000
    return [_inserts(start, place // duplicates % 401, place, start + 2_000_000 + place % duplicates)] * 2


def _inserts(start: Any, number: Any, row: Any, end: Any = None) -> Any:
    """A replica of inserts, with a punctuation before every hundredth start."""
    end = start + 2_000_000 if end is None else end
    places = np.flatnonzero(np.diff(start, prepend=start[0]))[99::100]
    kind = np.insert(np.full(len(start), int(Kind.INSERT), dtype=np.int8), places, int(Kind.PUNCTUATE))
    start_and, end_and = (np.insert(column, places, start[places]) for column in (start, end))
    return Replica(kind, start_and, end_and, end_and, number, row).batches(BATCH)
