"""Keeps the state of a shard in segments, and writes only those that changed.

Columns of a state are never changed, and the next state shares those that stay: a column that is the same object as
before is the same segment. The head, which is written every time, says what belongs where.

Numbers are drawn, not counted: an attempt that failed may have used the next one for something else, and whoever has
kept columns in memory goes by their numbers.

Cost of saving: the columns that are new, and the head. Cost of loading: the columns that are not in memory.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from slackwater.errors import RunError, message
from slackwater.runners.in_process.state import Snapshot
from slackwater.runners.spark.segments import seal, unseal
from slackwater.runners.spark.state_codec import form_of, value_of
from slackwater.runners.spark.stored_columns import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.runners.spark.state_codec import Form, ReadLeaf
    from slackwater.runners.spark.stored_columns import Leaf

_HEAD: Final = 0
"""The number of the head; those of columns are greater."""

_NUMBER_BITS: Final = 62
"""So many bits that nobody ever draws a number twice."""


class SegmentMap(Protocol):
    """Where segments lie, by number."""

    def read(self, number: int) -> bytes | None:
        """Return a segment; None if there is none."""
        ...

    def write(self, number: int, segment: bytes) -> None:
        """Put a segment in its place."""
        ...

    def remove(self, number: int) -> None:
        """Forget a segment."""
        ...


@dataclass(frozen=True)
class Head:
    """What is stored besides columns."""

    plan: Mapping[str, str]
    """What the steps were."""

    steps: Mapping[str, Form]
    """The state of each step, in which columns stand by their numbers."""

    def write(self, segments: SegmentMap) -> None:
        """Store it."""
        segments.write(_HEAD, seal(pa.record_batch({"head": [json.dumps(vars(self), allow_nan=False)]})))

    @classmethod
    def read(cls, segments: SegmentMap) -> Head | None:
        """Read what was stored; None if nothing was."""
        head = segments.read(_HEAD)
        return None if head is None else cls(**json.loads(unseal(head, "head").column(0)[0].as_py()))


class SegmentStore:
    """What is stored of one shard, and under which numbers."""

    def __init__(self) -> None:
        # By identity. The leaf itself is kept too: while it lives no other object can have its identity.
        self._kept: dict[int, tuple[int, Leaf]] = {}

    def save(self, segments: SegmentMap, snapshot: Snapshot) -> None:
        """Store the state of every step."""
        kept: dict[int, tuple[int, Leaf]] = {}

        def number_of(leaf: Leaf) -> int:
            known = self._kept.get(id(leaf)) or kept.get(id(leaf))
            if known is None:
                known = (secrets.randbits(_NUMBER_BITS) + _HEAD + 1, leaf)
                segments.write(known[0], seal(rows_of(leaf)))
            kept[id(leaf)] = known
            return known[0]

        steps = {step: form_of(state, number_of) for step, state in snapshot.items()}
        for leaf in self._kept.keys() - kept.keys():
            segments.remove(self._kept[leaf][0])
        self._kept = kept
        Head(snapshot.plan, steps).write(segments)

    @classmethod
    def load(cls, segments: SegmentMap, head: Head, known: Mapping[int, Leaf]) -> tuple[SegmentStore, Snapshot]:
        """Read what was saved; columns whose numbers are known are taken from memory."""
        # Columns that several places have are one object again: the segment is theirs as long as one has them.
        leaves: dict[int, Leaf] = {}

        def leaf_of(number: int, read: ReadLeaf) -> Leaf:
            if number not in leaves:
                leaves[number] = known[number] if number in known else read(_stored(segments, number))
            return leaves[number]

        steps = {step: value_of(form, leaf_of) for step, form in head.steps.items()}
        store = cls()
        store._kept = {id(leaf): (number, leaf) for number, leaf in leaves.items()}
        return store, Snapshot(steps, head.plan)

    def leaves(self) -> dict[int, Leaf]:
        """All columns that are stored, by number."""
        return dict(self._kept.values())


def _stored(segments: SegmentMap, number: int) -> pa.RecordBatch:
    segment = segments.read(number)
    if segment is None:
        facts, hint = {"segment": number}, "restore the checkpoint from a copy, or start anew with another one"
        raise RunError(message("stored state lacks a segment", facts, hint))
    return unseal(segment, number)
