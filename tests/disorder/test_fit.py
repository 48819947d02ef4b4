"""Fitted bounds: what is measured against slow definitions, what is guaranteed of the sample, and what is refused."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pytest reads it
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.disorder.fit import BEYOND, _Fit
from slackwater.disorder.sample import Sample
from slackwater.errors import PlanError, SchemaMismatch
from slackwater.progress.instants import BEGINNING

_ROWS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", "c", None]), st.integers(0, 60)), min_size=1, max_size=40
)
_NAMES: dict[str, Any] = {"time": "at", "arrived": "came", "origin": "by"}


def _table(rows: list[tuple[int, Any, int]]) -> pa.Table:
    came, by, at = zip(*rows, strict=True)
    return pa.table({"at": at, "came": came, "by": pa.array(by, pa.string())})


def _seconds(table: pa.Table) -> pa.Table:
    """The same in calendar time, a second for each unit."""
    times = {
        name: pa.array(table[name].to_numpy() * 1_000_000).cast(pa.timestamp("us", "UTC")) for name in ("at", "came")
    }
    return pa.table({**times, "by": table["by"]})


def _fleet(rows: int = 3_000, seed: int = 18) -> pa.Table:
    """Five sources a row a second; the last is slow by up to 30 s, and is cut off now and then."""
    rng = np.random.default_rng(seed)
    came = np.arange(rows)
    by = rng.integers(0, 5, rows)
    late = np.where(by == 4, rng.integers(0, 30, rows), rng.integers(0, 3, rows))
    return pa.table({"at": came - late, "came": came, "by": np.array(list("abcde"))[by]})


# ---- what is measured ------------------------------------------------------------------------------------------------


@given(_ROWS, st.integers(0, 20))
def test_skews_are_those_of_the_definition(rows: list[tuple[int, Any, int]], after: int) -> None:
    """Of each row against all that arrived before it, or so long before it, one by one."""
    sample = Sample.read(_table(rows), **_NAMES)
    fit = _Fit(sample, as_seen=True)
    everything = list(zip(sample.arrived.tolist(), sample.codes.tolist(), sample.times.tolist(), strict=True))
    for row, (came, by, at) in enumerate(everything):
        own = [time for earlier, source, time in everything if earlier < came and source == by]
        assert fit.behind_own()[row] == max((time - at for time in own), default=BEGINNING)
        others = [time for earlier, _, time in everything if earlier < came - after]
        assert fit.behind_all(after)[row] == max((time - at for time in others), default=BEGINNING)


@given(_ROWS)
def test_the_silence_before_a_row_is_the_longest_since_one_that_is_not_older(rows: list[tuple[int, Any, int]]) -> None:
    """Whoever calls that silence the end of all that is older loses this row."""
    sample = Sample.read(_table(rows), **_NAMES)
    found = _Fit(sample, as_seen=True).silences()
    came, at = sample.arrived.tolist(), sample.times.tolist()
    for row in range(len(at)):
        first = next((one for one in range(row) if at[one] >= at[row]), row)
        silences = [after - before for before, after in zip(came[first:row], came[first + 1 : row + 1], strict=True)]
        assert found[row] == max(silences, default=0)


# ---- what is guaranteed ----------------------------------------------------------------------------------------------


@given(_ROWS, st.booleans())
@settings(max_examples=40)
def test_no_row_that_bounds_were_fitted_to_is_late(rows: list[tuple[int, Any, int]], calendar: bool) -> None:
    """At no loss, of all sources and of each, whatever the sample; and its text gives the same bounds."""
    table = _table(rows)
    fitted = sw.fit_bounds(_seconds(table) if calendar else table, **_NAMES, first=1.0)
    assert fitted.fitted.rows == len(rows)
    assert (fitted.fitted.late, fitted.fitted.late_by_origin) == (0, 0)
    assert fitted.curve[0].outcome.rows == len(rows)
    assert eval(fitted.text, {"sw": sw}) == fitted.bounds  # noqa: S307 - it is ours, and made to be pasted
    assert fitted.on_the_rest.rows == 0


def test_a_slow_source_has_a_bound_of_its_own_and_holds_up_only_its_own_rows() -> None:
    """By origin the others wait as long as they need; in one order all wait for it."""
    fitted = sw.fit_bounds(_fleet(), **_NAMES)
    assert [point.beyond for point in fitted.curve] == list(BEYOND)
    assert "'e': 29" in fitted.text
    assert fitted.fitted.late == 0
    assert fitted.fitted.mean_delay_by_origin < fitted.fitted.mean_delay / 2
    assert fitted.on_the_rest.rows == 900
    assert fitted.on_the_rest.loss < 0.01


def test_what_may_be_late_buys_a_shorter_delay_and_is_kept_on_the_sample() -> None:
    """The point of the curve with the least delay that loses no more than allowed."""
    none, some = (sw.fit_bounds(_fleet(), **_NAMES, loss=loss) for loss in (0.0, 0.05))
    assert none.fitted.loss == 0
    assert 0 < some.fitted.loss <= 0.05
    assert some.fitted.mean_delay < none.fitted.mean_delay
    assert some.on_the_rest.late > 0


def test_what_was_not_seen_shows_on_the_rest() -> None:
    """A sample of calm days says nothing of the storm: the rest says so."""
    calm = _fleet()
    at = calm["at"].to_numpy().copy()
    at[2500:2600] -= 500
    fitted = sw.fit_bounds(calm.set_column(0, "at", pa.array(at)), **_NAMES)
    assert fitted.fitted.late == 0
    assert fitted.on_the_rest.late >= 90


def test_sources_with_few_rows_are_put_together() -> None:
    """They have no name in the text, and are the model for those that come later."""
    table = _fleet()
    by = table["by"].to_pylist()
    by[10:30] = [f"rare {number}" for number in range(20)]
    fitted = sw.fit_bounds(table.set_column(2, "by", pa.array(by)), **_NAMES)
    assert "rare" not in fitted.text
    assert "..." in fitted.text
    assert fitted.fitted.late == 0


def test_a_source_that_comes_late_is_waited_for_from_the_beginning_if_it_would_be_lost() -> None:
    """Its first row is older than all that had been given out."""
    rows = [(tick, "a", tick) for tick in range(100)] + [(100 + tick, "b", 40 + tick) for tick in range(100)]
    fitted = sw.fit_bounds(_table(rows), **_NAMES, first=1.0)
    assert fitted.fitted.late == 0
    assert not fitted.bounds.as_seen


def test_a_sample_is_a_table_or_a_path_and_the_words_say_both_parts(tmp_path: Path) -> None:
    """The same of both; repr is one line, str has the bounds and the curve."""
    table = _seconds(_fleet(600))
    pq.write_table(table, tmp_path / "sample.parquet")
    of_table, of_path = sw.fit_bounds(table, **_NAMES), sw.fit_bounds(tmp_path / "sample.parquet", **_NAMES)
    assert of_table == of_path
    assert repr(of_table).startswith("<FittedBounds: ")
    assert "\n" not in repr(of_table)
    assert str(of_table).startswith(of_table.text)
    assert len(str(of_table).splitlines()) == len(of_table.text.splitlines()) + 1 + 1 + len(BEYOND) + 2


def test_rows_may_stand_in_any_order_and_sources_be_null_or_in_a_dictionary() -> None:
    """Arrival decides; rows without a time are left out."""
    table = _fleet(600)
    turned = table.take(np.random.default_rng(1).permutation(600))
    by = pa.chunked_array([turned["by"].combine_chunks().dictionary_encode()])
    assert sw.fit_bounds(turned.set_column(2, "by", by), **_NAMES) == sw.fit_bounds(turned, **_NAMES)
    with_null = pa.concat_tables([table, pa.table({"at": pa.array([None], pa.int64()), "came": [700], "by": [None]})],
                                 promote_options="permissive")  # fmt: skip
    assert sw.fit_bounds(with_null, **_NAMES, first=1.0) == sw.fit_bounds(table, **_NAMES, first=1.0)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_sample_that_cannot_be_read_is_refused() -> None:
    """Each with what to do."""
    table = _fleet(60)
    with pytest.raises(SchemaMismatch, match="lacks a column"):
        sw.fit_bounds(table, time="at", arrived="landed", origin="by")
    with pytest.raises(SchemaMismatch, match="no times"):
        sw.fit_bounds(table, time="by", arrived="came", origin="by")
    with pytest.raises(SchemaMismatch, match="when they arrived"):
        sw.fit_bounds(table.set_column(1, "came", pa.nulls(60, pa.int64())), **_NAMES)
    with pytest.raises(PlanError, match="no rows"):
        sw.fit_bounds(table.slice(0, 0), **_NAMES)
    with pytest.raises(PlanError, match="no such sample"):
        sw.fit_bounds("nowhere.parquet", **_NAMES)
    with pytest.raises(PlanError, match="table or a path"):
        sw.fit_bounds([1, 2], **_NAMES)
    with pytest.raises(PlanError, match="too far apart"):
        sw.fit_bounds(_table([(0, "a", 2**62), (1, "a", -(2**62))]), **_NAMES)


@pytest.mark.parametrize("wrong", [{"loss": 1.0}, {"loss": -0.1}, {"first": 0.0}, {"first": 1.5}])
def test_parts_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    """Percent are written as parts of one."""
    with pytest.raises(PlanError, match="no parts"):
        sw.fit_bounds(_fleet(60), **_NAMES, **wrong)
