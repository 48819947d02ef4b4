"""How replicas stand among each other, and what an agreement makes of it: in numbers, for the kernels that merge them.

See policies.agreement for what the rules mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, minus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

FIRST_RULE, QUORUM, REVISION_RULE, LAG, DIVERTS = range(5)
"""Places in rules: when an event is emitted first, how many replicas must have it where they are counted, which
revisions are emitted before they freeze, how far the output's punctuations stay behind, and whether rows that are left
out are written, too."""

WHEN_QUORUM, WHEN_LEADING, WHEN_NEWEST, WHEN_FULLEST, WHEN_HALF_FROZEN, WHEN_FROZEN, WHEN_FINAL = range(7)
"""The last one is for replicas that never revise: an event cannot change once a punctuation has passed its start."""

REVISE_WHEN_FROZEN, REVISE_ALWAYS, REVISE_WHEN_LEADING = range(3)

PUNCTUATED, NEWEST, LIVE_EVENTS, DUPLICATES, CONTRADICTED, PASSED_OVER, REVISED = range(7)
STANDING: Final = 7
"""Columns of a replica's standing: its last punctuation, the greatest start that it has sent, and how many events it
has of those that are not frozen. Then what became of its rows that are left out: see operators/replicas/left_out."""

_RULES = "Array(int64, 1, 'C', readonly=True)"
_STANDING = "int64[:, ::1]"


@kernel(f"int64({_STANDING}, int64)")
def _foremost(standing: Column, by: int) -> int:
    """The replica that is first by something; of equals the one with the least number."""
    found = 0
    for replica in range(1, len(standing)):
        if standing[replica, by] > standing[found, by]:
            found = replica
    return found


@kernel(f"boolean({_RULES}, {_STANDING}, int64)")
def is_believed(rules: Column, standing: Column, replica: int) -> bool:
    """Whether a replica is the one whose events are emitted, where one is."""
    rule = rules[FIRST_RULE]
    if rule == WHEN_LEADING:
        return _foremost(standing, PUNCTUATED) == replica
    if rule == WHEN_NEWEST:
        return _foremost(standing, NEWEST) == replica
    return rule == WHEN_FULLEST and _foremost(standing, LIVE_EVENTS) == replica


@kernel(f"boolean({_RULES}, {_STANDING}, int64)")
def may_revise(rules: Column, standing: Column, replica: int) -> bool:
    """Whether revisions of a replica are emitted before they freeze."""
    rule = rules[REVISION_RULE]
    return rule == REVISE_ALWAYS or (rule == REVISE_WHEN_LEADING and _foremost(standing, PUNCTUATED) == replica)


@kernel("boolean(int64, int64)", inlined=True)
def is_frozen(end: int, t: int) -> bool:
    """Whether an event with this end cannot change any more, where a replica is complete before t: FOREVER freezes all.

    An event without an end lasts until FOREVER, which no other punctuation passes.
    """
    return end < t or t == GREATEST


@kernel(f"int64({_RULES}, {_STANDING}, int64, int64)")
def settled_by(rules: Column, standing: Column, replica: int, punctuation: int) -> int:
    """Note a punctuation of a replica; return up to where the output is to agree with it."""
    standing[replica, PUNCTUATED] = max(standing[replica, PUNCTUATED], punctuation)
    return punctuation if punctuation == GREATEST else minus(punctuation, rules[LAG])
