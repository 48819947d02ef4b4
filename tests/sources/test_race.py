"""Plans that race: the merged stream is what each would send alone, in less time than any of them would take."""

from __future__ import annotations

from random import Random
from threading import Thread
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, StepFailed

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = pa.schema({"at": pa.int64(), "x": pa.int64()})
_SECONDS = 20.0
"""How long a thread may take before a test gives up."""

_DEAR, _CHEAP = 20, 1


def _alternating(rows: int, seed: int) -> pa.Table:
    """Rows whose x is small for a while, then large for a while: 100 to 300 rows each, as in Figure 9 of the paper."""
    rng = Random(seed)
    values: list[int] = []
    while len(values) < rows:
        low = 0 if len(values) == 0 or values[-1] >= 50 else 50
        values += [low + rng.randrange(50) for _ in range(rng.randint(100, 300))]
    return pa.table({"at": pa.array(range(rows), pa.int64()), "x": pa.array(values[:rows], pa.int64())})


class _Selection:
    """A user's selection function, dear for some x; it counts what it has cost."""

    def __init__(self, dear_from: int, dear_before: int) -> None:
        self._dear = range(dear_from, dear_before)
        self.spent = 0

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        """Whether x is no multiple of three."""
        self.spent += sum(_DEAR if x in self._dear else _CHEAP for x in rows["x"].to_pylist() if x is not None)
        thirds = pc.divide(rows["x"], 3)
        return pc.not_equal(pc.multiply(thirds, 3), rows["x"])


def _plans(table: pa.Table) -> tuple[list[_Selection], list[sw.OrderedStream]]:
    functions = [_Selection(0, 50), _Selection(50, 100)]
    plans = [sw.stream(table, time="at").assume_ordered().where(function) for function in functions]
    for function in functions:
        function.spent = 0  # what it was tried on
    return functions, plans


def _race(table: pa.Table, *, feedback: bool) -> tuple[int, list[dict[str, Any]]]:
    """Race two plans on a machine with a processor for each; return when all was emitted, and what.

    The time is what a plan has spent: whoever has spent less takes the next step.
    """
    functions, plans = _plans(table)
    race = sw.Race(*plans, batch_rows=20, clock=sw.ManualClock(), feedback=feedback)
    emitted: list[dict[str, Any]] = []
    merged = race.merged.open(lambda rows: emitted.extend(rows.to_pylist()), clock=sw.ManualClock())
    finished = 0
    while True:
        plan = min(range(2), key=lambda number: functions[number].spent)
        race.step(plan)
        merged.work()
        if race._queries[plan].finished:
            finished = functions[plan].spent
            break
    merged.close()
    return finished, emitted


def test_two_plans_take_less_time_together_than_either_alone_because_each_is_spared_the_others_work() -> None:
    """Without feedback the race is as slow as the better plan: it tracks the faster one, and both do all the work."""
    table = _alternating(4_000, seed=9)
    functions, plans = _plans(table)
    alone = [plan.run().table.to_pylist() for plan in plans]
    apart = min(function.spent for function in functions)
    with_feedback, emitted = _race(table, feedback=True)
    without, sent_without = _race(table, feedback=False)
    assert emitted == sent_without == alone[0] == alone[1]
    assert without > 0.9 * apart
    assert with_feedback < apart / 4


@pytest.mark.parametrize("seed", range(3))
def test_plans_driven_by_threads_send_what_each_sends_alone(seed: int) -> None:
    """However the threads are interleaved."""
    table = _alternating(3_000, seed)
    _, plans = _plans(table)
    alone = plans[0].run().table
    race = sw.Race(*_plans(table)[1], batch_rows=50, capacity=100)
    threads = [Thread(target=race.run_plan, args=[plan], daemon=True) for plan in range(2)]
    for thread in threads:
        thread.start()
    merged = race.merged.run().table
    for thread in threads:
        thread.join(_SECONDS)
    assert merged.equals(alone)
    assert not any(thread.is_alive() for thread in threads)


def test_events_with_lifetimes_and_answers_of_windows_can_race() -> None:
    """The times of a plan are those of its replica."""
    rows = sw.stream(_alternating(500, 1), time="at").assume_ordered()
    counts = rows.tumbling(20).group_by("x").aggregate(n=sw.count())
    race = sw.Race(counts, rows.tumbling(20).group_by("x").aggregate(n=sw.count()), clock=sw.ManualClock())
    for plan in range(2):
        race.run_plan(plan)
    order = [("window_start", "ascending"), ("x", "ascending")]
    assert race.merged.run().table.sort_by(order).equals(counts.run().table.sort_by(order))


def _failing_from(place: int) -> Callable[[pa.RecordBatch], pa.Array]:
    def predicate(rows: pa.RecordBatch) -> pa.Array:
        if any(at is not None and place <= at < 10**5 for at in rows["at"].to_pylist()):
            raise ArithmeticError("broken")
        return pc.is_valid(rows["at"])

    return predicate


def test_a_plan_that_fails_leaves_the_race_and_says_so_to_whom_drives_it() -> None:
    """The others send the rest."""
    table = _alternating(400, 2)
    rows = sw.stream(table, time="at").assume_ordered()
    race = sw.Race(rows.where(_failing_from(100)), rows.where(nw.col("x") >= 0), batch_rows=10)
    with pytest.raises(StepFailed, match="broken"):
        race.run_plan(0)
    race.run_plan(1)
    assert race.merged.run().table.equals(table)


def test_plans_stop_when_nobody_reads_the_merged_stream_any_more() -> None:
    """Also those that wait for room."""
    rows = sw.stream(_alternating(2_000, 3), time="at").assume_ordered()
    race = sw.Race(rows, rows, batch_rows=10, capacity=50)
    threads = [Thread(target=race.run_plan, args=[plan], daemon=True) for plan in range(2)]
    for thread in threads:
        thread.start()
    batches = race.merged.batches()
    next(batches)
    batches.close()
    for thread in threads:
        thread.join(_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def test_what_cannot_race_is_refused() -> None:
    """No streams, no order, no times, and columns that differ."""
    rows = sw.stream(_alternating(10, 4), time="at")
    with pytest.raises(PlanError, match="a race needs streams"):
        sw.Race([rows.assume_ordered()])  # type: ignore[arg-type]
    with pytest.raises(NeedsOrder):
        sw.Race(rows, rows)
    with pytest.raises(NeedsOrder):
        sw.Race(sw.unstamped([{"x": 1}]))
    with pytest.raises(PlanError, match="same columns"):
        sw.Race(rows.assume_ordered(), rows.assume_ordered().select("at"))
