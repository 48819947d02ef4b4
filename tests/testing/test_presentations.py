"""Many streams of one table: each says it, and each option does what it is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, earliest_concerned, temporal_table_of
from slackwater.testing.presentations import Presentation, present, present_batch
from slackwater.testing.strategies import keyed_tables, presentations, temporal_tables
from slackwater.testing.tables import assert_same_table

SEEDS = st.integers(0, 2**32)
"""Seeds of presentations."""

MANY = TemporalTable((TemporalEvent(("abc"[i % 3],), i // 2, i // 2 + 1 + i % 7) for i in range(60)), FOREVER)
"""A table large enough that every option shows; payload and start are a key."""


@given(temporal_tables(), SEEDS, presentations())
def test_every_complete_presentation_gives_the_table_back(
    table: TemporalTable, seed: int, options: Presentation
) -> None:
    """No element contradicts an earlier one, and in the end the stream says the table."""
    assert_same_table(present(table, seed, options), table)


@given(temporal_tables(), SEEDS, presentations())
def test_a_presentation_ends_with_the_punctuation_of_its_table(
    table: TemporalTable, seed: int, options: Presentation
) -> None:
    """A table that is complete before some instant is emitted as such; no punctuation goes beyond."""
    stream = present(table, seed, options)
    if table.complete_before > BEGINNING:
        assert temporal_table_of(stream).complete_before == table.complete_before


@given(keyed_tables(), SEEDS, presentations())
def test_every_prefix_of_a_presentation_of_a_keyed_table_is_keyed(
    table: TemporalTable, seed: int, options: Presentation
) -> None:
    """Extras never take the payload and start of another event."""
    builder = TableBuilder()
    for element in present(table, seed, options):
        builder.add(element)
        assert builder.table().is_keyed()


@given(temporal_tables(), SEEDS, presentations())
def test_the_same_seed_sends_the_same_stream(table: TemporalTable, seed: int, options: Presentation) -> None:
    """A presentation is a function of table, seed and options."""
    again = TemporalTable(reversed(list(table)), table.complete_before)
    assert present(table, seed, options) == present(again, seed, options)


@given(keyed_tables(), SEEDS, presentations(), st.sampled_from([0.3, 1.0]))
def test_repeats_say_nothing_new_and_contradict_no_punctuation(
    table: TemporalTable, seed: int, options: Presentation, repeats: float
) -> None:
    """A receiver that drops what it has seen before gets the table, and never an element that is late."""
    stream = present(table, seed, replace(options, repeats=repeats))
    complete_before = BEGINNING
    for element in stream:
        assert earliest_concerned(element) >= complete_before
        if isinstance(element, Punctuate):
            complete_before = element.complete_before
    assert_same_table(dict.fromkeys(stream), table)


def test_the_plain_presentation_is_in_order_and_says_each_event_once() -> None:
    """Without options a table is emitted by start, with the closing punctuation alone."""
    stream = present(MANY, seed=1)
    starts = [element.start for element in stream[:-1] if isinstance(element, Insert)]
    assert len(starts) == len(MANY) == len(stream) - 1
    assert starts == sorted(starts)
    assert stream[-1] == Punctuate(FOREVER)


def test_disorder_is_bounded_by_the_option() -> None:
    """No event is emitted more than the disorder after one that starts later."""
    stream = present(MANY, seed=1, options=Presentation(disorder=4))
    starts = [element.start for element in stream if isinstance(element, Insert)]
    assert starts != sorted(starts)
    high_water = 0
    for start in starts:
        high_water = max(high_water, start)
        assert high_water - start <= 4


def test_ties_are_shuffled_only_on_request() -> None:
    """Ordered streams whose ties come in the same order everywhere are a case of their own."""
    assert present(MANY, 1) == present(MANY, 2)
    options = Presentation(shuffle_ties=True)
    assert present(MANY, 1, options) != present(MANY, 2, options)
    starts = [element.start for element in present(MANY, 1, options) if isinstance(element, Insert)]
    assert starts == sorted(starts)


def test_repeats_are_emitted_twice() -> None:
    """With all elements repeated, each comes exactly twice."""
    stream = present(MANY, seed=1, options=Presentation(repeats=1.0, disorder=2))
    assert set(Counter(stream[:-1]).values()) == {2}


def test_early_values_are_adjusted_later() -> None:
    """With all values early, every event has at least one adjust."""
    stream = present(MANY, seed=1, options=Presentation(early_values=1.0))
    adjusted = {(element.payload, element.start) for element in stream if isinstance(element, Adjust)}
    assert adjusted == {event.key for event in MANY}


def test_removed_extras_are_gone_in_the_end() -> None:
    """Each extra event is inserted once and removed once."""
    stream = present(MANY, seed=1, options=Presentation(removed_extras=1.0))
    removed = [element for element in stream if isinstance(element, Adjust) and element.end == element.start]
    assert len(removed) > 10
    assert len(stream) == len(MANY) + 2 * len(removed) + 1


@pytest.mark.parametrize(("density", "least", "most"), [(0.0, 1, 1), (0.3, 8, 35), (1.0, 61, 61)])
def test_punctuations_have_the_density_asked_for(density: float, least: int, most: int) -> None:
    """The closing one comes on top, and they never go back."""
    stream = present(MANY, seed=1, options=Presentation(disorder=3, punctuations=density))
    punctuations = [element.complete_before for element in stream if isinstance(element, Punctuate)]
    assert least <= len(punctuations) <= most
    assert all(before <= after for before, after in pairwise(punctuations))


def test_a_gap_leaves_out_the_events_that_start_in_it() -> None:
    """The rest is emitted as ever."""
    presented = temporal_table_of(present(MANY, seed=1, options=Presentation(gap=(5, 9), disorder=3)))
    assert_same_table(presented, TemporalTable(event for event in MANY if not 5 <= event.start < 9))


def test_a_late_start_leaves_out_what_had_ended_by_then() -> None:
    """A joining replica knows every event that ends at its first instant or later."""
    presented = temporal_table_of(present(MANY, seed=1, options=Presentation(late_start=9, early_values=0.5)))
    assert_same_table(presented, TemporalTable(event for event in MANY if event.end >= 9))


def test_an_event_that_lasts_for_no_time_is_emitted_as_it_is() -> None:
    """An early value for it would have to be adjusted to its start, which removes."""
    table = TemporalTable([TemporalEvent("A", 3, 3)])
    assert present(table, seed=1, options=Presentation(early_values=1.0)) == [Insert("A", 3, 3)]


def test_a_batch_sends_the_same_as_the_elements() -> None:
    """present_batch is present, in columns."""
    payload = pa.schema({"p": pa.string()})
    options = Presentation(disorder=5, early_values=0.5, punctuations=0.3)
    batch = present_batch(MANY, payload, seed=4, options=options)
    batch.check()
    assert_same_table(batch, MANY)
    assert len(batch) == len(present(MANY, seed=4, options=options))


@pytest.mark.parametrize("wrong", [{"early_values": 1.5}, {"repeats": -0.1}, {"disorder": -1}, {"revision_delay": -1}])
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """Fractions are between 0 and 1, lengths of time not negative."""
    with pytest.raises(ValueError, match=r"fraction|negative"):
        Presentation(**wrong)  # type: ignore[arg-type]
