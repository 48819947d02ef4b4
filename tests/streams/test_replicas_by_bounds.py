"""merge_replicas(by=, bounds=) as users write it: what goes out when, who takes over, and what is shown of it."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError

_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "replica": pa.string()})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Running:
    """A live merge of replicas with a patience of a minute, on a clock of seconds."""

    def __init__(self, bounds: sw.Bounds | None, resume: Any = None, patience: str = "60s", **options: Any) -> None:
        self.clock = sw.ManualClock(0)
        self.out: list[int] = []
        self.late: list[int] = []
        self.bounds = bounds
        self.source = sw.PushSource(_SCHEMA)
        if bounds is not None:
            options["bounds"] = bounds
        self.query = (
            sw.stream(self.source, time="at")
            .merge_replicas("replica", patience, every=sw.Every.batch(), **options)
            .open(
                lambda rows: self.out.extend(_seconds(rows)),
                clock=self.clock,
                on_late=lambda rows: self.late.extend(_seconds(rows)),
                resume=resume,
            )
        )

    def at(self, now: int, **rows: list[int]) -> list[int]:
        """Let it be so many seconds, and take rows of some replicas as one batch; return all that has gone out."""
        self.clock.advance(now * 1_000_000 - self.clock.now())
        sent = [{"at": _EPOCH + timedelta(seconds=at), "replica": name} for name, times in rows.items() for at in times]
        if sent:
            self.source.push(sent)
        self.query.work()
        return self.out

    def counters(self) -> Any:
        """Those of the merge."""
        return self.query.counters()["merge_replicas#1"]


def _seconds(rows: pa.RecordBatch) -> list[int]:
    return [int((at - _EPOCH).total_seconds()) for at in rows["at"].to_pylist()]


_DELAY = sw.Bounds.delay("5s")

# ---- what goes out ---------------------------------------------------------------------------------------------------


def test_a_leader_that_dies_holds_up_nobody_for_longer_than_its_delay() -> None:
    """By patience alone nothing goes out for two minutes; by proof the output is 5s behind the clock, all the time."""
    by_proof, by_patience = _Running(_DELAY), _Running(None)
    for now in range(1, 40):
        rows = {"blue": [now]} if now < 10 else {}
        rows |= {"green": [now]} if now > 7 else {}
        by_patience.at(now, **rows)
        assert by_proof.at(now, **rows) == list(range(1, now - 4))
    assert by_patience.out == []
    assert by_proof.counters().contradicted == 0
    for now in (42, 44):  # and in silence
        assert by_proof.at(now) == list(range(1, min(now - 4, 40)))


def test_the_clock_does_not_let_a_dead_replica_contradict_the_others() -> None:
    """Blue leads and is silent; what green sends is true, though blue can send nothing any more that is older."""
    running = _Running(_DELAY)
    running.at(1, blue=[1], green=[1])
    for now in range(2, 30):
        running.at(now, green=[now])
    assert running.out == list(range(1, 25))
    assert (running.counters().contradicted, running.counters().passed_over, running.late) == (0, 0, [])


def test_a_replica_that_sends_is_complete_as_far_as_bounds_prove_and_the_others_are_not_waited_for() -> None:
    """Blue arrives within 2s; green needs a minute. The output is where blue is, not where the least of them is."""
    running = _Running(sw.Bounds.delay({"blue": "2s", "green": "60s"}).only("blue", "green"))
    for now in range(1, 20):
        running.at(now, blue=[now - 1], **({"green": [0]} if now == 1 else {}))
    assert running.out == list(range(16 + 1))
    # Blue pauses: it may be dead, so that nothing more is known.
    assert running.at(21, green=[1])[-1] == running.at(30)[-1] == 16
    assert running.counters().contradicted == 0


def test_own_order_counts_with_the_row_itself_and_for_who_appears() -> None:
    """Rows out of order by a second at most: complete a second behind the newest, and from the first one past that."""
    with pytest.warns(UserWarning, match="when all replicas are silent the last rows are held until a row comes"):
        running = _Running(sw.Bounds.disorder("1s"))
    assert running.at(1, blue=[1, 3, 2, 5]) == [1, 2, 3]
    running.at(2, green=[5])
    blue, green = running.query.replicas()
    assert (blue.joined, green.joined) == (True, False)
    assert green.complete_from == 6_000_001
    running.at(3, blue=[8])
    assert running.query.replicas()[1].joined
    assert running.at(4, green=[8, 11]) == [1, 2, 3, 5, 8]  # it leads, though blue has not come as far


def test_one_whose_later_rows_are_newer_is_complete_with_each_row() -> None:
    """In silence, too: nothing is held, and nobody is warned of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        running = _Running(sw.Bounds.in_order(strictly=True))
    assert running.at(1, blue=[1, 2, 5]) == [1, 2, 5]
    assert running.at(2, blue=[6]) == [1, 2, 5, 6]


def test_who_begins_later_than_its_own_order_allows_does_not_have_everything() -> None:
    """Though all come at once, and the patience, which is longer, would have it there from the beginning."""
    running = _Running(sw.Bounds.in_order(strictly=True))
    assert running.at(1, blue=[1, 2, 3], green=[3, 4, 5]) == [1, 2, 3, 4, 5]
    blue, green = running.query.replicas()
    assert blue.complete_from < 0 < green.complete_from == 3_000_000


def test_the_last_rows_go_out_in_a_lull() -> None:
    """When all have been silent for so long, nothing older is to come: it is assumed, and named so."""
    running = _Running(sw.Bounds.in_order() & sw.Bounds.lull("10s"))
    assert running.at(1, blue=[1, 2, 3], green=[1]) == [1, 2]
    assert running.at(10) == [1, 2]
    assert running.at(12) == [1, 2, 3]
    (why,) = running.query.why()
    assert why.ground is sw.Grounds.ASSUMED


def test_what_silence_lets_go_is_not_counted_as_held() -> None:
    """Neither in the counters nor in progress()."""
    running = _Running(_DELAY)
    running.at(1, blue=[0, 1])
    assert running.counters().buffered == 2
    assert running.at(9) == [0, 1]
    assert running.counters().buffered == 0
    assert running.query.progress().held == {}


def test_an_idle_leader_is_not_waited_for_and_its_backlog_is_not_late() -> None:
    """After 10s without a row it is assumed to have nothing older; when it has, all are copies of what went out."""
    running = _Running(sw.Bounds.in_order() & sw.Bounds.idle("10s"))
    running.at(1, blue=[0, 1])
    for now in range(2, 15):
        running.at(now, green=[now])
    assert running.out == [0, 1, *range(2, 14)]
    green = running.query.replicas()[1]
    assert green.joined
    assert green.gap_before == green.complete_from
    assert "took over" in str(green)
    running.at(15, blue=list(range(2, 16)), green=[15])
    running.at(16, blue=[16], green=[16])
    assert running.late == []
    assert running.out == list(range(16))
    assert running.counters().passed_over + running.counters().duplicates > 0
    assert running.counters().broken_bounds > 0


def test_a_replica_that_was_cut_off_breaks_its_delay_and_nothing_is_late() -> None:
    """Its backlog is counted with the bound that it broke; it leads again when it is back."""
    running = _Running(_DELAY)
    for now in range(1, 60):
        blue = [now] if now < 10 else list(range(10, 51)) if now == 50 else [now] if now > 50 else []
        running.at(now, green=[now], **({"blue": blue} if blue else {}))
    assert running.late == []
    assert running.out == list(range(1, 55))
    assert running.counters().broken_bounds == len(range(10, 45))
    (why,) = running.query.why()
    assert why.broken == {
        "blue": "35 rows, the last at 1970-01-01T00:00:44.000000Z: rows arrive at most 5s after their time"
    }


def test_a_row_that_breaks_a_bound_proves_nothing() -> None:
    """Blue comes back with a backlog, row by row: it is not complete where it should be, for it lacks the rest."""
    running = _Running(sw.Bounds.delay({"blue": "2s", "green": "60s"}).only("blue", "green"))
    for now in range(1, 50):
        running.at(now, green=[now], **({"blue": [now]} if now < 10 else {}))
    for now in range(50, 53):
        running.at(now, blue=[now - 40], green=[now])
    assert (running.counters().contradicted, running.late) == (0, [])
    assert running.out == list(range(1, 7))


def test_what_is_assumed_of_silence_makes_no_replica_complete() -> None:
    """Blue was idle, and sends its backlog out of order: what green has of the time is not contradicted meanwhile."""
    running = _Running(sw.Bounds.disorder("30s") & sw.Bounds.idle("10s"))
    running.at(1, blue=[0, 1], green=[0, 1])
    for now in range(2, 41):
        running.at(now, green=[now])
    running.at(41, blue=[41, *range(2, 21)], green=[41])
    running.at(42, blue=list(range(21, 41)), green=[42])
    running.query.close()
    assert (running.counters().contradicted, running.late) == (0, [])
    assert running.out == list(range(43))


def test_a_snapshot_goes_on_where_it_was() -> None:
    """Heartbeats, proofs and who leads are part of it; with assumptions there is a second generator."""
    bounds = _DELAY & sw.Bounds.idle("20s")
    running, twin = _Running(bounds), _Running(bounds)
    for now in range(1, 30):
        rows = {"blue": [now]} if now < 10 else {}
        rows |= {"green": [now]} if now > 7 else {}
        again = _Running(bounds, resume=running.query.snapshot())
        again.out, again.clock = running.out, again.clock
        running = again
        assert running.at(now, **rows) == twin.at(now, **rows)
    assert [str(one) for one in running.query.replicas()] == [str(one) for one in twin.query.replicas()]
    assert list(map(str, running.query.why())) == list(map(str, twin.query.why()))


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_why_names_who_leads_and_what_each_replica_goes_by() -> None:
    """And, once nobody can send more, that."""
    running = _Running(sw.Bounds.disorder("1s") & sw.Bounds.delay("30s"))
    running.at(1, blue=[1], green=[0])
    running.at(2, blue=[2], green=[0])
    (why,) = running.query.why()
    own = "proven by bounds: rows at most 1s behind those of the same source"
    newest = "the newest row is at 1970-01-01T00:00:02.000000Z"
    assert str(why).splitlines() == [
        f"merge_replicas#1  complete before 1970-01-01T00:00:01.000000Z, {newest}",
        f"  ground     {own.replace(': ', ': blue, which leads: ')}",
        f"  by origin  blue complete before 1970-01-01T00:00:01.000000Z, holds 2; {own}",
        f"  by origin  green complete before 1969-12-31T23:59:59.000000Z, holds 0; {own}",
    ]


def test_why_names_no_ground_while_nothing_is_complete() -> None:
    """The tick of the first rows is not over."""
    rows = pa.table({"landed": [1, 1], "replica": ["blue", "green"], "at": [3, 2]})
    stream = sw.stream(rows, time="at", arrived="landed")
    query = stream.merge_replicas("replica", 5, bounds=sw.Bounds.in_order()).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    query.stop()
    assert [(one.origin, one.complete_before, one.ground, one.rule) for one in why.origins] == [
        (name, sw.BEGINNING, sw.Grounds.NOTHING, "") for name in ("blue", "green")
    ]


def test_the_plan_names_the_bounds() -> None:
    """Beside the patience."""
    stream = sw.stream(_SCHEMA.empty_table(), time="at")
    line = stream.merge_replicas("replica", "10s", bounds=sw.Bounds.disorder("1s")).explain().splitlines()[1]
    assert (
        "by replica, case R4, patience=10s, from rows at most 1s behind those of the same source, late rows diverted"
        in line
    )
    assert "what bounds prove that nobody can send any more is not waited for" in line


def test_when_rows_arrived_is_not_compared_and_not_in_the_output() -> None:
    """Copies of an event arrive at different times; late rows show when they did."""
    sent = [(1, "blue", 1), (2, "green", 1), (3, "blue", 9), (4, "green", 9), (5, "blue", 2)]
    rows = [{"landed": landed, "replica": who, "at": at, "x": at} for landed, who, at in sent]
    merged = sw.stream(rows, time="at", arrived="landed").merge_replicas(
        "replica", 5, bounds=sw.Bounds.delay(8), left_out=sw.LeftOutRows.divert()
    )
    assert merged.schema.names == ["at", "x"]
    assert merged.left_out.schema.names == ["replica", "at", "x", "left_out"]
    result = merged.run()
    assert result.table.to_pydict() == {"at": [1, 9], "x": [1, 9]}
    assert result.late["landed"].to_pylist() == [5]


# ---- refusals --------------------------------------------------------------------------------------------------------


def _refused(stream: sw.DisorderedStream, bounds: Any, **options: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        stream.merge_replicas("replica", "10s", bounds=bounds, **options)
    return str(caught.value).splitlines()


def _live(**options: Any) -> sw.DisorderedStream:
    schema = [*_SCHEMA, pa.field("k", pa.string()), pa.field("landed", pa.timestamp("us", "UTC"))]
    return sw.stream(sw.PushSource(pa.schema(schema), name="live"), time="at", **options)


def test_the_replica_is_the_source() -> None:
    """An origin that is another column would say something about parts of replicas."""
    assert _refused(_live(origin="k"), _DELAY) == [
        "each replica is a source here, and origin= names others",
        "    origin  k",
        "    by      replica",
        '    hint: leave origin= out, or write origin="replica"',
    ]
    merged = _live(origin="replica").merge_replicas("replica", "10s", bounds=_DELAY)
    assert merged.schema.names == ["at", "k", "landed"]


def test_steps_that_hide_rows_or_change_what_bounds_look_at_are_refused() -> None:
    """A filter goes behind the merge; a select keeps the columns."""
    assert _refused(_live().where(nw.col("k") == "a"), _DELAY)[-1] == (
        "    hint: have it behind merge_replicas(), where it is done before the sort"
    )
    renamed = _live(arrived="landed").select("replica", "k", landed=nw.col("at"))
    assert _refused(renamed, _DELAY)[0] == "bounds of replicas look at a column that a step changes"
    upper = _live().select(replica=nw.col("replica").str.to_uppercase())
    assert _refused(upper, _DELAY)[-1] == "    hint: keep the column as it came: select() it, too"
    kept = _live().select("replica", twice=nw.col("k").str.to_uppercase())
    assert kept.merge_replicas("replica", "10s", bounds=_DELAY).schema.names == ["at", "twice"]


def test_what_proves_nothing_is_refused() -> None:
    """Estimates, fleets, and what is no bounds at all; and bounds by the clock where nobody knows the time."""
    assert _refused(_live(), sw.Bounds.estimated(loss=0.01))[0] == (
        "an estimate does not prove that a replica has sent everything"
    )
    fleets = sw.Bounds.delay({"blue": "1s", "green": "2s"}).in_fleets({"all": ["blue", "green"]})
    assert _refused(_live(), fleets)[0] == "a fleet is no replica: each of them is a source of its own"
    assert _refused(_live(), "5s")[0] == "bounds= takes Bounds"
    assert _refused(sw.stream(_SCHEMA.empty_table(), time="at"), _DELAY)[0] == (
        "these bounds need to know when rows arrived, and a source that ends does not say"
    )
