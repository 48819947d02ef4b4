"""The hosts of shards, called as Spark calls them: what they give out, and that no shard outlives its micro-batch."""

from __future__ import annotations

import gc
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from without_spark import packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.plan.nodes.ordering import Sort
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.host import BatchHost, ShardHost
from slackwater.runners.spark.shard.metrics import METRICS
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.wire.arrow_bytes import from_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        *_, metrics = host.handleInputRows((_KEY,), iter([pd.DataFrame(_packed(*times))]), None)  # type: ignore[arg-type]
        counted += metrics["state_bytes"].tolist()
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
