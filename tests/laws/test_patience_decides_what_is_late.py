"""A row is late when it comes after a punctuation that guaranteed its time was over, and never otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.elements import Insert
from slackwater.testing.oracles.punctuate import SplitByLateness, punctuate_oracle
from slackwater.testing.pipelines import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.elements import Element

_TIMES = st.lists(st.integers(0, 60), max_size=40)
_PATIENCES = st.sets(st.integers(0, 50), min_size=1, max_size=4).map(sorted)
_CADENCES = st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(3), sw.Every.time(20), sw.Every.batch()])


def _stream(times: list[int]) -> sw.DisorderedStream:
    columns = {"at": times, "k": ["ab"[at % 2] for at in times], "v": list(range(len(times)))}
    return sw.stream(pa.table(columns, schema=ROWS), time="at")


def _split(times: list[int], patiences: list[int], every: sw.Every) -> SplitByLateness:
    rows = [Insert((number,), at, at + 1) for number, at in enumerate(times)]
    return punctuate_oracle([rows], patiences, every.resolved(calendar=False), sw.Late.divert(), points=True)


def _numbers(elements: Iterable[Element]) -> list[int]:
    payloads = (element.payload for element in elements if isinstance(element, Insert))
    return [payload[0] for payload in payloads if isinstance(payload, tuple)]


@given(times=_TIMES, patiences=_PATIENCES, every=_CADENCES)
def test_stream_i_has_exactly_the_events_that_are_no_later_than_patience_i(
    times: list[int], patiences: list[int], every: sw.Every
) -> None:
    """As an oracle splits them, row by row; the late output has the others, with the bound they missed."""
    split = _split(times, patiences, every)
    results = _stream(times).in_bands(*patiences, every=every).run()
    for band, result in enumerate(results):
        expected = [number for one in split.bands[: band + 1] for number in _numbers(one)]
        assert result.table.column("v").to_pylist() == sorted(expected, key=lambda number: (times[number], number))
    late = [(row["v"], row["late_bound"], row["late_by"]) for row in results[0].late.to_pylist()]
    assert late == [row.payload for row in split.diverted]


@given(times=_TIMES, patiences=_PATIENCES)
def test_lateness_is_checked_row_by_row_if_every_row_is_an_instant(times: list[int], patiences: list[int]) -> None:
    """Then stream i has the rows whose lateness is at most patience i: no oracle needs to remember more."""
    lateness = [max(times[: number + 1]) - at for number, at in enumerate(times)]
    for patience, result in zip(
        patiences, _stream(times).in_bands(*patiences, every=sw.Every.rows(1)).run(), strict=True
    ):
        on_time = {number for number, late_by in enumerate(lateness) if late_by <= patience}
        assert set(result.table.column("v").to_pylist()) == on_time


@given(times=_TIMES, patiences=_PATIENCES, every=_CADENCES, size=st.integers(1, 15))
def test_the_last_band_is_the_batch_answer_over_all_events_that_are_not_late(
    times: list[int], patiences: list[int], every: sw.Every, size: int
) -> None:
    """Whatever the early bands emitted: the same windows, keys and sums as over a sorted table of these events."""
    what: dict[str, Any] = {"n": sw.count(), "total": sw.sum("v"), "top": sw.top_k("v", 2)}
    final = _stream(times).tumbling(size).group_by("k").in_bands(*patiences, every=every, **what).run()[-1]
    late = set(final.late.column("v").to_pylist())
    kept = [number for number in range(len(times)) if number not in late]
    columns = {"at": [times[n] for n in kept], "k": ["ab"[times[n] % 2] for n in kept], "v": kept}
    batch = sw.stream(pa.table(columns, schema=ROWS), time="at").sort().tumbling(size).group_by("k").aggregate(**what)
    answers = final.table.drop_columns(["band"])
    assert sorted(map(repr, answers.to_pylist())) == sorted(map(repr, batch.run().table.to_pylist()))


@given(times=_TIMES, patience=st.integers(0, 30), every=_CADENCES)
def test_more_patience_never_makes_more_rows_late(times: list[int], patience: int, every: sw.Every) -> None:
    """Every row that is on time stays on time."""
    short, long = (_stream(times).sort(wait, every=every).run().table for wait in (patience, patience + 5))
    assert set(short.column("v").to_pylist()) <= set(long.column("v").to_pylist())
