"""Replicas of one stream, as the LMerge paper's generator makes them, in batches of any size.

Every event has an integer between 0 and 400 and, if asked for, a word of 1,000 random bytes. Starts rise by a random
gap; a fraction of the events comes later than its turn; a fraction is told with another end first and adjusted later;
punctuations stand where the lot falls, as far as they are true.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import slackwater as sw
from slackwater.events.batch import EventBatch
from slackwater.events.kinds import Kind
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.early import EarlyAggregateOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_SECOND = 1_000_000
_ADJUSTED_WITHIN = 50  # places
_WINDOW = 200  # greatest gaps
_GROUPS = 40
_AT_ONCE = 128  # elements that an early count takes in before it tells what has changed
_WINDOWED = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), "number": pa.int64()}), time="from", until="to"
)


@dataclass(frozen=True)
class Generator:
    """The parameters of the paper, with its defaults; times are in microseconds."""

    events: int = 200_000
    stable_freq: float = 0.01
    """The fraction of places with a punctuation."""

    max_gap: int = 20 * _SECOND
    """The most that a start is beyond the one before it."""

    alive: int = 10_000
    """How many events last at any time, on average: decides how long each lasts."""

    disorder: float = 0.2
    """The fraction of events that come later than their turn."""

    revised: float = 0.0
    """The fraction of events that are told with another end first."""

    revisions: int = 1
    """How often such an end is corrected until it is right."""

    word_bytes: int = 0
    """The length of a random word in every payload; 1,000 in the paper."""

    def replica(self, seed: int) -> Replica:
        """What one replica tells; the events are the same for every seed."""
        truth = np.random.default_rng(0)
        start = np.cumsum(truth.integers(1, self.max_gap, self.events))
        end = start + self.alive * self.max_gap // 2
        number = truth.integers(0, 401, self.events)
        rng = np.random.default_rng(seed)
        late = np.where(rng.random(self.events) < self.disorder, rng.integers(0, 100 * self.max_gap, self.events), 0)
        order = np.argsort(start + late, kind="stable")
        wrong = np.flatnonzero(rng.random(self.events) < self.revised)
        places, rows, priors, ends = [2 * np.arange(self.events)], [order], [end[order]], [end[order].copy()]
        ends[0][wrong] += self.revisions * self.max_gap
        after = wrong
        for left in range(self.revisions, 0, -1):  # one gap nearer to the truth each time
            after = after + rng.integers(1, _ADJUSTED_WITHIN, len(wrong))
            places.append(2 * after + 1)
            rows.append(order[wrong])
            priors.append(end[order[wrong]] + left * self.max_gap)
            ends.append(end[order[wrong]] + (left - 1) * self.max_gap)
        turn = np.argsort(np.concatenate(places), kind="stable")
        row, prior, told_end = (np.concatenate(parts)[turn] for parts in (rows, priors, ends))
        kind = np.repeat([int(Kind.INSERT), int(Kind.ADJUST)], [self.events, self.revisions * len(wrong)])
        kind = kind.astype(np.int8)[turn]
        return self._punctuated(Replica(kind, start[row], told_end, prior, number[row], row), rng)

    def _punctuated(self, told: Replica, rng: np.random.Generator) -> Replica:
        """Put punctuations where the lot falls, each as great as what follows allows."""
        concerned = np.where(told.kind == Kind.ADJUST, np.minimum(told.end, told.prior), told.start)
        true = np.minimum.accumulate(concerned[::-1])[::-1]
        places = np.flatnonzero(rng.random(len(true)) < self.stable_freq)
        said = true[places]
        return Replica(
            np.insert(told.kind, places, int(Kind.PUNCTUATE)),
            np.insert(told.start, places, said),
            np.insert(told.end, places, said),
            np.insert(told.prior, places, said),
            told.number,
            told.row,
        )

    def aggregated(self, seed: int, size: int) -> list[EventBatch]:
        """What a count by number and window, told at once, says of a replica: many removals and new answers."""
        told, window = self.replica(seed), _WINDOW * self.max_gap
        start = told.start // window * window
        end = np.where(told.kind == Kind.PUNCTUATE, start, start + window)
        windowed = Replica(told.kind, start, end, end, told.number % _GROUPS, told.row)
        count = EarlyAggregateOperator(_WINDOWED, ["number"], {"n": sw.count()})
        answers = EventBatch.concat(
            [out for batch in windowed.batches(_AT_ONCE) for out in count.on_batch(0, batch).batches]
        )
        return [answers.slice(first, min(first + size, len(answers))) for first in range(0, len(answers), size)]

    def words(self) -> pa.Array:
        """The word of each event."""
        letters = np.random.default_rng(1).integers(97, 123, self.events * self.word_bytes).astype(np.uint8)
        offsets = np.arange(self.events + 1, dtype=np.int64) * self.word_bytes
        return pa.LargeBinaryArray.from_buffers(
            pa.large_string(), self.events, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        )


@dataclass(frozen=True)
class Replica:
    """The elements of a replica, column by column; `number` and `row` have no entry for punctuations."""

    kind: NDArray[np.int8]
    start: Column
    end: Column
    prior: Column
    number: Column
    row: Column
    """Which event it is, for the word that belongs to it."""

    def __len__(self) -> int:
        return len(self.kind)

    def batches(self, size: int, words: pa.Array | None = None) -> list[EventBatch]:
        """The elements in batches of one size, all made beforehand."""
        return self.cut_at([*range(0, len(self), size), len(self)], words)

    def cut_at(self, edges: Sequence[int], words: pa.Array | None = None) -> list[EventBatch]:
        """The elements in batches from edge to edge; from 0 to the end."""
        made, row = [], 0
        for first, stop in pairwise(edges):
            part = slice(first, stop)
            rows = int(np.count_nonzero(self.kind[part] != Kind.PUNCTUATE))
            columns = {"number": pa.array(self.number[row : row + rows])}
            if words is not None:
                columns["word"] = words.take(pa.array(self.row[row : row + rows]))
            start, end, prior = (column[part].copy() for column in (self.start, self.end, self.prior))
            made.append(EventBatch(pa.record_batch(columns), start, end, self.kind[part].copy(), prior))
            row += rows
        return made
