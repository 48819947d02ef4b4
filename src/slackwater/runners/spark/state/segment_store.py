"""Keeps the state of a shard in segments, and writes only those that changed.

Columns of a state are never changed, and the next state shares those that stay: a column that is the same object as
before is the same segment. The head, which is written every time, says what belongs where. Columns of many
bytes are several segments: a value of the state store is no larger than a chunk, and of long columns that grow only the
last part is written.

The number of a segment is a hash of what is in it. Spark may do a task twice, on two machines, and keep what one of
them stored beside what the other one has in memory: equal work must be stored as equal bytes under equal numbers, and
a number must never mean something else, for whoever has kept columns in memory goes by their numbers.

Rows that operators spill are segments, too. They are written when they are spilled and not read with the state; those
that have been read since are columns in memory, as long as they wait.

Cost of saving: the columns that are new, and the head. Cost of loading: the columns that are not in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from slackwater.columns.spillway import SpilledRows
from slackwater.errors import RunError, message
from slackwater.runners.snapshot import Snapshot
from slackwater.runners.spark.state.segments import seal, unseal
from slackwater.runners.spark.state.stored_columns import description_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slackwater.runners.spark.state.state_codec import Form, Numbers, ReadLeaf, StateCodec
    from slackwater.runners.spark.state.stored_columns import Leaf

_HEAD: Final = 0
"""The number of the head; those of columns are greater."""

_NUMBER_BITS: Final = 62
"""So many bits that no two segments ever have the same number."""


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


class SegmentsInMemory(dict[int, bytes]):
    """Segments that lie nowhere else yet."""

    def read(self, number: int) -> bytes | None:
        """Return a segment; None if there is none."""
        return self.get(number)

    def write(self, number: int, segment: bytes) -> None:
        """Put a segment in its place."""
        self[number] = segment

    def remove(self, number: int) -> None:
        """Forget a segment."""
        del self[number]


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

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec
        # By identity. The leaf itself is kept too: while it lives no other object can have its identity.
        self._kept: dict[int, tuple[Numbers, Leaf | SpilledRows]] = {}
        # The numbers of all segments there are; some of them may not be kept.
        self._stored: set[int] = set()

    def save(self, segments: SegmentMap, snapshot: Snapshot) -> None:
        """Store the state of every step."""
        kept: dict[int, tuple[Numbers, Leaf | SpilledRows]] = {}

        def numbers_of(leaf: Leaf | SpilledRows) -> Numbers:
            known = self._kept.get(id(leaf)) or kept.get(id(leaf))
            if known is None:
                known = (self._written(segments, leaf), leaf)
            kept[id(leaf)] = known
            return known[0]

        steps = {step: self._codec.form_of(state, numbers_of) for step, state in snapshot.items()}
        needed = {number for numbers, _ in kept.values() for number in numbers}
        # In an order of their own: what is stored must not depend on where objects lie in memory.
        for number in sorted(self._stored - needed):
            segments.remove(number)
        self._kept, self._stored = kept, needed
        Head(snapshot.plan, steps).write(segments)

    def _written(self, segments: SegmentMap, leaf: Leaf | SpilledRows) -> Numbers:
        """The numbers of columns; what is not stored under them is written."""
        if not isinstance(leaf, SpilledRows):
            return tuple(self._put(segments, part, leaf) for part in parts_of(leaf))
        if leaf.number in self._stored:
            return (leaf.number,)
        rows = leaf.read()  # it was spilled elsewhere
        return (self._put(segments, rows, rows),)

    def _put(self, segments: SegmentMap, part: pa.RecordBatch, leaf: Leaf) -> int:
        segment = seal(part)
        number = _number_of(segment, leaf)
        if number not in self._stored:
            segments.write(number, segment)
            self._stored.add(number)
        return number

    def spillway(self, segments: SegmentMap, block_bytes: int) -> SpillwayOfSegments:
        """Where operators put rows that wait: among the segments of the shard, until a save finds them in no state."""
        return SpillwayOfSegments(block_bytes, segments, partial(self._put, segments))

    @classmethod
    def load(
        cls, codec: StateCodec, segments: SegmentMap, head: Head, known: Mapping[Numbers, Leaf]
    ) -> tuple[SegmentStore, Snapshot]:
        """Read what was saved; columns whose numbers are known are taken from memory."""
        # Columns that several places have are one object again: the segment is theirs as long as one has them.
        leaves: dict[Numbers, Leaf | SpilledRows] = {}
        spilled: dict[int, SpilledRows] = {}

        def leaf_of(numbers: Numbers, read: ReadLeaf) -> Leaf:
            if numbers not in leaves:
                leaves[numbers] = known[numbers] if numbers in known else read(_stored(segments, numbers))
            return leaves[numbers]

        def spilled_of(number: int) -> SpilledRows:
            in_memory = known.get((number,))
            assert in_memory is None or isinstance(in_memory, pa.RecordBatch), "a number says what is in a segment"
            return spilled.setdefault(number, SpilledRows(number, partial(_segment, segments), in_memory))

        steps = {step: codec.value_of(form, leaf_of, spilled_of) for step, form in head.steps.items()}
        store = cls(codec)
        of_both = [*leaves.items(), *(((number,), rows) for number, rows in spilled.items())]
        store._kept = {id(leaf): (numbers, leaf) for numbers, leaf in of_both}
        store._stored = {number for numbers, _ in of_both for number in numbers}
        return store, Snapshot(steps, head.plan)

    def leaves(self) -> dict[Numbers, Leaf]:
        """All columns that are stored and in memory, by the numbers of their segments."""
        in_memory = (
            (numbers, leaf.in_memory if isinstance(leaf, SpilledRows) else leaf)
            for numbers, leaf in self._kept.values()
        )
        return {numbers: leaf for numbers, leaf in in_memory if leaf is not None}


@dataclass(frozen=True)
class SpillwayOfSegments:
    """Puts rows among the segments of a shard."""

    block_bytes: int
    segments: SegmentMap
    stored: Callable[[pa.RecordBatch, Leaf], int]
    """Stores rows, as those of some columns; returns their number."""

    def put(self, rows: pa.RecordBatch) -> SpilledRows:
        """Store rows; they are read from there when they are needed."""
        return SpilledRows(self.stored(rows, rows), partial(_segment, self.segments))


def _number_of(segment: bytes, leaf: Leaf) -> int:
    """The number of a segment: by its bytes, and by what columns they are of, for numbers stand for an object."""
    described = dict(description_of(leaf))
    described["shape"] = described.get("shape", [])[1:]  # how many there are in all is no matter of a part
    digest = sha256(json.dumps(described).encode())  # which processors of today do twice as fast as others
    digest.update(segment)
    return (int.from_bytes(digest.digest()[:8], "little") >> (64 - _NUMBER_BITS)) + _HEAD + 1


def _stored(segments: SegmentMap, numbers: Numbers) -> pa.RecordBatch:
    """The rows that several segments have together."""
    parts = [_segment(segments, number) for number in numbers]
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _segment(segments: SegmentMap, number: int) -> pa.RecordBatch:
    segment = segments.read(number)
    if segment is None:
        facts, hint = {"segment": number}, "restore the checkpoint from a copy, or start anew with another one"
        raise RunError(message("stored state lacks a segment", facts, hint))
    return unseal(segment, number)
