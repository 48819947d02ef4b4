"""Which heartbeats an operator of a plan waits for, so that none fills memory that those above it cannot use yet.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 7.3 and 7.4, Figure 6.

An operator that emits more than it takes in, proliferates. It is linked to its lowest ancestor such that all operators
from it to there do not proliferate together, and all of those use one heartbeat. Without links this is one heartbeat
for each operator, with a link of each to the root it is one for the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from slackwater.testing.oracles.heartbeats.system import Time


@dataclass(frozen=True)
class Step:
    """An operator: its inputs are streams, by name, and other operators; it emits `selectivity` rows for each row.

    >>> first = Step("O1", ("S1", "S2"), selectivity=3)
    >>> sorted(Step("O2", (first, "S3")).streams())
    ['S1', 'S2', 'S3']
    """

    name: str
    inputs: tuple[Step | str, ...]
    selectivity: float | Fraction = 1

    def steps(self) -> tuple[Step, ...]:
        """The operators it reads from."""
        return tuple(one for one in self.inputs if isinstance(one, Step))

    def streams(self) -> frozenset[str]:
        """U: all streams that are read at it or below."""
        own = frozenset(one for one in self.inputs if isinstance(one, str))
        return own.union(*(step.streams() for step in self.steps()))

    def subtree(self) -> Iterator[Step]:
        """T: itself and all below."""
        yield self
        for step in self.steps():
            yield from step.subtree()


def memory_links(root: Step) -> dict[str, str]:
    """The link of each operator that proliferates, to the ancestor with which it no longer does (section 7.3).

    What leaves the plan takes no memory: the root counts as if it emitted nothing, so there is always such an ancestor.

    >>> first = Step("O1", ("S1", "S2"), selectivity=3)
    >>> memory_links(Step("O2", (first, "S3"), selectivity=9))
    {'O1': 'O2'}
    """
    links = {}
    for chain in _chains(root, ()):
        selectivities = [0 if step is root else step.selectivity for step in chain]
        lowest = next(length for length in range(1, len(chain) + 1) if prod(selectivities[:length]) <= 1)
        if lowest > 1:
            links[chain[0].name] = chain[lowest - 1].name
    return links


def labels(root: Step, links: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """R of each operator, by name: Figure 6, line by line.

    >>> first = Step("O1", ("S1", "S2"))
    >>> found = labels(Step("O2", (first, "S3")), {})
    >>> sorted(found["O1"]), sorted(found["O2"])
    (['S1', 'S2'], ['S1', 'S2', 'S3'])
    """
    found: dict[str, frozenset[str]] = {}

    def assign(step: Step, ancestors: tuple[Step, ...]) -> None:
        above = {ancestor.name for ancestor in ancestors}
        if any(links.get(inner.name) in above for inner in step.subtree()):
            found[step.name] = found[ancestors[0].name]
        else:
            found[step.name] = step.streams()
        for child in step.steps():
            assign(child, (step, *ancestors))

    assign(root, ())
    return found


def heartbeats_of_steps(of_steps: Mapping[str, frozenset[str]], of_streams: Mapping[str, Time]) -> dict[str, Time]:
    """The heartbeat each operator uses: the least of the streams in its label.

    >>> heartbeats_of_steps({"O1": frozenset({"S1", "S2"})}, {"S1": 9, "S2": 7, "S3": 1})
    {'O1': 7}
    """
    return {name: min(of_streams[stream] for stream in label) for name, label in of_steps.items()}


def _chains(step: Step, ancestors: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """For each operator: itself, its parent, and so on up to the root."""
    yield (step, *ancestors)
    for child in step.steps():
        yield from _chains(child, (step, *ancestors))
