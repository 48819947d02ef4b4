"""Holds rows where a plan's labels ask for it: the last rewrite, when every step is where it will run.

    written   S1 ─┐                      run   S1 ─ hold ─┐
              S2 ─┴ join ─┐                    S2 ─ hold ─┴ join ─┐         while S3 lags, rows wait before the first
              S3 ─────────┴ join               S3 ─┬──────────────┴ join    join, and not what it makes of them
                                                   └ progress, to both holds

Where no step has a label beyond its own streams nothing is held, and nothing is put in.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from slackwater.plan.node import name_steps, walk
from slackwater.plan.nodes.releasing import ChooseRelease, Hold, ProgressOnly
from slackwater.plan.rewrites.labels import LabelledPlan
from slackwater.plan.rewrites.transform import transform
from slackwater.policies.release import ReleaseLevel

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.labels import Edge, Growth, Label
    from slackwater.plan.rewrites.transform import Made
    from slackwater.policies.release import Release


def held_by_label(*roots: Node) -> list[Node]:
    """Return the same plans with rows held as their releases say."""
    held: dict[Edge, list[tuple[Label, Release]]] = {}
    for node in walk(*roots):
        if isinstance(node, ChooseRelease):
            for edge, label in _held_before(node).items():
                held.setdefault(edge, []).append((label, node.release))
    progress: dict[Node, ProgressOnly] = {}
    places = {node: place for place, node in enumerate(walk(*roots))}

    def hold(path: Node, label: Label, release: Release) -> Hold:
        # Nothing is held before a stream begins, so that its beginning is what it was.
        others = sorted(label, key=places.__getitem__)
        return Hold(path, tuple(progress.setdefault(one, ProgressOnly(one)) for one in others), release)

    def rule(node: Node, anew: Node, made: Made) -> Node:
        inputs = [made[source] for source in node.inputs]
        for port, source in enumerate(node.inputs):
            for label, release in held.get((node, source), ()):
                inputs[port] = hold(inputs[port], label, release)
        return anew if inputs == list(anew.inputs) else anew.with_inputs(*inputs)

    return transform(roots, rule) if held else list(roots)


def growth_in(chosen: ChooseRelease) -> Growth:
    """How many rows each step makes of one, by what was chosen: where nobody knows it counts as one."""
    if chosen.release.level is ReleaseLevel.QUERY:
        return lambda _: inf
    if chosen.release.level is ReleaseLevel.OPERATOR:
        return lambda _: 0.0
    names, declared = name_steps(chosen.input), dict(chosen.release.growth or ())

    def growth(node: Node) -> float:
        known = 1.0 if node.rows_per_row is None else node.rows_per_row
        return declared.get(names.get(node, ""), declared.get(node.verb, known))

    return growth


def _held_before(chosen: ChooseRelease) -> dict[Edge, Label]:
    plan, growth = LabelledPlan.under(chosen.input), growth_in(chosen)
    return plan.may_wait(growth) if chosen.release.measured else plan.waits(growth)
