"""assume_keyed() on plain streams: what is declared is checked, and makes merges of replicas cheaper."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadElement, NeedsOrder, PlanError, ReplicasGone

_SCHEMA = pa.schema({"at": pa.int64(), "x": pa.string()})
_ONCE = [{"at": at, "x": x} for at in range(20) for x in "abc"[: 1 + at % 3]]


def _rows(table: pa.Table) -> list[tuple[int, str]]:
    return sorted(zip(table["at"].to_pylist(), table["x"].to_pylist(), strict=True))


def _arriving(seed: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    return sorted(_ONCE, key=lambda row: (row["at"] + rng.randrange(4), rng.random()))


@given(seeds=st.lists(st.integers(0, 10**6), min_size=2, max_size=3), attachable=st.booleans())
def test_a_merge_of_replicas_with_a_key_gives_what_one_without_gives(seeds: list[int], attachable: bool) -> None:
    """Each row once, by R2 or R3 as by R4, whatever the order in which the rows of one time come."""
    sorted_ = [sw.stream(_arriving(seed), time="at", schema=_SCHEMA).sort(patience=5) for seed in seeds]
    keyed = sw.merge_replicas(*(one.assume_keyed() for one in sorted_), attachable=attachable)
    assert _rows(keyed.run().table) == _rows(sw.merge_replicas(*sorted_).run().table)
    assert _rows(keyed.run().table) == [(row["at"], row["x"]) for row in _ONCE]


def test_a_row_that_comes_twice_ends_the_query_and_is_named() -> None:
    """Where it is not a replica of anything; the row before it stays emitted."""
    rows = [{"at": 1, "x": "a"}, {"at": 1, "x": "b"}, {"at": 2, "x": "a"}, {"at": 2, "x": "a"}]
    keyed = sw.stream(rows[:3], time="at").assume_ordered().assume_keyed()
    assert keyed.run().table.num_rows == 3
    broken = sw.stream(rows, time="at").sort(patience=1).assume_keyed()
    with pytest.raises(BadElement, match="expects time and payload to be a key, and got an event twice") as no:
        broken.run()
    assert "'a'" in str(no.value)
    assert "deduplicate(on=..., within=0)" in str(no.value)
    mended = sw.stream(rows, time="at").sort(patience=1).deduplicate(on="x", within=0).assume_keyed()
    assert mended.run().table.num_rows == 3


@pytest.mark.parametrize("attachable", [False, True])
def test_a_replica_that_breaks_its_key_leaves_and_the_others_go_on(attachable: bool) -> None:
    """The step is its own (docs/decisions/0025); with the last of them the query fails."""
    sources = [sw.PushSource(_SCHEMA, name=name) for name in ("blue", "green")]
    replicas = [sw.stream(source, time="at").assume_ordered().assume_keyed() for source in sources]
    out: list[Any] = []
    query = sw.merge_replicas(*replicas, attachable=attachable).open(lambda rows: out.extend(_rows(rows)))
    for row in ({"at": 1, "x": "a"}, {"at": 2, "x": "b"}):
        for source in sources:
            source.push(row)
            query.work()
    sources[0].push({"at": 2, "x": "b"})
    query.work()
    assert "got an event twice" in str(query.why_left(replicas[0]))
    sources[1].push({"at": 3, "x": "c"})
    query.work()
    if not attachable:  # what may still be revised waits for what is behind it
        assert out == [(1, "a"), (2, "b"), (3, "c")]
    sources[1].push({"at": 3, "x": "c"})
    with pytest.raises(ReplicasGone, match="got an event twice"):
        query.work()


def test_plans_in_which_it_means_nothing_are_refused() -> None:
    """Every row would have to be remembered for ever; or rows have no time."""
    live = sw.PushSource(_SCHEMA, name="live")
    with pytest.raises(NeedsOrder, match=r"live stream that has no punctuations(.|\n)*sort\(patience"):
        sw.stream(live, time="at").assume_keyed()
    assert sw.stream(live, time="at").sort(patience=5).assume_keyed().properties.keyed
    assert sw.stream(_ONCE, time="at").assume_keyed().sort(patience=5).properties.keyed
    with pytest.raises(PlanError, match="assume_keyed needs a time in every row"):
        sw.stream(_ONCE, time="at", untimed_is_late=True).assume_keyed()


def test_events_without_times_of_their_own_are_stamped_first() -> None:
    """What is processed at one instant is one time."""
    keyed = sw.unstamped(sw.PushSource({"x": pa.string()}, name="latent")).assume_keyed()
    assert "stamp#1" in keyed.explain()


def test_a_log_of_changes_may_declare_it_behind_other_steps() -> None:
    """As keyed=True does at the source."""
    rows = [{"change": "insert", "at": 1, "x": "a"}, {"change": "insert", "at": 1, "x": "a"}]
    changes = sw.changes(rows, time="at")
    assert changes.assume_keyed().properties == sw.changes(rows, time="at", keyed=True).properties
    with pytest.raises(BadElement, match="got an event twice"):
        changes.assume_keyed().run()


def test_a_function_over_windows_sees_rows_in_order_behind_it() -> None:
    """The sort stays before the window, as without it."""
    rows = [{"at": at, "x": str(at)} for at in (3, 1, 2, 14, 12)]

    def joined(window: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"all": ["".join(window["x"].to_pylist())]})

    windows = sw.stream(rows, time="at", schema=_SCHEMA).sort(patience=5).tumbling(10).assume_keyed()
    assert windows.map_windows(joined).run().table["all"].to_pylist() == ["123", "1214"]
