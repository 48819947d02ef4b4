"""A profile that Spark has measured agrees with the exact one of the same rows, within what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.profiling.advice import readable
from slackwater.profiling.log_buckets import RESOLUTION

if TYPE_CHECKING:
    from slackwater.profiling.measures import Spread
    from slackwater.profiling.profile import StreamProfile


def assert_agrees(found: StreamProfile, exact: StreamProfile, *, slices: int) -> None:
    """Equal where it is exact; else not too short, and too long by a 128th at most."""
    for name in (
        *("rows", "untimed", "oldest", "newest", "calendar", "clock_calendar", "sound_rows"),
        *("wrong_clocks", "copies", "future", "bounds"),
    ):
        assert _shown(getattr(found, name)) == _shown(getattr(exact, name)), name
    _assert_disorder(found, exact, slices)
    for name in ("lateness", "within", "delay"):
        _assert_spread(getattr(found, name), getattr(exact, name))
    for name in ("sources", "heat"):
        mine, theirs = ({one.name: one for one in getattr(of, name)} for of in (found, exact))
        assert mine == theirs, name
    skews, expected = ({(one.ahead, one.behind): one.by for one in of.skews} for of in (found, exact))
    assert skews == expected
    assert [replace(one, median=0) for one in found.spans] == [replace(one, median=0) for one in exact.spans]
    for one, other in zip(found.spans, exact.spans, strict=True):
        _assert_length(one.median, other.median)
    _assert_advice(found, exact)


def _assert_disorder(found: StreamProfile, exact: StreamProfile, slices: int) -> None:
    mine, theirs = found.disorder, exact.disorder
    assert (mine.events, mine.late, mine.runs) == (theirs.events, theirs.late, theirs.runs)
    assert mine.at_least == (slices > 1)
    for name in ("inversions", "distance", "interleaved"):
        assert getattr(mine, name) <= getattr(theirs, name)
        assert mine.at_least or getattr(mine, name) == getattr(theirs, name)
    assert mine.lateness.keys() == theirs.lateness.keys()
    for share, length in mine.lateness.items():
        _assert_length(length, theirs.lateness[share])


def _assert_advice(found: StreamProfile, exact: StreamProfile) -> None:
    curve = dict(exact.curve)
    assert found.curve[-1] == exact.curve[-1]
    assert all(curve.get(patience, complete) == complete for patience, complete in found.curve)
    assert {one.patience for one in found.trade_offs} >= {one.patience for one in found.patiences}
    for mine, theirs in zip(found.patiences, exact.patiences, strict=True):
        assert mine.share == theirs.share
        longest = int(theirs.patience * (1 + RESOLUTION))
        assert theirs.patience <= mine.patience <= readable(longest, calendar=exact.calendar)
        assert mine.outcome.complete >= 0
        assert (mine.held_out is None) == (theirs.held_out is None)
        if mine.held_out and theirs.held_out:
            assert mine.held_out.rows == theirs.held_out.rows
            assert mine.held_out.patience >= theirs.held_out.patience
    assert (found.ahead is None) <= (exact.ahead is None)


def _assert_spread(found: Spread | None, exact: Spread | None) -> None:
    assert (found is None) == (exact is None)
    if found is not None and exact is not None:
        assert found.greatest == exact.greatest
        for share, length in found.at:
            _assert_length(length, exact[share])


def _assert_length(found: int, exact: int) -> None:
    assert exact <= found <= exact + abs(exact) * RESOLUTION


def _shown(value: object) -> object:
    return str(value) if value.__class__.__name__ == "FittedBounds" else value
