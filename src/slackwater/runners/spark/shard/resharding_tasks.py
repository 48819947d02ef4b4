"""What tasks of Spark do when shards become others: take stored states apart, and store what comes to each new shard.

    stored segments ── SplitStates, mapInArrow ──> parts of states ── shuffle ──> UniteStates, a stateful step

The stateful step stores what a shard would, in the same form and under the same names: a query can go on from it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slackwater.errors import RunError, message
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.host import stored_segments
from slackwater.runners.spark.shard.resharding import split_snapshot, unite_snapshots
from slackwater.runners.spark.shard.shard_state import codec_of
from slackwater.runners.spark.state.segment_store import Head, SegmentsInMemory, SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from slackwater.runners.snapshot import Snapshot
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.state.state_codec import StateCodec

STORED_SPARK: Final = ("key.shard AS shard", "user_map_key.number AS number", "user_map_value.segment AS segment")
"""What is read of stored segments."""

PARTS_SPARK: Final = "shard long, part_of long, number long, segment binary"
"""A segment of a part of a state: for which shard, and of which one it was."""

_PARTS: Final = pa.schema({"shard": pa.int64(), "part_of": pa.int64(), "number": pa.int64(), "segment": pa.binary()})


class SplitStates:
    """Reads the segments of whole shards, and yields those of their parts; for mapInArrow."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._codec = codec_of(plan)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take all segments of some shards; yield a row for each segment of a part."""
        stored: dict[int, SegmentsInMemory] = defaultdict(SegmentsInMemory)
        for batch in batches:
            for shard, number, segment in zip(*batch.columns, strict=True):
                stored[shard.as_py()][number.as_py()] = segment.as_py()
        while stored:
            shard, segments = stored.popitem()
            parts = split_snapshot(self._plan, _snapshot(self._codec, segments, shard))
            for key, part in zip(shard_keys(self._plan.shards), parts, strict=True):
                written = SegmentsInMemory()
                SegmentStore(self._codec).save(written, part)
                for number, segment in written.items():
                    yield pa.RecordBatch.from_arrays([[key], [shard], [number], [segment]], schema=_PARTS)


class UniteStates(StatefulProcessor):
    """Stores the state of each shard, of all its parts. It gives out nothing."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._codec = codec_of(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Say what is stored: what a shard stores."""
        self._segments = stored_segments(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - the parts know whose they are
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Any]:
        """Take in all parts, and store them as one."""
        parts: dict[int, SegmentsInMemory] = defaultdict(SegmentsInMemory)
        for frame in rows:
            for row in frame.itertuples(index=False):
                parts[row.part_of][row.number] = row.segment
        snapshots = [_snapshot(self._codec, parts.pop(shard), shard) for shard in sorted(parts)]
        SegmentStore(self._codec).save(self._segments, unite_snapshots(self._plan, snapshots))
        yield from ()

    def close(self) -> None:
        """Nothing is open."""


def _snapshot(codec: StateCodec, segments: SegmentsInMemory, shard: int) -> Snapshot:
    head = Head.read(segments)
    if head is None:
        facts, hint = {"shard": shard}, "restore the checkpoint from a copy, or start anew with another one"
        raise RunError(message("stored state has segments that belong to nothing", facts, hint))
    known: Mapping[Any, Any] = {}
    return SegmentStore.load(codec, segments, head, known)[1]
