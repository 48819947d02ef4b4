"""The hosts of shards, called as Spark calls them: what they give out, and that no shard outlives its micro-batch."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from without_spark import packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.plan.nodes.ordering import Sort
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.runner import plan_of
from slackwater.runners.spark.shard.host import BatchHost, ShardHost, _in_frames
from slackwater.runners.spark.shard.metrics import _COUNTS, METRICS
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.unopened_host import unopened
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.wire.arrow_bytes import from_buffer
from slackwater.runners.spark.wire.chunks import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from slackwater.runners.spark.wire.packed_rows import PackedRow

_SCHEMA = pa.schema({"at": pa.int64(), "v": pa.int64()})
_PLAN = shard_plan(lambda s: [s[0].sort(patience=3, every=sw.Every.batch(), late=sw.Late.drop())], [_SCHEMA], 1)
(_KEY,) = shard_keys(1)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python does not look for cycles meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _packed(*times: int) -> list[PackedRow]:
    rows = pa.table({"at": list(times), "v": list(times)}, schema=_SCHEMA)
    return packed_by_tasks(_PLAN, [rows], Random(0))


def _values(bodies: Iterable[bytes | None]) -> list[int]:
    return [value for body in bodies if body is not None for value in from_buffer(body).column("v").to_pylist()]


def _shards_alive() -> int:
    return sum(isinstance(one, Shard) for one in gc.get_objects())


class _Handle:
    """What Spark gives a stateful step: here a dictionary is the store."""

    def __init__(self) -> None:
        self.stored: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getMapState(self, *_: str) -> _Handle:  # noqa: N802 - Spark's name
        return self

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 - Spark's name
        return self.stored.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        self.stored[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802 - Spark's name
        self.stored.pop(key)


@pytest.mark.usefixtures("no_collector")
def test_a_batch_host_gives_all_rows_and_keeps_no_shard() -> None:
    """In order, the flush included."""
    before = _shards_alive()
    packed = [row._asdict() for row in _packed(5, 1, 3, 9)]
    given = list(BatchHost(_PLAN)([pa.RecordBatch.from_pylist(packed)]))
    assert _values(body for batch in given for body in batch.column("body").to_pylist()) == [1, 3, 5, 9]
    assert _shards_alive() == before


@pytest.mark.usefixtures("no_collector")
def test_a_shard_goes_with_its_micro_batch_and_its_state_stays() -> None:
    """What it held is let go of at once; the next one goes on from what was stored."""
    before, host, handle = _shards_alive(), ShardHost(_PLAN), _Handle()
    host.init(handle)  # type: ignore[arg-type]
    given: dict[str, list[bytes | None]] = defaultdict(list)
    alive = []
    for times in ([5, 1, 3], [9, 7], [20]):
        frames = [pd.DataFrame(_packed(*times))]
        for released in host.handleInputRows((_KEY,), iter(frames), None):  # type: ignore[arg-type]
            for row in released.itertuples(index=False):
                given[row.output].append(row.body)
        alive.append(_shards_alive() - before)
    assert alive == [0, 0, 0]
    assert _values(given["main 0"]) == [1, 3, 5, 7, 9]
    assert len(given[METRICS]) == 3


def test_the_bytes_of_a_micro_batch_are_those_that_it_has_written() -> None:
    """Exactly: those of earlier micro-batches do not count again, and nothing is added to them."""
    host, handle = ShardHost(_PLAN), _Handle()
    host.init(handle)  # type: ignore[arg-type]
    counted, written = [], []
    for times in ([5, 1, 3], [9, 7]):
        before = dict(handle.stored)
        (given,) = host.handleInputRows((_KEY,), iter([pd.DataFrame(_packed(*times))]), None)  # type: ignore[arg-type]
        metrics = given[given["output"] == METRICS]
        counted += [counts[_COUNTS.index("state_bytes")] for counts in metrics["counts"]]
        written.append(sum(len(body) for key, (body,) in handle.stored.items() if before.get(key) != (body,)))
    assert counted == written
    assert all(written)


def test_a_task_builds_the_operators_of_a_plan_once_per_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which classes their states are made of is known since the query was planned: a task asks no operator for it."""
    host, handle = ShardHost(_PLAN), _Handle()
    built, build = [], Sort.build_driven

    def counted(node: Sort, *arguments: Any) -> Any:
        built.append(node)
        return build(node, *arguments)

    monkeypatch.setattr(Sort, "build_driven", counted)
    host.init(handle)  # type: ignore[arg-type]
    for times in ([5, 1, 3], [9, 7]):
        list(host.handleInputRows((_KEY,), iter([pd.DataFrame(_packed(*times))]), None))  # type: ignore[arg-type]
    assert len(built) == 2


@pytest.mark.parametrize("sizes", [[], [10], [10, 20, 0], [CHUNK_BYTES], [10, CHUNK_BYTES, 10, 10], [CHUNK_BYTES] * 3])
def test_what_is_little_goes_as_one_frame_and_no_frame_waits_for_more_than_a_chunk(sizes: list[int]) -> None:
    """In order, nothing twice: a frame costs Spark more than a few rows in it, and a large one its memory."""
    released = [{"output": str(number), "body": bytes(size) or None} for number, size in enumerate(sizes)]
    frames = list(_in_frames(released))
    assert [row for frame in frames for row in frame["output"]] == [row["output"] for row in released]
    assert len(frames) == (
        1 if 0 < sum(sizes) < CHUNK_BYTES else sum(size == CHUNK_BYTES for size in sizes) + (sizes[-1:] == [10])
    )
    assert all(sum(len(body or b"") for body in frame["body"][:-1]) < CHUNK_BYTES for frame in frames)


def test_a_host_that_travels_is_opened_by_its_first_rows_and_not_before(tmp_path: Path) -> None:
    """The process that only asks what is stored imports nothing of this library; whoever gets rows, gives the same."""
    pickled: Any = CloudPickleSerializer
    feed: Any = SparkFeed("frame", _SCHEMA, live=True)  # a plan of live sources of this process does not travel
    plan = plan_of([sw.stream(feed, time="at").sort(patience=3, late=sw.Late.drop()).node], 1)
    travelled = pickled().dumps(unopened(ShardHost(plan)))
    (tmp_path / "host").write_bytes(travelled)
    asked = f"""
import sys
from pyspark.serializers import CloudPickleSerializer
asked = []
class Handle:
    def getMapState(self, *words):
        asked.append(words)
host = CloudPickleSerializer().loads(open({str(tmp_path / "host")!r}, "rb").read())
host.init(Handle())
host.close()
assert asked == [{ShardHost.STORED!r}], asked
print([name for name in sys.modules if name.partition(".")[0] in ("slackwater", "numba", "pyarrow", "pandas")])
"""
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)  # noqa: S603 - ours
    assert done.stdout.strip() == "[]"
    given = []
    hosts: list[Any] = [ShardHost(plan), pickled().loads(travelled)]
    for host in hosts:
        handle = _Handle()
        host.init(handle)
        for times in ([5, 1, 3], [9, 7]):
            frames = host.handleInputRows((_KEY,), iter([pd.DataFrame(_packed(*times))]), None)
            given.append([row.body for frame in frames for row in frame.itertuples() if row.output != METRICS])
    assert given[:2] == given[2:] != [[], []]
