"""Section 7 of the heartbeat paper: the plan of Figure 5 while its third stream lags, by each of three strategies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.operators.hold import HoldOperator
from slackwater.runners.in_process import measured_labels

_ROWS = pa.schema({"at": pa.int64(), "k": pa.int64()})
_BY_MEMORY = sw.Release.by_memory(growth={"join#1": 3.0})


class _Figure5:
    """O1 joins S1 and S2, O2 joins that with S3; rows are pushed by hand, and each stream has a patience of one."""

    def __init__(self, release: sw.Release, resume: Any = None) -> None:
        self.sources = [sw.PushSource(_ROWS, name=f"s{number}") for number in (1, 2, 3)]
        s1, s2, s3 = (sw.stream(source, time="at").sort(patience=1) for source in self.sources)
        plan = s1.join(s2, on="k", within=2).select("k").join(s3, on="k", within=0).release(release)
        self.out: list[int] = []
        self.query = plan.open(
            lambda rows: self.out.extend(rows["matched_at"].to_pylist()),
            on_late=print,
            clock=sw.ManualClock(),
            resume=resume,
        )

    def push(self, stream: int, *times: int) -> None:
        """Push rows of one key, and do all that can be done."""
        self.sources[stream - 1].push([{"at": at, "k": 1} for at in times])
        self.query.work()

    def held(self) -> dict[str, int]:
        """How many rows each step holds back for another stream: in holds, and before joins."""
        graph = self.query._runner._graph
        return {step.name: held for step in graph.steps if (held := step.operator.held_back())}


def test_operator_level_heartbeats_let_the_first_operator_run_ahead_and_fill_memory() -> None:
    """Section 7.3: what O1 makes waits before O2: 5 pairs of distance 0, 4 of 1 and 3 of 2, those but once each way."""
    plan = _Figure5(sw.Release.by_operator())
    plan.push(1, *range(7))
    plan.push(2, *range(7))
    # Complete before 6 - 1: rows 0 to 5 of both are matched, since equal times may go.
    pairs = 5 + 2 * (4 + 3)
    assert plan.held() == {"join#2": pairs}
    assert plan.query.counters()["join#1"].rows_out == pairs


@pytest.mark.parametrize("release", [sw.Release.by_query(), _BY_MEMORY])
def test_with_query_level_heartbeats_nothing_is_made_before_it_can_be_used(release: sw.Release) -> None:
    """Sections 7.1 and 7.4: O1 proliferates, so that the memory-aware strategy is the query level; rows wait there."""
    plan = _Figure5(release)
    plan.push(1, *range(7))
    plan.push(2, *range(7))
    assert plan.held() == {"hold#1": 5, "hold#2": 5}
    assert plan.query.counters()["join#1"].rows_in == 0


def test_a_stream_that_lags_lets_go_as_far_as_it_has_come() -> None:
    """By each strategy the same rows come out with the same push, and only what may be used is made."""
    plans = [_Figure5(release) for release in (sw.Release.by_operator(), sw.Release.by_query(), _BY_MEMORY)]
    for plan in plans:
        plan.push(1, *range(7))
        plan.push(2, *range(7))
        plan.push(3, 0, 1, 2, 3)  # complete before 2
    assert plans[0].out == plans[1].out == plans[2].out
    assert plans[0].out == [0, 1, 1, 1]
    for plan in plans[1:]:
        # Up to 2, where S3 may go on; 3 and 4 are held twice.
        assert {name: rows for name, rows in plan.held().items() if "hold" in name} == {"hold#1": 2, "hold#2": 2}
    for plan in plans:
        plan.query.close()
    assert plans[0].out == plans[1].out == plans[2].out


def test_a_selective_first_operator_is_not_held_by_memory() -> None:
    """Section 7.4: without a link labels are those of the operators."""
    plan = _Figure5(sw.Release.by_memory(growth={"join": 1.0}))
    plan.push(1, *range(7))
    plan.push(2, *range(7))
    assert plan.held() == {"join#2": 19}


def test_growth_is_measured_while_the_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first operator that turns out to proliferate is held from then on; one that does not any more is let go."""
    plan = _Figure5(sw.Release.by_memory())
    plan.push(1, *range(200))
    assert "hold#1" not in plan.held(), "nothing was measured"
    plan.push(2, *range(200))
    made = plan.query.counters()["join#1"].rows_out
    assert made > 900
    plan.push(1, *range(200, 300))
    plan.push(2, *range(200, 300))
    assert plan.held() == {"hold#1": 100, "hold#2": 100, "join#2": made}
    assert plan.query.counters()["join#1"].rows_out == made
    plan.push(3, *range(300))
    assert plan.held() == {}
    made = plan.query.counters()["join#1"].rows_out
    # Rows that are too far apart to match: the join makes nothing of them, and of late it has made less than it took.
    monkeypatch.setattr(measured_labels, "LAST_ROWS", 100)
    for start in range(1_000, 11_000, 1_000):
        plan.push(1, *range(start, start + 1_000, 10))
        plan.push(2, *range(start + 5, start + 1_000, 10))
        plan.push(3, start + 1_000)
    assert plan.query.counters()["join#1"].rows_out < made + 20
    plan.push(1, 20_000, 20_002)
    plan.push(2, 20_005, 20_007)
    assert "hold#1" not in plan.held()


def test_rows_that_wait_for_another_input_do_not_count_as_taken() -> None:
    """S1 runs ahead of S2: what it sent says nothing yet of how many pairs the join makes of it."""
    plan = _Figure5(sw.Release.by_memory())
    plan.push(3, *range(5_000))
    for stream in (1, 2):
        plan.push(stream, *range(200))
    plan.push(1, *range(200, 2_200))
    assert plan.held()["join#1"] == 1_999
    graph = plan.query._runner._graph
    holds = [step.operator for step in graph.steps if isinstance(step.operator, HoldOperator)]
    assert [hold.waits_for for hold in holds] == [(1,), (1,)]


@pytest.mark.parametrize("release", [sw.Release.by_query(), _BY_MEMORY, sw.Release.by_memory()])
def test_what_is_held_survives_a_restart(release: sw.Release) -> None:
    """A snapshot has the rows, how far each stream is, and whom they wait for."""
    whole, first = _Figure5(release), _Figure5(release)
    for plan in (whole, first):
        plan.push(1, *range(200))
        plan.push(2, *range(200))
        plan.push(1, *range(200, 250))
        plan.push(2, *range(200, 250))
    held = first.held()
    assert held == whole.held()
    assert held["hold#1"] > 0
    second = _Figure5(release, resume=first.query.snapshot())
    assert second.held() == held
    for plan in (whole, second):
        plan.push(3, *range(100))
        plan.query.close()
    assert whole.out == first.out + second.out


def test_a_source_that_a_hold_waits_for_is_asked() -> None:
    """On-demand punctuations: the walk back from a hold leads to the source that lags, through its progress."""
    clock = sw.ManualClock(start=1_000)
    sources = [sw.PushSource({"k": pa.int64()}, name=name) for name in "abc"]
    a, b, c = map(sw.arrivals, sources)
    pairs = a.join(b, on="k", within="1s").select("k").join(c, on="k", within="1s")
    out: list[Any] = []
    query = pairs.release(sw.Release.by_query()).open(out.append, clock=clock)
    sources[0].push({"k": 1})
    sources[1].push({"k": 1})
    query.work()
    assert query.counters()["join#1"].rows_out == 1, "c is silent, and was asked"
    assert query.counters()["hold#1"].buffered == 0
    sources[2].push({"k": 1})
    query.work()
    assert sum(rows.num_rows for rows in out) == 1
    query.close()


def test_why_names_the_stream_that_holds_up_others() -> None:
    """What is held for a stream in holds counts among what it holds up."""
    plan = _Figure5(sw.Release.by_query())
    plan.push(1, *range(7))
    plan.push(2, *range(7))
    plan.push(3, 1)
    held = {why.step: why.held for why in plan.query.why()}
    assert (
        held["punctuate#3"]["hold#1"] == held["punctuate#3"]["hold#2"] == 4
    )  # a row at 0 may go: S3 is complete before it
    assert "hold#1" not in held["punctuate#2"]


def test_back_pressure_leaves_those_unread_whose_rows_are_held() -> None:
    """A hold that has too many rows lets the sources of these wait, and never the one that lags."""
    sources = [sw.PushSource(_ROWS, name=f"s{number}") for number in (1, 2, 3)]
    s1, s2, s3 = (sw.stream(source, time="at").assume_ordered() for source in sources)
    plan = s1.join(s2, on="k", within=2).select("k").join(s3, on="k", within=0).release(sw.Release.by_query())
    query = plan.open(lambda _: None, clock=sw.ManualClock(), buffer_limit=3)
    for first in (0, 7):
        sources[0].push([{"at": at, "k": 1} for at in range(first, first + 7)])
        query.work()
    assert query.counters()["source#1"].rows_in == 7
    for source in sources[1:]:
        source.push([{"at": at, "k": 1} for at in range(14)])
    query.work()
    assert query.counters()["source#1"].rows_in == 14
    query.close()
