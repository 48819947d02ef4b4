"""Columns that stay in memory between micro-batches, in the Python workers that used them last.

Spark makes a new processor for each micro-batch, and gives a shard to whichever worker has been free the longest. To
read a state costs more than to work on it. The number of a segment says what is in it, so a worker that has once had a
segment need not read it again: it reads what was stored since it last had the shard.

A shard is known by its query, which keeps its name when it is started again from its checkpoint: what an earlier life
left in memory is used by the next one, and does not stay beside it.

This is the one place of the library with global state: a process is all that Spark lets two micro-batches share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.runners.spark.state.state_codec import Numbers
    from slackwater.runners.spark.state.stored_columns import Leaf

Place: TypeAlias = "tuple[str, ...]"
"""Which query, which of its stateful steps, and which shard."""

_MOST_BYTES: Final = 1 << 30
"""What a process keeps besides the shard that it used last; shards that it has not used for longest go first."""

_resident: dict[Place, Mapping[Numbers, Leaf]] = {}


def take_resident(place: Place) -> Mapping[Numbers, Leaf]:
    """Hand over the columns of a shard, by number; whoever works on it keeps those that it still has in the end."""
    return _resident.pop(place, {})


def keep_resident(place: Place, leaves: Mapping[Numbers, Leaf]) -> None:
    """Keep the columns of a shard."""
    _resident[place] = leaves
    sizes = {one: sum(leaf.nbytes for leaf in kept.values()) for one, kept in _resident.items()}
    for one in list(_resident)[:-1]:
        if sum(sizes.values()) <= _MOST_BYTES:
            break
        del _resident[one], sizes[one]
