"""Leaves out punctuations that nobody looks at: of those in one batch a sort or an aggregate obeys the last.

To put punctuations between the rows of a batch, and to take them out again, is to copy its times twice. Where every
way from the step that punctuates leads to a step that acts once for each batch, the last one follows the rows instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.rewrites.transform import readers_of, transform
from slackwater.plan.traits import PunctuationUse

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made, Readers


def with_last_punctuations(*roots: Node) -> list[Node]:
    """Return the same plans, in which steps punctuate once for each batch wherever nobody could notice."""
    readers = readers_of(roots)

    def rule(node: Node, anew: Node, made: Made) -> Node:  # noqa: ARG001 - a rule is asked with all that is made
        if isinstance(anew, Punctuate) and _all_obey_the_last(node, readers):
            return replace(anew, only_last=True)
        return anew

    return transform(roots, rule)


def _all_obey_the_last(node: Node, readers: Readers) -> bool:
    """Whether every way down from a step leads to one that acts once for each batch, at its last punctuation."""
    return all(reader is not None and _obeys_the_last(reader, readers) for reader in readers[node])


def _obeys_the_last(reader: Node, readers: Readers) -> bool:
    if isinstance(reader, SideOutput) and reader.output == LATE:
        return True
    match reader.traits.punctuations:
        case PunctuationUse.LAST_OF_BATCH:
            return True
        case PunctuationUse.FORWARDED:
            return _all_obey_the_last(reader, readers)
        case PunctuationUse.EACH:
            return False
