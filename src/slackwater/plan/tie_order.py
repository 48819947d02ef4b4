"""Whether every replica of a stream tells the rows of one time in the same order: what case R1 of LMerge needs.

Where no two rows have the same time, there is one order, and settle() puts rows into one that follows from what they
are. So do the top rows of windows, and functions over windows that are declared to answer the same in whatever order
the rows of a window come: windows go to them in order of their times. Steps that treat each row by itself, windows, a
stable sort, deduplicate and any other function over windows keep the order that there is. A grouped aggregate tells its
groups as they come, and a union whichever input is first; of rows that are only said to come in order of time, nothing
is known.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-D, examples 2 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.nodes.aggregating import MapWindows
from slackwater.plan.nodes.deduplicate import Deduplicate
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.revisions import AssumeKeyed, Settle, UntrustedEnd
from slackwater.plan.nodes.rows import AssignWindow, AssumeOrdered, Select, Where
from slackwater.plan.properties import Order

if TYPE_CHECKING:
    from slackwater.plan.node import Node

_KEEP_TIES = (Where, Select, AssignWindow, AssumeOrdered, AssumeKeyed, Sort, Deduplicate, MapWindows, UntrustedEnd)


def tells_ties_alike(node: Node) -> bool:
    """Whether the rows of one time come in an order that follows from what the stream says."""
    if node.properties.order is Order.STRICT or isinstance(node, Settle):
        return True
    if isinstance(node, MapWindows) and node.any_order:
        return True
    return isinstance(node, _KEEP_TIES) and tells_ties_alike(node.input)
