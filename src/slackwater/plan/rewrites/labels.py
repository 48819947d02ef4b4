"""Labels: for each step of a plan the streams that it waits for, so that none makes rows that nobody can use yet.

A step that makes more rows than it takes in proliferates. It and all steps behind it, up to the first with which the
rows are no more than those it took, wait for the same streams: those of the last of them (Figure 6). Here that is one
pass upwards, for how many rows leave a step at most of each that came in further down, and one pass downwards for the
labels. A step that several read gets what any of them asks for.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 7.3 to 7.5.

A stream begins where its progress does: at the step with a patience, or where its rows are in order. What lies before
needs no label. Neither do steps that need no order: rows pass them as they come. So rows are held right before
the first step that needs them in order and has a label beyond its own streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from slackwater.plan.node import SideOutput
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.releasing import rows_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from slackwater.plan.node import Node

    Label: TypeAlias = frozenset[Node]
    """Streams, by the nodes at which their progress begins."""

    Edge: TypeAlias = tuple[Node, Node]
    """A step, and one that it reads."""

    Growth: TypeAlias = Callable[[Node], float]
    """How many rows a step makes of each."""


@dataclass(frozen=True)
class LabelledPlan:
    """The steps above a node that stand behind the beginnings of streams."""

    root: Node
    steps: tuple[Node, ...]
    """Inputs before the steps that read them."""

    streams: Mapping[Node, Label]
    """U: of each step, and of each beginning, the streams that it comes from."""

    @classmethod
    def under(cls, root: Node) -> LabelledPlan:
        """Find the streams of a plan, and the steps behind their beginnings."""
        order = list(_walk_rows(root))
        several: dict[Node, bool] = {}
        for node in order:
            several[node] = node.waits_for_all or any(map(several.__getitem__, rows_from(node)))
        read = [source for node in order if several[node] for source in rows_from(node)]
        chains = [_behind_beginning(top) for top in dict.fromkeys([*read, root]) if not several[top]]
        begin = {chain[-1] for chain in chains}
        inner = {node for node in order if several[node]} | {node for chain in chains for node in chain}
        streams: dict[Node, Label] = {}
        for node in order:
            if node in begin:
                streams[node] = frozenset({node})
            elif node in inner:
                streams[node] = frozenset().union(*(streams[source] for source in rows_from(node)))
        return cls(root, tuple(node for node in streams if node not in begin), streams)

    def labels(self, growth: Growth) -> dict[Node, Label]:
        """R: of each step the streams that it waits for. What the last one sends leaves the plan, and takes no memory.

        Cost: O(steps), and that of the labels.
        """
        carried: dict[Node, float] = {}
        readers: dict[Node, list[Node]] = {}
        for node in self.steps:
            before = [carried.get(source, 0.0) for source in rows_from(node)]
            carried[node] = max(1.0, *before) * growth(node)
            for source in rows_from(node):
                readers.setdefault(source, []).append(node)
        found: dict[Node, Label] = {}
        for node in reversed(self.steps):
            found[node] = self.streams[node]
            if node is not self.root and carried[node] > 1:
                found[node] = found[node].union(*(found[reader] for reader in readers[node]))
        return found

    def waits(self, growth: Growth) -> dict[Edge, Label]:
        """Where rows are held, and for which streams: where a label goes beyond what rows have waited for."""
        labels = self.labels(growth)
        waited = {node: label for node, label in self.streams.items() if node not in labels}
        found: dict[Edge, Label] = {}
        for node in self.steps:
            sources = rows_from(node)
            if not self._may_hold_before(node, growth):
                waited[node] = frozenset.intersection(*(waited[source] for source in sources))
                continue
            others = labels[node] - self.streams[node]
            found |= {(node, source): others for source in sources if not others <= waited[source]}
            waited[node] = labels[node]
        return found

    def may_wait(self, growth: Growth) -> dict[Edge, Label]:
        """Where rows might have to be held, whatever steps make of them, and for which streams at most."""
        everything = self.streams[self.root]
        steps = (node for node in self.steps if self._may_hold_before(node, growth))
        edges = {(node, source): everything - self.streams[node] for node in steps for source in rows_from(node)}
        return {edge: label for edge, label in edges.items() if label}

    def _may_hold_before(self, node: Node, growth: Growth) -> bool:
        """Whether a step takes its rows in order, and needs them so; or makes many of one, which is best put off."""
        known = node.rows_per_row
        needs = node.traits.needs_order and not (node.traits.row_by_row or node.traits.sorts_itself)
        proliferates = node.traits.row_by_row and known is not None and min(known, growth(node)) > 1
        facts = [source.properties for source in rows_from(node)]
        in_order = all(one.ordered and one.insert_only and not one.latent for one in facts)
        return in_order and (needs or proliferates)


def _walk_rows(root: Node) -> Iterator[Node]:
    """All nodes whose rows come to one, once, inputs first."""
    seen: set[Node] = set()

    def visit(node: Node) -> Iterator[Node]:
        if node not in seen:
            seen.add(node)
            for source in rows_from(node):
                yield from visit(source)
            yield node

    return visit(root)


def _behind_beginning(top: Node) -> list[Node]:
    """The nodes of one stream, from its last down to the one at which its progress begins."""
    chain = [top]
    while len(rows_from(chain[-1])) == 1:
        chain += rows_from(chain[-1])
    late = next((place for place, node in enumerate(chain) if isinstance(node, LatenessStep)), None)
    if late is not None:
        # A band beside the main one has a patience, and punctuations, of its own.
        band = late > 0 and isinstance(chain[late - 1], SideOutput)
        return chain[: late if band else late + 1]
    shows = [place for place, node in enumerate(chain) if node.properties.progressive and not node.properties.latent]
    return chain[: max(shows, default=len(chain) - 1) + 1]
