"""What is written for Prometheus is read by its own client as it was meant, whatever it holds."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.prometheus import prometheus_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS = [(10, "a", 5), (11, "b", 3), (12, "a", 14), (13, "a", 27), (14, "a", 31), (15, "a", 2)]


def _read(text: str) -> dict[str, Any]:
    """The families of a text, by name; each stands together, and has its type and what it says."""
    families = list(text_string_to_metric_families(text))
    assert len({one.name for one in families}) == len(families)
    assert all(one.documentation.endswith(".") and one.samples for one in families)
    return {one.name: one for one in families}


def _values(family: Any, *labels: str) -> dict[Any, float]:
    return {tuple(sample.labels[label] for label in labels): sample.value for sample in family.samples}


def _opened(stream: Any) -> sw.Query:
    query: sw.Query = stream.open([].append, on_late=[].append)
    query.step()
    return query


def _by_origin() -> Any:
    rows = [{"landed": landed, "who": who, "at": at} for landed, who, at in _ROWS]
    readings = sw.stream(rows, time="at", name="readings", origin="who", arrived="landed")
    return (
        readings.tumbling(10).sort_within_origins(bounds=sw.Bounds.in_order()).group_by("who").aggregate(n=sw.count())
    )


def test_a_query_is_written_as_it_stands() -> None:
    """The counts of its progress, those of its steps, and why each is complete no further; sequence numbers as such."""
    query = _opened(sw.stream([{"at": at} for at in (1, 4, 3, 12, 9, 2, 15)], time="at", name="rows").sort(patience=5))
    found = _read(query.prometheus({"query": "q", "region": "north"}))
    progress, counters = query.progress(), query.counters()
    for name, expected in (("rows_in", 7), ("rows_out", progress.total_out), ("late_rows", 1), ("duplicate_rows", 0)):
        family = found[f"slackwater_{name}"]
        assert family.type == "counter"
        (sample,) = family.samples
        assert sample.name == f"slackwater_{name}_total"
        assert sample.labels == {"query": "q", "region": "north"}
        assert sample.value == expected
    assert _values(found["slackwater_held_rows"]) == {(): sum(progress.held.values())}
    steps = {(name,): float(one.rows_out) for name, one in counters.items()}
    assert _values(found["slackwater_step_rows_out"], "step") == steps
    held = {(name,): float(one.buffered) for name, one in counters.items()}
    assert _values(found["slackwater_step_held_rows"], "step") == held
    assert _values(found["slackwater_newest_row_sequence"], "source") == {("source#1",): 15}
    assert _values(found["slackwater_complete_before_sequence"]) == {(): progress.complete_before}
    (why,) = query.why()
    assert _values(found["slackwater_step_complete_before_sequence"], "step") == {(why.step,): why.complete_before}
    waits = _values(found["slackwater_step_waits_info"], "step", "ground", "rule", "source")
    assert waits == {("punctuate#1", "patience", why.rule, ""): 1}
    assert not any("timestamp" in name for name in found)
    assert found["slackwater_held_rows"].type == "gauge"


def test_each_source_that_goes_by_itself_is_named() -> None:
    """With how far it is complete, and what waits for it."""
    query = _opened(_by_origin())
    found = _read(query.prometheus())
    (why,) = query.why()
    expected = {(why.step, origin.origin): float(origin.complete_before) for origin in why.origins}
    assert expected
    assert _values(found["slackwater_origin_complete_before_sequence"], "step", "origin") == expected
    held = {(why.step, origin.origin): float(origin.held) for origin in why.origins}
    assert _values(found["slackwater_origin_held_rows"], "step", "origin") == held
    query.close()


def test_calendar_times_are_seconds_since_1970() -> None:
    """Exact to the microsecond in the text; what has not begun is left out, and what has ended is infinite."""
    times = pa.array(["2026-11-15T10:00:00.000001", "2026-11-15T10:00:09"])
    table = pa.table({"at": times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))})
    query = sw.stream(table, time="at", name="rows").sort(patience="2s").open([].append, on_late=[].append)
    assert "complete_before" not in query.prometheus()
    query.step()
    assert 'slackwater_newest_row_timestamp_seconds{source="source#1"} 1794736809.000000\n' in query.prometheus()
    query.close()
    assert _values(_read(query.prometheus())["slackwater_complete_before_timestamp_seconds"]) == {(): inf}


def _text(why: sw.Why, labels: Mapping[str, str] | None = None) -> str:
    progress = sw.Progress(False, BEGINNING, {}, {}, total_in=0, total_out=0, total_late=0)
    return prometheus_text(progress, {}, [why], labels or {})


@given(st.text(), st.text(), st.integers(-(2**62), 2**62))
def test_labels_are_read_as_they_were(rule: str, label: str, time: int) -> None:
    """Quotes, backslashes and ends of lines included: names of sources and rules are the user's."""
    why = sw.Why("sort#1", time, FOREVER, sw.Grounds.PROVEN, rule, calendar=False)
    found = _read(_text(why, {"q": label}))
    assert _values(found["slackwater_step_waits_info"], "q", "rule") == {(label, rule): 1}
    assert _values(found["slackwater_step_complete_before_sequence"], "step") == {("sort#1",): float(time)}
    assert _values(found["slackwater_step_newest_row_sequence"], "step") == {("sort#1",): inf}


@pytest.mark.parametrize("name", ["__name", "9lives", "", "a-b", "step", "é", "le gume"])
def test_labels_that_prometheus_or_we_cannot_take_are_refused(name: str) -> None:
    """With the names that are taken; a value that is no text, too."""
    query = sw.stream([{"at": 1}], time="at").open([].append)
    with pytest.raises(PlanError, match=r"(?s)does not take a label.*origin"):
        query.prometheus({name: "x"})
    with pytest.raises(PlanError, match=r"(?s)a text.*'shard': '3'"):
        query.prometheus({"shard": 3})  # type: ignore[dict-item]
