"""Law 2: punctuations never go back, and no output contradicts one that was sent before it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators.aggregate.banded import BandedAggregateOperator
from slackwater.operators.emission import LATE
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.sort import SortOperator
from slackwater.testing.cases import CASES, POINTS
from slackwater.testing.strategies import batch_cuts, disordered_batches
from slackwater.testing.torture import Cut, TortureCase, assert_lawful, drive, schedule

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@FEWER
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_punctuations_never_go_back_and_are_never_contradicted(
    case: TortureCase, data: st.DataObject, seed: int
) -> None:
    """Whatever an operator is fed, its output keeps its own guarantees."""
    streams = data.draw(case.streams)
    emitted = drive(case, schedule(streams, Cut.RANDOM, Random(seed)), len(streams), restore=False)
    assert_lawful(emitted, ordered=case.ordered)


def _outputs(emission: Emission) -> list[tuple[int, EventBatch]]:
    """The batches of every band, with its number."""
    bands = [(int(name.removeprefix("band ")), batch) for name, batch in emission.side if name != LATE]
    return [*((0, batch) for batch in emission.batches), *bands]


@given(
    data=st.data(),
    patiences=st.sets(st.integers(0, 30), min_size=1, max_size=3).map(sorted),
    every=st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(5), sw.Every.batch()]),
    late=st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
)
def test_guarantees_made_of_patience_are_kept_from_end_to_end(
    data: st.DataObject, patiences: list[int], every: sw.Every, late: sw.Late
) -> None:
    """Punctuated, sorted and summed up in bands: on every arc, and though rows come as late as they like."""
    batch = data.draw(disordered_batches(POINTS.payload, punctuated=False))
    check = PunctuateOperator(POINTS, patiences, every.resolved(calendar=False), late)
    sorts = [SortOperator(POINTS) for _ in patiences]
    answers = BandedAggregateOperator(POINTS, ("k",), {"n": sw.count()}, len(patiences))
    emitted: dict[tuple[str, int], list[EventBatch]] = {}
    for part in [*data.draw(batch_cuts(batch)), None]:
        split: list[tuple[int, EventBatch | None]] = [(band, None) for band in range(len(sorts))]
        if part is not None:
            split = list(_outputs(check.on_batch(0, part)))
        for band, rows in split:
            ordered = sorts[band].on_end(0) if rows is None else sorts[band].on_batch(0, rows)
            emitted.setdefault(("punctuate", band), []).extend([] if rows is None else [rows])
            emitted.setdefault(("sort", band), []).extend(ordered.batches)
            for one in ordered.batches:
                for number, answer in _outputs(answers.on_batch(band, one)):
                    emitted.setdefault(("answer", number), []).append(answer)
    for (step, _), batches in emitted.items():
        assert_lawful(batches, ordered=step != "punctuate")
