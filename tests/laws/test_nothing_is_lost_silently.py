"""Law 1: every input row is in the output or still held, and the counts add up at any time."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import ROWS

_PUSHES = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 5), min_size=1, max_size=4)), max_size=20)


@given(pushes=_PUSHES)
def test_rows_in_are_rows_out_plus_rows_held(pushes: list[tuple[int, list[int]]]) -> None:
    """After every push, and at the end, nothing is missing and nothing is doubled."""
    sources = [sw.PushSource(ROWS, name=name) for name in "ab"]
    delivered: list[int] = []
    union = sw.union(*(sw.stream(source, time="at").assume_ordered() for source in sources))
    query = union.open(lambda rows: delivered.extend(rows.column("v").to_pylist()), clock=sw.ManualClock())
    times, pushed = [0, 0], 0
    for port, steps in pushes:
        for step in steps:
            times[port] += step
            sources[port].push({"at": times[port], "k": "x", "v": pushed})
            pushed += 1
        query.work()
        held = query.counters()["union#1"].buffered
        assert len(delivered) + held == pushed
        assert query.counters()["union#1"].rows_in == pushed
    query.close()
    assert sorted(delivered) == list(range(pushed))
    assert query.counters()["union#1"].buffered == 0


@given(starts=st.lists(st.integers(-50, 50), max_size=30), size=st.integers(1, 20))
def test_every_row_is_counted_in_exactly_one_tumbling_window(starts: list[int], size: int) -> None:
    """The counts of all windows add up to the rows that came in."""
    table = pa.table({"at": pa.array(sorted(starts), pa.int64())})
    windows = sw.stream(table, time="at").assume_ordered().tumbling(size).aggregate(n=sw.count()).run().table
    assert sum(windows.column("n").to_pylist()) == len(starts)
