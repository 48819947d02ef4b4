"""What users call the outputs of rows that did not go on, late or left out: by their sources, not by steps.

The step that says which rows are late is often one that nobody wrote: `sort(patience=...)` becomes two. A source has a
name that somebody gave it, or that says what it is. See docs/decisions/0040-late-rows-by-source.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.emission import LATE
from slackwater.plan.node import SourceNode, diverting_steps, walk_rows

if TYPE_CHECKING:
    from slackwater.operators.emission import OutputName
    from slackwater.plan.node import Node, StepNode


def names_of_diverted(*roots: Node, output: OutputName = LATE) -> dict[StepNode, str]:
    """The steps that divert rows, those nearer to sources first, each with the name of its output.

    It is that of the source that the rows come from, `clicks`; of several sources, `web+app`. Where one such output has
    the name already the next is `clicks#2`, and so on.

    >>> import slackwater as sw
    >>> rows = sw.stream([{"at": 1}], time="at", name="clicks")
    >>> list(names_of_diverted(rows.sort(patience=5).node, rows.sort(patience=9).node).values())
    ['clicks', 'clicks#2']
    """
    named: dict[StepNode, str] = {}
    for step in diverting_steps(*roots, output=output):
        sources = "+".join(dict.fromkeys(node.name for node in walk_rows(step) if isinstance(node, SourceNode)))
        named[step] = _first_free(sources, set(named.values()))
    return named


def _first_free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name#2`, `name#3` and so on that is not taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    return free
