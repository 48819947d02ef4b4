"""Bounds that all rows keep but a share, learnt while rows come: everything is found anew at each tick, from all rows.

Each row shows how far behind its own source it is, how far behind the furthest of all a while ago, and how far behind
the clock. Of each of these, the estimate is what no more than a part of the rows exceeds, of all sources, or less where
a source that has sent enough shows less; rows weigh half as much after every so many. A patience counts besides, and
alone while more rows were late than asked for: of all so far, or of the recent ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2
from slackwater.testing.oracles.heartbeats.system import Skew, System

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Source, Tick, Time


@dataclass(frozen=True)
class Shares:
    """What is chosen."""

    loss: float
    patience: Time
    waits: tuple[Tick, ...] = (0,)
    clock: bool = True
    level: float = 0.5
    """The part of the loss that each kind of estimate may exceed."""

    memory: int = 20
    """After how many rows all that came weigh half."""

    enough: int = 1
    """How many rows a source must have sent to have estimates of its own from the next one on."""


@dataclass
class Learnt:
    """What comes of it, tick by tick."""

    beats: list[list[Time]] = field(default_factory=list)
    """The heartbeat of each source, at the end of each tick."""

    taken_back: list[bool] = field(default_factory=list)
    """Whether the patience counts alone."""

    late: list[int] = field(default_factory=list)
    """The numbers of the rows that came at or behind the least heartbeat, and not because of the patience."""

    counted: list[int] = field(default_factory=list)
    """The numbers of the rows that the patience did not lose."""


def by_shares(arrivals: Sequence[Arrival], n: int, until: Tick, chosen: Shares) -> Learnt:
    """Heartbeats of n sources at every tick, and which rows were late by estimates.

    >>> rows = [(tick, 0, tick) for tick in range(1, 9)]
    >>> found = by_shares(rows, 1, 8, Shares(loss=0.5, patience=5))
    >>> [beat for (beat,) in found.beats[1:]], found.late
    ([-5, -4, -3, -2, -1, 0, 7, 8], [])
    """
    found = Learnt()
    patient = System((0,) * n, {(i, j): (Skew(0, chosen.patience + 1),) for i in range(n) for j in range(n)})
    by_patience = figure_2(patient, arrivals, until)
    for now in range(until + 1):
        for number, (tick, _, time) in enumerate(arrivals):
            if tick == now and (now == 0 or time > min(by_patience[now - 1])):
                found.counted.append(number)
                if now and time <= min(found.beats[now - 1]):
                    found.late.append(number)
        found.taken_back.append(_broken(found, chosen))
        learnt = [_by_estimates(arrivals, found.counted, j, now, chosen) for j in range(n)]
        newest = _newest(arrivals, None, now)
        if newest is None or newest <= arrivals[found.counted[0]][2] + chosen.patience:
            learnt = [[] for _ in range(n)]  # rows that are as far behind as the patience cannot have come yet
        values = [
            [
                by_patience[now][j],
                *([] if found.taken_back[now] else learnt[j]),
                *(found.beats[now - 1][j : j + 1] if now else []),
            ]
            for j in range(n)
        ]
        found.beats.append([max(of_source) for of_source in values])
    return found


def _broken(found: Learnt, chosen: Shares) -> bool:
    """Whether more were late than asked for: of all, or of all as they weigh now."""
    weights = _weights(len(found.counted), chosen.memory)
    recent = sum(weights)
    recent_late = sum(w for number, w in zip(found.counted, weights, strict=True) if number in found.late)
    return len(found.late) > chosen.loss * len(found.counted) or recent_late > chosen.loss * recent


def _weights(rows: int, memory: int) -> list[float]:
    """What each of so many rows weighs: half for each time that as many as the memory were complete after it."""
    return [0.5 ** (rows // memory - number // memory) for number in range(rows)]


def _by_estimates(
    arrivals: Sequence[Arrival], counted: Sequence[int], j: Source, now: Tick, chosen: Shares
) -> list[Time]:
    """How far a source is complete by each kind of estimate, as it is now."""
    of_own = [number for number in counted if arrivals[number][1] == j][chosen.enough :]
    kinds: list[tuple[str, Tick]] = [("own", 0), *(("all", wait) for wait in chosen.waits)]
    kinds += [("clock", 0)] if chosen.clock else []
    found = []
    for kind, wait in kinds:
        kept = [_quantile(arrivals, rows, kind, wait, chosen) for rows in (counted, of_own)]
        reach = min((length for length in kept if length is not None), default=None)
        if reach is None:
            continue
        if kind == "clock":
            found.append(now - reach)
        else:
            newest = _newest(arrivals, j if kind == "own" else None, now - wait)
            found += [] if newest is None else [newest - reach]
    return found


def _newest(arrivals: Sequence[Arrival], source: Source | None, until: Tick) -> Time | None:
    """The greatest time that came up to a tick, of a source or of all."""
    times = [time for tick, by, time in arrivals if tick <= until and source in {None, by}]
    return max(times, default=None)


def _shown(arrivals: Sequence[Arrival], number: int, kind: str, wait: Tick) -> Time | None:
    """What a row shows; None if nothing came before that it could be compared with."""
    tick, source, time = arrivals[number]
    if kind == "clock":
        return max(tick - time, 0)
    newest = _newest(arrivals, source if kind == "own" else None, tick - 1 - wait)
    return None if newest is None else max(newest - time + 1, 0)


def _quantile(arrivals: Sequence[Arrival], rows: Sequence[int], kind: str, wait: Tick, chosen: Shares) -> Time | None:
    """The least length that no more than a part of the rows exceeds, one more counted among those that do."""
    weighed = zip(rows, _weights(len(rows), chosen.memory), strict=True)
    shown = [(_shown(arrivals, number, kind, wait), weight) for number, weight in weighed]
    lengths = [(_rounded_up(length), weight) for length, weight in shown if length is not None]
    allowed = chosen.level * chosen.loss * (sum(weight for _, weight in lengths) + 1)
    for candidate in sorted({0, *(length for length, _ in lengths)}):
        if 1 + sum(weight for length, weight in lengths if length > candidate) <= allowed:
            return candidate
    return None


def _rounded_up(length: Time) -> Time:
    """The greatest length with the same six leading binary digits.

    >>> [_rounded_up(length) for length in (0, 63, 64, 66, 130)]
    [0, 63, 65, 67, 131]
    """
    digits = max(length.bit_length() - 6, 0)
    return (((length >> digits) + 1) << digits) - 1
