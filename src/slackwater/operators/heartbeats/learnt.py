"""The columns that estimates are made of: what each source showed so far, and what declared bounds alone guarantee.

What stands in which place is named in kernels/progress/learnt_tables.py.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.kernels.progress import learnt_tables as kernel
from slackwater.kernels.progress.decayed_histogram import BUCKETS
from slackwater.kernels.progress.estimates import apply_learnt
from slackwater.kernels.progress.heartbeat_tables import (
    BY_NOTHING,
    DELAY,
    HEARTBEAT,
    NONE,
    SENDER,
    SET_BY,
    UNSEEN,
)
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.operators.heartbeats.tables import Tables
    from slackwater.policies.bound_rules import Rules
    from slackwater.progress.instants import Duration

    Column = NDArray[np.int64]
    Floats = NDArray[np.float64]

MOST_OWN: Final = 64
"""So many sources have histograms of their own at most: those that were first to send enough."""

_MEMORY: Final = 20
"""After so many rows for each that may be late counts are halved."""

_LEVEL: Final = 0.5
"""The part of the share that each kind of bound may lose: of several that all count, each loses other rows."""

_UNITS_OF_THE_START: Final = 16
"""The length that estimates come down from is less than 2 ** 16 units of a histogram; these reach 32 times as far."""

_DECLARED_COLUMNS: Final = (
    (kernel.DECLARED_HEARTBEAT, HEARTBEAT),
    (kernel.DECLARED_SET_BY, SET_BY),
    (kernel.DECLARED_SENDER, SENDER),
    (kernel.DECLARED_DELAY, DELAY),
)


@dataclass(frozen=True, slots=True)
class LearntState:
    """All that estimates remember."""

    numbers: Column
    floats: Floats
    before: Column
    aside: Column
    cells: Floats
    weights: Floats
    totals: Floats
    slots: Column


class Learnt:
    """The tables of estimates, beside those of a generator."""

    __slots__ = ("aside", "before", "cells", "floats", "numbers", "slots", "totals", "weights")

    def __init__(self, rules: Rules, grid: Duration, room: int) -> None:
        chosen = rules.estimation
        assert chosen is not None
        declared = len(rules.declared)
        kinds = len(rules.rules) - declared + chosen.clock
        by_shares = chosen.loss is not None
        loss = 1.0 if chosen.loss is None else chosen.loss
        self.numbers = np.zeros(kernel.NUMBERS, np.int64)
        self.numbers[kernel.DECLARED] = declared
        self.numbers[kernel.CLOCK] = kinds - 1 if chosen.clock else NONE
        self.numbers[kernel.BY_SHARES] = by_shares
        start = rules.comes_down_from or 0
        self.numbers[[kernel.START, kernel.SHIFT]] = start, max(start.bit_length() - _UNITS_OF_THE_START, 0)
        self.numbers[kernel.MEMORY] = ceil(_MEMORY / loss)
        self.numbers[kernel.ENOUGH] = ceil(1 / loss)
        self.numbers[[kernel.SLOTS, kernel.BY_TIME, kernel.ADAPTS]] = 1, chosen.by_time, chosen.adapts
        self.numbers[[kernel.DECLARED_OVERALL, kernel.DECLARED_BINDING]] = BEGINNING, NONE
        self.floats = np.zeros(kernel.FLOATS)
        window = chosen.window / grid if chosen.by_time else chosen.window
        self.floats[[kernel.LOSS, kernel.LEVEL, kernel.ALPHA, kernel.WINDOW]] = (
            loss,
            _LEVEL * loss,
            chosen.alpha,
            window,
        )
        self.before = np.full(kinds, BEGINNING)
        slots = 1 + MOST_OWN if by_shares else 1
        self.weights = np.zeros((slots, kinds, BUCKETS) if by_shares else (1, 1, 1))
        self.totals = np.zeros((slots, 2 * kinds))
        self.slots = np.full((slots, kernel.FIRST_ESTIMATE + 2 * kinds), NONE)
        self.slots[:, : kernel.FIRST_ESTIMATE] = 0
        self.aside, self.cells = _room_for(room, kinds)
        self.cells[:, kernel.ESTIMATE, UNSEEN] = chosen.start
        self.cells[:, kernel.LENGTH_OF_WINDOW, UNSEEN] = window
        self.cells[:, kernel.BEGAN, UNSEEN] = np.nan

    def add(self, place: int, tables: Tables) -> None:
        """Make a place for a source: it begins with what was learnt of all."""
        room = self.aside.shape[1]
        if place >= room:
            aside, cells = _room_for(tables.room, len(self.before))
            aside[:, :room], cells[:, :, :room] = self.aside, self.cells
            self.aside, self.cells = aside, cells
        if place != UNSEEN:
            declared = [column for column, _ in _DECLARED_COLUMNS[:3]]
            self.aside[declared, place] = self.aside[declared, UNSEEN]
            self.cells[:, :, place] = 0
            for column in (kernel.ESTIMATE, kernel.LENGTH_OF_WINDOW):
                self.cells[:, column, place] = self.cells[:, column, UNSEEN]
            self.cells[:, kernel.BEGAN, place] = np.nan
        self.aside[kernel.DECLARED_DELAY, place] = tables.sources[DELAY, place]
        self.apply(place, tables)

    def apply(self, place: int, tables: Tables) -> None:
        """Let what was learnt hold for a source."""
        apply_learnt(tables.all, self.all, place)

    @property
    def given(self) -> tuple[Any, ...]:
        """The same as a plain tuple, which is handed over faster."""
        return tuple(self.all)

    @property
    def all(self) -> kernel.LearntTables:
        """All tables, to be handed to compiled loops as one."""
        return kernel.LearntTables(
            numbers=self.numbers,
            floats=self.floats,
            before=self.before,
            aside=self.aside,
            cells=self.cells,
            weights=self.weights,
            totals=self.totals,
            slots=self.slots,
        )

    def snapshot(self, sources: int) -> LearntState:
        """All that is remembered, of so many sources."""
        used = int(self.numbers[kernel.SLOTS])
        kept = (
            *(self.numbers, self.floats, self.before, self.aside[:, :sources], self.cells[:, :, :sources]),
            *(self.weights[:used], self.totals[:used], self.slots[:used]),
        )
        return LearntState(*(np.ascontiguousarray(one).ravel().copy() for one in kept))

    def restore(self, state: LearntState, sources: int, tables: Tables) -> None:
        """Go on from a snapshot; there is room for its sources."""
        self.numbers[...] = state.numbers
        used = int(self.numbers[kernel.SLOTS])
        for name in (field.name for field in fields(LearntState)):
            table = getattr(self, name)
            part = table[:used] if name in {"weights", "totals", "slots"} else table
            part = part[..., :sources] if name in {"aside", "cells"} else part
            part[...] = getattr(state, name).reshape(part.shape)
        for place in range(sources):
            self.apply(place, tables)


def _room_for(room: int, kinds: int) -> tuple[Column, Floats]:
    """Tables for so many sources."""
    aside = np.full((kernel.ASIDE_COLUMNS, room), BEGINNING)
    aside[[kernel.DECLARED_SET_BY, kernel.DECLARED_SENDER]] = BY_NOTHING
    aside[[kernel.DECLARED_DELAY, kernel.SLOT]] = NONE
    aside[kernel.SENT] = 0
    return aside, np.zeros((kinds, kernel.CELL_COLUMNS, room))
