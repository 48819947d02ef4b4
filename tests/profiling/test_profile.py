"""A profile says what a brute-force look at every row says, and what a sort with its patience does."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch
from slackwater.profiling.measures import PatienceOutcome, Spread, beyond
from slackwater.profiling.recording import Columns
from slackwater.progress.instants import BEGINNING, FOREVER, format_duration, rounded_up
from slackwater.sources.stream import feed_of

if TYPE_CHECKING:
    from pathlib import Path

_TIMES = st.one_of(st.integers(0, 30), st.sampled_from([BEGINNING + 1, -5, FOREVER - 1, FOREVER - 2]))
_ROWS = st.lists(
    st.tuples(_TIMES, st.integers(0, 40), st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=25
)


def _table(rows: list[tuple[int, int, str, int]]) -> pa.Table:
    """Rows in any order of arrival."""
    at, came, by, what = zip(*rows, strict=True)
    columns = {"at": pa.array(at, pa.int64()), "came": pa.array(came, pa.int64()), "by": by, "what": what}
    return pa.table(columns)


def _lateness(times: list[int]) -> list[int]:
    return [max(times[: place + 1]) - time for place, time in enumerate(times)]


@given(_ROWS, st.sampled_from([0, 1, 4, 30, FOREVER]))
def test_a_patience_does_to_rows_what_following_each_of_them_says(
    rows: list[tuple[int, int, str, int]], patience: int
) -> None:
    """Late are rows behind the newest before them by more; out goes a row when the newest is newer by more."""
    rows = sorted(rows, key=lambda row: row[1])
    recording = Columns("at", "came", None).read(feed_of(_table(rows)), contents=False, on_rows=None)
    times, arrived = [row[0] for row in rows], [row[1] for row in rows]
    late, waits, held, most, waiting = 0, [], [], 0, 0
    newest = BEGINNING
    for time, now in zip(times, arrived, strict=True):
        late += newest - time > patience
        held += [] if newest - time > patience else [(time, now)]
        newest = max(newest, time)
        most = max(most, len(held))
        waits += [now - came for at, came in held if newest - at > patience]
        held = [(at, came) for at, came in held if newest - at <= patience]
    waiting = len(held)
    found = PatienceOutcome.of(recording, patience)
    assert (found.late, found.most_held, found.waiting) == (late, most, waiting)
    assert found.median_delay == (sorted(waits)[len(waits) - 1 - len(waits) // 2] if waits else None)


@given(_ROWS, st.sampled_from([0, 3, 10]))
def test_as_many_rows_are_late_as_a_sort_with_this_patience_says(
    rows: list[tuple[int, int, str, int]], patience: int
) -> None:
    """What is advised is what users get: a sort that punctuates at every row."""
    table = _table(rows)
    recording = Columns("at", None, None).read(feed_of(table), contents=False, on_rows=None)
    ran = sw.stream(table, time="at").sort(patience=patience, every=sw.Every.rows(1)).run()
    assert PatienceOutcome.of(recording, patience).late == ran.late.num_rows


@given(_ROWS)
@example([(5, 1, "a", 0), (5, 1, "a", 0), (5, 2, "b", 0)])
def test_measures_are_those_of_a_brute_force_look(rows: list[tuple[int, int, str, int]]) -> None:
    """Lateness of all and within sources, delays, silences, copies, and rows from the future."""
    found = sw.profile(_table(rows), time="at", arrived="came", origin="by", first=1)
    rows = sorted(rows, key=lambda row: row[1])
    by: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
    for row in rows:
        by[row[2]].append(row)
    own = [late for its in by.values() for late in _lateness([row[0] for row in its])]
    late = _lateness([row[0] for row in rows])
    assert dict(found.lateness.at) == {
        share: sorted(late)[-1 - beyond(len(late), share)] for share, _ in found.lateness.at
    }
    assert found.within is not None
    assert found.within.greatest == max(own)
    wrong = {one.name for one in found.wrong_clocks}
    sound = _lateness([at for at, _, who, _ in rows if who not in wrong])
    assert [complete for _, complete in found.curve] == [
        sum(one <= patience for one in sound) / len(sound) for patience, _ in found.curve
    ]
    assert found.curve[-1] == (max(sound), 1.0)
    sources = {str(one.name): one for one in found.sources}
    kinds: dict[tuple[int, int], set[str]] = defaultdict(set)
    for at, _, who, what in rows:
        kinds[at, what].add(who)
    assert found.copies is not None
    assert found.copies.repeats == len(rows) - len(kinds)
    assert found.copies.shared == sum(len(kinds[at, what]) > 1 for at, _, _, what in rows)
    for name, its in by.items():
        one = sources[name]
        assert (one.rows, one.within) == (len(its), max(_lateness([row[0] for row in its])))
        assert one.silence == max((b[1] - a[1] for a, b in pairwise(its)), default=0)
        assert one.shared == sum(len(kinds[at, what]) > 1 for at, _, _, what in its)
    assert found.future is not None
    future = [min(at - came, FOREVER) for at, came, _, _ in rows if at > came]
    assert (found.future.rows, found.future.greatest) == (len(future), max(future, default=0))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_no_more_rows_are_beyond_a_quantile_than_it_says(lengths: list[int], share: float) -> None:
    """And with any lesser length of a row more would be."""
    rank = sorted(lengths)[-1 - beyond(len(lengths), share)]
    assert sum(one > rank for one in lengths) <= round(len(lengths) * (1 - share), 9)
    assert Spread.of(np.array(lengths)).greatest == max(lengths)
    if share < 1 and share in dict(Spread.of(np.array(lengths)).at):
        assert Spread.of(np.array(lengths))[share] == rank


@given(st.integers(0, FOREVER))
def test_a_length_is_rounded_up_by_little_and_never_down(length: int) -> None:
    """Two units at most, and less than a tenth more."""
    rounded = rounded_up(length)
    assert length <= rounded <= length + max(length // 5, 1)
    assert sum(letter.isalpha() for letter in format_duration(rounded).replace("ms", "x").replace("us", "x")) <= 2


def test_a_patience_is_complete_in_the_worst_stretch_and_tried_on_rows_that_chose_nothing() -> None:
    """A storm in one stretch decides; what was chosen before it is counted on the rest, and falls short there."""
    calm, storm = np.arange(14_000), np.arange(14_000, 20_000)
    times = np.concatenate([calm - calm % 2 * 3, storm - storm % 2 * 500])
    found = sw.profile(pa.table({"at": times}), time="at", copies=False)
    whole = {one.share: one for one in found.patiences}
    held = whole[1.0].held_out
    assert held is not None
    lateness = np.maximum.accumulate(times) - times
    assert held.patience == lateness[:14_000].max()
    assert held.late == np.count_nonzero(lateness[14_000:] > held.patience)
    assert whole[0.99].patience == lateness[14_000:].max()
    assert "missed by" in str(found)


def test_a_clock_that_is_wrong_decides_nothing_for_the_others() -> None:
    """A source that is years behind all others is named and left out; its rows would ask for a patience of years."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        {
            "at": start + timedelta(seconds=n - (n % 4 == 3) * 10**8),
            "came": start + timedelta(seconds=n + 1),
            "by": "abcd"[n % 4],
        }
        for n in range(400)
    ]
    found = sw.profile(rows, time="at", arrived="came", origin="by")
    (clock,) = found.wrong_clocks
    assert (clock.name, clock.rows) == ("d", 100)
    assert clock.behind == 10**8 * 1_000_000
    assert [one.patience for one in found.patiences] == [0, 0, 0, 0]
    assert "wrong clocks      d (165w3d behind): 100 rows, left out below" in str(found)


def test_a_few_rows_from_the_far_future_are_guarded_against() -> None:
    """What lies further ahead than nearly all, by far, is to move nothing."""
    rows = [{"at": n + (n == 700) * 10_000, "came": n + 2, "by": "ab"[n % 2]} for n in range(2_000)]
    found = sw.profile(rows, time="at", arrived="came", origin="by")
    assert found.ahead is not None
    assert (found.ahead.ahead, found.ahead.diverted) == (1, 1)
    assert found.future is not None
    assert found.future.greatest == 9_998
    quiet = sw.profile(rows[:700], time="at", arrived="came", origin="by")
    assert quiet.ahead is None


def test_all_that_is_found_is_json_and_bounds_are_python() -> None:
    """What is stored can be read by anybody, and what is advised can be pasted."""
    rows = [{"at": n - n % 3, "came": n + 1, "by": "ab"[n % 2]} for n in range(300)]
    found = sw.profile(rows, time="at", arrived="came", origin="by")
    assert found.bounds is not None
    again = json.loads(json.dumps(found.to_dict()))
    assert again["rows"] == 300
    assert eval(again["bounds"]["python"], {"sw": sw}) == found.bounds.bounds  # noqa: S307 - our own text
    for line in str(found).splitlines():
        if ".sort(patience=" in line:
            (call,) = [part for part in line.split("  ") if part.startswith(".sort")]
            eval(f"stream{call}", {"stream": sw.stream(rows, time="at")})  # noqa: S307 - our own text
    assert repr(found) in found._repr_html_().replace("&lt;", "<").replace("&gt;", ">")


@pytest.mark.parametrize("kind", ["table", "pandas", "polars", "rows", "parquet", "csv", "jsonl", "folder"])
def test_whatever_rows_come_in_is_profiled(kind: str, tmp_path: Path) -> None:
    """Frames, mappings, files and folders of them."""
    table = pa.table({"at": [1, 5, 3, 8], "k": ["a", "b", "c", "d"]})
    pq.write_table(table, tmp_path / "a.parquet")
    pa.csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, table.to_pylist())))
    (tmp_path / "folder").mkdir()
    for number, part in enumerate((table.slice(0, 2), table.slice(2))):
        pq.write_table(part, tmp_path / "folder" / f"{number}.parquet")
    given: dict[str, Any] = {
        "table": table,
        "pandas": pd.DataFrame(table.to_pydict()),
        "polars": pl.from_arrow(table),
        "rows": table.to_pylist(),
        "folder": tmp_path / "folder",
    }
    counted: list[int] = []
    found = sw.profile(given.get(kind, str(tmp_path / f"a.{kind}")), time="at", on_rows=counted.append)
    assert (found.rows, found.disorder.late, found.lateness.greatest, sum(counted)) == (4, 1, 2, 4)


def test_rows_without_a_time_are_counted_and_left_out() -> None:
    """They have come, and are in no measure."""
    found = sw.profile([{"at": 3}, {"at": None}, {"at": 1}], time="at")
    assert (found.rows, found.untimed, found.lateness.greatest) == (3, 1, 2)
    assert "without a time    1 rows, left out below" in str(found)


@pytest.mark.parametrize(
    ("rows", "options", "headline"),
    [
        ([{"at": 1}], {"time": "when"}, "profile names a column that is not there"),
        ([{"at": "1"}], {"time": "at"}, "profile cannot use the type of a column"),
        ([{"at": 1, "came": "x"}], {"time": "at", "arrived": "came"}, "profile cannot use the type of a column"),
        ([{"at": None, "k": 1}], {"time": "k", "arrived": "at"}, "profile cannot use the type of a column"),
        ([{"at": 1, "came": None}, {"at": 1, "came": 1}], {"time": "at", "arrived": "came"}, "some rows do not say"),
        (
            [{"at": 1, "came": -(2**62)}, {"at": 1, "came": 2**62}],
            {"time": "at", "arrived": "came"},
            "arrivals are too far",
        ),
        ([{"at": 1}], {"time": "at", "first": 0}, "this is no part of a recording"),
        (pa.table({"at": pa.array([], pa.int64())}), {"time": "at"}, "there is no row with a time to profile"),
        (sw.PushSource({"at": pa.int64()}), {"time": "at"}, "a profile reads rows that are there"),
    ],
)
def test_what_cannot_be_profiled_is_refused(rows: Any, options: dict[str, Any], headline: str) -> None:
    """Each in one sentence."""
    with pytest.raises((PlanError, SchemaMismatch), match=headline):
        sw.profile(rows, **options)
