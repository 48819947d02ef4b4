"""Bands that nobody reads are left out, and their rows are late for those that are read."""

from __future__ import annotations

import pyarrow as pa

import slackwater as sw

_BANDS = sw.stream(pa.table({"at": [10, 5, 1, 11]}), time="at").in_bands(1, 6, 20)


def _late(result: sw.Result) -> list[int]:
    times: list[int] = result.late.column("at").to_pylist()
    return times


def test_a_stream_alone_waits_as_long_as_its_own_patience() -> None:
    """What comes later than that is late for it: no row goes to a band from which nobody takes it."""
    found = [(stream.run().table.column("at").to_pylist(), _late(stream.run())) for stream in _BANDS]
    assert found == [([10, 11], [5, 1]), ([5, 10, 11], [1]), ([1, 5, 10, 11], [])]


def test_streams_together_take_for_late_what_is_too_late_for_all() -> None:
    """Every band is read then."""
    assert [_late(result) for result in _BANDS.run()] == [[], [], []]
    assert [_late(result) for result in sw.run_together(_BANDS[0], _BANDS[1])] == [[1], [1]]


def test_late_rows_alone_are_those_of_the_last_band() -> None:
    """As they were written; nothing else is read."""
    late = sw.stream(pa.table({"at": [10, 5, 1, 11]}), time="at").in_bands(1, 6)[0].late
    assert late.run().table.column("at").to_pylist() == [1]


def test_explain_shows_the_bands_that_are_read() -> None:
    """The plan as it will run."""
    assert "patience=1 every" in _BANDS[0].explain()
    assert "patience=1, 6 every" in _BANDS[1].explain()
    assert "patience=1, 6, 20 every" in _BANDS.explain()
