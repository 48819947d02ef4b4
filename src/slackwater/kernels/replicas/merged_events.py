"""What the merges of revised replicas keep of each event: replicated_events (R3) and replicated_multisets (R4).

Every event that is not frozen yet has one node of an index, shared by all replicas: the end that each replica gives it,
and the end that the output gives it; or, in R4, where the list of its ends begins. Each block of nodes has a bound for
each replica: no node of it needs attention before a punctuation of that replica passes it. (The paper keeps a tree by
start, which costs more per insert.)

Numba does not see that a kernel calls these when it looks for its machine code on disk: after a change in this file
save the kernels that call it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.event_index import (
    COUNTERS,
    FIELDS,
    INDEX,
    LINES,
    LIVE,
    READ,
    add_event,
    find_event,
    lower_bound,
)
from slackwater.kernels.replicas.output_lines import ADJUST, HELD, PUNCTUATE, write_line

if TYPE_CHECKING:
    from slackwater.kernels.replicas.event_index import Column, Table

OUT_END: Final = FIELDS
"""Column of a node: the end that was emitted, or NOWHERE."""
MOST: Final = FIELDS + 1
"""Column of a node: how many events of its start and payload there are, in the output or in the replica that has most;
what is not in the output of these is still to be emitted, or will be left out."""
ENDS: Final = FIELDS + 2
"""Column of a node: the end that the first replica gives it, or NOWHERE; those of the others follow."""

NOWHERE: Final = -(2**63)
"""The end of an event that a replica does not have, or that was not emitted."""

NOBODY: Final = -1
"""The replica that has an event which none has."""

COMPLETE: Final = COUNTERS
"""Place in counters: the last punctuation of the output."""
SETTLED: Final = COUNTERS + 1
"""Place in counters: the last punctuation of a replica that was settled; the output's may be held back behind it."""
OTHER_ENDS: Final = COUNTERS + 2
"""Place in counters: ends that could not be emitted, because a punctuation of the output rules them out."""
CORRECTIONS: Final = COUNTERS + 3
"""Place in counters: lines that add no event to the output: adjusts, and the inserts that some of them take back."""
PEAK: Final = COUNTERS + 4
"""Place in counters: the most nodes that were not done with at once, since whoever merges was built."""
ALL_COUNTERS: Final = COUNTERS + 5

STATE: Final = f"{INDEX}, {LINES}"
"""The types of what both merges remember: an index, and the bounds of its blocks."""
RANKED: Final = f"int64, {READ}, {LINES}"
"""The types of a replica, the rules, and how all replicas stand."""
KINDS: Final = "Array(int8, 1, 'C', readonly=True)"
"""The type of the kinds of elements."""


@kernel(f"int64({STATE}, int8, int64, int64, {READ}, int64, int64)", inlined=True)
def node_of(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    bounds: Column,
    kind: int,
    hashed: int,
    start: int,
    words: Column,
    begin: int,
    length: int,
) -> Any:
    """The node of the event that an element is about, made if no replica had the event before.

    It is negative for an element that comes too late: it adjusts what nobody knows, or inserts before what is settled.
    """
    node = find_event(nodes, table, held, hashed, start, words, begin, length)
    if node >= 0 or kind == ADJUST or start < counters[SETTLED]:
        return node
    node = add_event(nodes, table, held, counters, -1 - node, hashed, start, words, begin, length)
    nodes[node, OUT_END], nodes[node, MOST] = NOWHERE, 0
    for replica in range(bounds.shape[1]):
        nodes[node, ENDS + replica] = NOWHERE
        lower_bound(bounds, node, replica, start)  # for a replica that does not have the event by then there is none
    counters[PEAK] = max(counters[PEAK], counters[LIVE])
    return node


@kernel(f"int64(int64[::1], int64, int64, {LINES}, int64)")
def punctuate_output(counters: Column, t: int, complete: int, lines: Column, count: int) -> int:
    """Note that a replica's punctuation is settled, and punctuate the output as far as it is complete now.

    Return the count of lines.
    """
    counters[SETTLED] = t
    if complete > counters[COMPLETE]:
        counters[COMPLETE] = complete
        write_line(lines, count, PUNCTUATE, complete, complete, complete, HELD, 0, 0)
        count += 1
    return count
