"""Arrivals as readers count them, against rows looked at one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.schema import EventSchema
from slackwater.operators.heartbeats.arrival_statistics import CountArrivals
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import BEGINNING

_KINDS = [pa.int32(), pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.float64()]
_RULES = Bounds.in_order().rules(Units(calendar=False, clock_calendar=False))
_BATCHES = st.lists(st.lists(st.tuples(st.none() | st.integers(0, 40), st.none() | st.integers(-5, 60))), max_size=5)


@pytest.mark.parametrize("far", [1, 10_000], ids=["near", "far from each other"])
@pytest.mark.parametrize("kind", _KINDS, ids=str)
@given(batches=_BATCHES)
def test_what_arrives_at_one_instant_is_counted_by_source(
    kind: pa.DataType, far: int, batches: list[list[tuple[int | None, int | None]]]
) -> None:
    """How many rows of each have a time, and the newest; one that only sent rows without a time has sent rows, too."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": kind}), time="at")
    arrivals, names = (
        CountArrivals(schema, HeartbeatSettings(_RULES, "who", None, 1, None)),
        ReplicaNames(schema, "who"),
    )
    wanted: dict[bytes, list[int]] = defaultdict(lambda: [0, BEGINNING])
    for batch in batches:
        sources = pa.array([None if who is None else who * far for who, _ in batch], pa.int64())
        column = (
            sources.cast(kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else sources.cast(kind)
        )
        times = [BEGINNING if at is None else at for _, at in batch]
        arrivals.add(EventBatch.inserts(pa.record_batch({"who": column}), start=np.array(times, np.int64)))
        for who, at in zip(column.to_pylist(), times, strict=True):
            seen = wanted[names.name_of(who)]
            seen[:] = [seen[0] + (at != BEGINNING), max(seen[1], at)]
    found = arrivals.statistics()
    codes, ticks, rows, newest = found.groups.tolist()
    assert found.names == tuple(sorted(wanted))
    assert ticks == [0] * len(wanted)
    assert {found.names[code]: [n, time] for code, n, time in zip(codes, rows, newest, strict=True)} == wanted
