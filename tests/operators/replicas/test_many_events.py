"""Merges of more events than fit into a block, with payloads of all lengths, cut at random and restored on the way."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from slackwater.events.elements import batch_of, elements_of
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.policies.agreement import Agreement, Revise
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable
from slackwater.testing.presentations import Presentation, present

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_NO_ROWS = batch_of([], _PAYLOAD).payload

_AGREEMENTS = [
    agreement.revising(revise).lagging(lag)
    for agreement, revise, lag in (
        (Agreement.first(), Revise.WHEN_FROZEN, 0),
        (Agreement.first(), Revise.ALWAYS, 0),
        (Agreement.quorum_of(0.5), Revise.LEADING, 3),
        (Agreement.leading(), Revise.LEADING, 0),
        (Agreement.newest(), Revise.ALWAYS, 3),
        (Agreement.fullest(), Revise.WHEN_FROZEN, 0),
        (Agreement.half_frozen(), Revise.ALWAYS, 0),
        (Agreement.frozen(), Revise.WHEN_FROZEN, 0),
    )
]


def _table(rng: Random, events: int, latest: int, *, keyed: bool) -> TemporalTable:
    made: dict[Any, TemporalEvent] = {}
    for number in range(events):
        word = "x" * rng.choice([0, 1, 7, 8, 9, 40]) + str(rng.randint(0, 5))
        start = rng.randint(0, latest)
        event = TemporalEvent((word, rng.randint(0, 3)), start, start + rng.randint(1, 30))
        made[event.key if keyed else number] = event
    return TemporalTable(made.values(), FOREVER)


def _merged(build: Any, streams: list[list[Any]], rng: Random) -> TemporalTable:
    merge, output, waiting = build(None), TableBuilder(), [list(stream) for stream in streams]
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        size = rng.choice([1, 10, 300])
        elements, waiting[port] = waiting[port][:size], waiting[port][size:]
        if rng.random() < 0.05:
            merge = build(merge.snapshot())
        for batch in merge.on_batch(port, batch_of(elements, _PAYLOAD)).batches:
            for element in elements_of(batch):
                output.add(element)
    merge.check()
    return output.table()


def _streams(table: TemporalTable, rng: Random) -> list[list[Any]]:
    options = Presentation(
        disorder=rng.choice([0, 5, 50]),
        early_values=0.3,
        removed_extras=0.2,
        punctuations=rng.choice([0.01, 0.1, 0.4]),
        shuffle_ties=True,
    )
    return [present(table, rng.randint(0, 10**6), options) for _ in range(3)]


@pytest.mark.parametrize("agreement", _AGREEMENTS, ids=str)
def test_events_with_a_key(agreement: Agreement) -> None:
    """Every agreement, over short and long stretches of time."""
    for seed, latest in enumerate((20, 200, 3_000)):
        rng = Random(seed)
        table = _table(rng, 700, latest, keyed=True)
        build = lambda state, chosen=agreement: MergeRevisedWithKey(3, _NO_ROWS, "merge", state, chosen)  # noqa: E731
        assert list(_merged(build, _streams(table, rng), rng)) == list(table)


@pytest.mark.parametrize("agreement", _AGREEMENTS, ids=str)
def test_events_without_a_key(agreement: Agreement) -> None:
    """Equal ones, and such that differ in their ends alone."""
    for seed, latest in enumerate((20, 200, 3_000)):
        rng = Random(seed)
        table = _table(rng, 700, latest, keyed=False)
        build = lambda state, chosen=agreement: MergeMultiset(3, _NO_ROWS, "merge", state, chosen)  # noqa: E731
        assert list(_merged(build, _streams(table, rng), rng)) == list(table)
