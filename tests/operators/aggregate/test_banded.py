"""Aggregates in bands: each band answers from all bands up to it, as soon as they are complete, and no sooner."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation, RunError, SchemaMismatch
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.banded import BAND, BandedAggregateOperator, banded_schema
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.emission import Emission, band_output
from slackwater.policies import aggregates as sw
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.strategies import MEASURED, disordered_batches
from slackwater.testing.torture import Cut, schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.policies.aggregates import Aggregate

NAMES = EventSchema.of(pa.schema({"from": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="from", until="to")
"""Windows with a name."""

WINDOWS = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), **{field.name: field.type for field in MEASURED}}),
    time="from",
    until="to",
)
"""Windows with a key, an integer and a float."""

COUNT: dict[str, Aggregate] = {"n": sw.count()}

EVERYTHING: dict[str, Aggregate] = {
    "rows": sw.count(),
    "present": sw.count("x"),
    "total": sw.sum("v"),
    "float_total": sw.sum("x"),
    "least": sw.min("x"),
    "greatest": sw.max("v"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _row(name: str, start: int) -> Insert:
    """An event in the window of ten from a start on."""
    return Insert((name,), start, start + 10)


def _counting(bands: int, keys: Sequence[str] = (), step: str = "in_bands") -> BandedAggregateOperator:
    return BandedAggregateOperator(NAMES, keys, COUNT, bands, step=step)


def _emitted(emission: Emission) -> dict[int, list[str]]:
    """What was emitted, band by band."""
    emitted: dict[int, list[str]] = {}
    named = [("band 0", batch) for batch in emission.batches] + list(emission.side)
    for name, batch in named:
        batch.check()
        assert len(batch)
        emitted.setdefault(int(name.removeprefix("band ")), []).extend(map(str, elements_of(batch)))
    return emitted


# ---- against the oracle ---------------------------------------------------------------------------------------------


def _answers(emission: Emission, band: int) -> list[Element]:
    batches = emission.batches if band == 0 else [batch for name, batch in emission.side if name == band_output(band)]
    return [element for batch in batches for element in elements_of(batch)]


@pytest.mark.parametrize("keys", [(), ("k",), ("v", "k")], ids=str)
@given(
    streams=st.integers(1, 4).flatmap(
        lambda bands: st.tuples(*[disordered_batches(MEASURED, intervals=True, max_rows=12)] * bands)
    ),
    seed=st.integers(0, 2**32),
    restore=st.booleans(),
)
def test_each_band_says_all_that_is_complete_in_the_bands_up_to_it_and_no_more(
    keys: tuple[str, ...], streams: tuple[EventBatch, ...], seed: int, restore: bool
) -> None:
    """After every call, for any interleaving: the aggregates of all groups before the least punctuation."""
    bands = len(streams)
    operator = BandedAggregateOperator(WINDOWS, keys, EVERYTHING, bands)
    came: list[list[Insert]] = [[] for _ in streams]
    guaranteed = [BEGINNING] * bands
    emitted: list[list[Insert]] = [[] for _ in streams]
    bounds = [BEGINNING] * bands
    for port, batch in schedule(streams, Cut.RANDOM, Random(seed)):
        if restore:
            operator = BandedAggregateOperator(WINDOWS, keys, EVERYTHING, bands, resume=operator.snapshot())
        emission = operator.on_end(port) if batch is None else operator.on_batch(port, batch)
        operator.check()
        if batch is None:
            guaranteed[port] = FOREVER
        else:
            came[port] += [element for element in elements_of(batch) if isinstance(element, Insert)]
            guaranteed[port] = max([guaranteed[port], *batch.punctuations().tolist()])
        for band in range(bands):
            answers = _answers(emission, band)
            emitted[band] += [element for element in answers if isinstance(element, Insert)]
            bound = min(guaranteed[: band + 1])
            assert [answer for answer in answers if isinstance(answer, Punctuate)] == (
                [Punctuate(bound)] if bound > bounds[band] else []
            )
            bounds[band] = bound
            _check_emitted(emitted[band], [row for rows in came[: band + 1] for row in rows], keys, band, bound)
    assert operator.buffered() == 0
    assert operator.idle_waiting_on() is None


def _check_emitted(emitted: list[Insert], came: list[Insert], keys: Sequence[str], band: int, bound: int) -> None:
    """The answers of one band so far are those of the oracle over what is complete, in order of their intervals."""
    complete = [row for row in came if row.start < bound]
    plain = aggregate_oracle(complete, MEASURED.names, keys, EVERYTHING)
    assert Counter(emitted) == Counter(Insert((*_payload(row), band), row.start, row.end) for row in plain)
    assert [(row.start, row.end) for row in emitted] == [(row.start, row.end) for row in plain]


def _payload(row: Insert) -> tuple[object, ...]:
    assert isinstance(row.payload, tuple)
    return row.payload


# ---- when answers come ----------------------------------------------------------------------------------------------


def test_an_early_answer_waits_for_nobody_but_its_own_band() -> None:
    """Band 0 answers when it is complete, though nothing at all is known of band 1."""
    operator = _counting(2)
    operator.on_batch(0, _named(_row("a", 0), _row("b", 0)))
    assert _emitted(operator.on_batch(0, _named(Punctuate(1)))) == {0: ["insert((2, 0), 0, 10)", "punctuate(1)"]}
    assert operator.idle_waiting_on() == 1


def test_a_fuller_answer_replaces_an_early_one_when_its_band_is_complete() -> None:
    """The partial result of band 0 moves on to band 1, and from there to band 2; later rows are added to it."""
    operator = _counting(3)
    operator.on_batch(0, _named(_row("a", 0), _row("b", 0), Punctuate(1)))
    operator.on_batch(1, _named(_row("c", 0)))
    assert _emitted(operator.on_batch(1, _named(Punctuate(1)))) == {1: ["insert((3, 1), 0, 10)", "punctuate(1)"]}
    assert _emitted(operator.on_batch(2, _named(_row("d", 0), Punctuate(1)))) == {
        2: ["insert((4, 2), 0, 10)", "punctuate(1)"]
    }
    assert operator.buffered() == 0


def test_a_band_without_rows_of_its_own_repeats_the_answer_of_the_band_before() -> None:
    """A reader of band 1 alone has every answer."""
    operator = _counting(2)
    operator.on_batch(0, _named(_row("a", 0), Punctuate(1)))
    assert _emitted(operator.on_batch(1, _named(Punctuate(1)))) == {1: ["insert((1, 1), 0, 10)", "punctuate(1)"]}


def test_a_group_that_is_in_a_later_band_only_is_answered_there() -> None:
    """Band 0 says nothing of it."""
    operator = _counting(2)
    operator.on_batch(0, _named(Punctuate(30)))
    assert _emitted(operator.on_batch(1, _named(_row("a", 20), Punctuate(30)))) == {
        1: ["insert((1, 1), 20, 30)", "punctuate(30)"]
    }


def test_a_later_band_that_is_ahead_waits_for_the_bands_before_it() -> None:
    """One punctuation of band 0 then lets all go that were ready, each band in its own output."""
    operator = _counting(3)
    for port, name in ((1, "b"), (2, "c")):
        assert _emitted(operator.on_batch(port, _named(_row(name, 0), Punctuate(50)))) == {}
    assert operator.idle_waiting_on() == 0
    assert _emitted(operator.on_batch(0, _named(_row("a", 0), Punctuate(20)))) == {
        0: ["insert((1, 0), 0, 10)", "punctuate(20)"],
        1: ["insert((2, 1), 0, 10)", "punctuate(20)"],
        2: ["insert((3, 2), 0, 10)", "punctuate(20)"],
    }


def test_a_window_that_starts_exactly_at_the_bound_stays_open() -> None:
    """More may come that starts there."""
    operator = _counting(1)
    assert _emitted(operator.on_batch(0, _named(_row("a", 20), Punctuate(20)))) == {0: ["punctuate(20)"]}
    assert _emitted(operator.on_batch(0, _named(_row("b", 20), Punctuate(21)))) == {
        0: ["insert((2, 0), 20, 30)", "punctuate(21)"]
    }


def test_the_end_of_a_band_completes_it() -> None:
    """In any order of ends; the last band speaks when all have ended."""
    operator = _counting(2)
    operator.on_batch(0, _named(_row("a", 0)))
    operator.on_batch(1, _named(_row("b", 0)))
    assert _emitted(operator.on_end(1)) == {}
    assert _emitted(operator.on_end(0)) == {
        0: ["insert((1, 0), 0, 10)", "punctuate(forever)"],
        1: ["insert((2, 1), 0, 10)", "punctuate(forever)"],
    }


def test_what_says_nothing_new_is_not_repeated() -> None:
    """Empty batches, and punctuations that were emitted before or move no band on."""
    operator = _counting(2)
    operator.on_batch(0, _named(Punctuate(5)))
    operator.on_batch(1, _named(Punctuate(5)))
    for port, elements in ((0, []), (0, [Punctuate(5)]), (1, [Punctuate(4)]), (1, [Punctuate(9)])):
        assert _emitted(operator.on_batch(port, _named(*elements))) == {}


def test_groups_of_one_window_are_kept_apart_through_all_bands() -> None:
    """By key; one that appears late for the first time comes last."""
    operator = _counting(2, ["x"])
    operator.on_batch(0, _named(_row("b", 0), _row("a", 0), _row("b", 0), Punctuate(1)))
    assert _emitted(operator.on_batch(1, _named(_row("c", 0), _row("a", 0), Punctuate(1)))) == {
        1: ["insert(('b', 2, 1), 0, 10)", "insert(('a', 2, 1), 0, 10)", "insert(('c', 1, 1), 0, 10)", "punctuate(1)"]
    }


# ---- what is held ---------------------------------------------------------------------------------------------------


def test_groups_are_held_and_not_events() -> None:
    """A thousand rows of two windows, handed on from band to band, are two partial results."""
    operator = _counting(3)
    rows = [_row("a", 10 * (number % 2)) for number in range(1_000)]
    operator.on_batch(0, _named(*rows))
    assert operator.buffered() == 2
    operator.on_batch(0, _named(Punctuate(20)))
    assert operator.buffered() == 2
    operator.on_batch(1, _named(Punctuate(10)))
    assert operator.buffered() == 2
    assert operator.idle_waiting_on() == 1
    operator.on_batch(2, _named(Punctuate(FOREVER)))
    assert operator.buffered() == 1


def test_every_row_is_grouped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bands there are, and however many punctuations stand between the rows."""
    made: list[int] = []
    of = Partial.of

    def counted(rows: EventBatch, *rest: object) -> Partial:
        made.append(rows.rows)
        return of(rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Partial, "of", counted)
    operator = _counting(4)
    elements = [element for at in range(50) for element in (_row("a", at), Punctuate(at))]
    for port in range(4):
        operator.on_batch(port, _named(*elements))
    assert made == [50] * 4


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    """Going on from it twice gives the same twice."""
    operator = _counting(2, ["x"])
    operator.on_batch(0, _named(_row("a", 0), Punctuate(1)))
    snapshot = operator.snapshot()
    operator.on_batch(1, _named(_row("a", 0), _row("b", 0), Punctuate(1)))
    for _ in range(2):
        resumed = BandedAggregateOperator(NAMES, ["x"], COUNT, 2, resume=snapshot)
        assert _emitted(resumed.on_batch(1, _named(Punctuate(1)))) == {
            1: ["insert(('a', 1, 1), 0, 10)", "punctuate(1)"]
        }


# ---- refusals and columns -------------------------------------------------------------------------------------------


def test_a_broken_guarantee_of_any_band_names_the_event() -> None:
    """A band has its own guarantees: what band 1 may still say, band 0 may not."""
    operator = _counting(2, step="in_bands#1")
    operator.on_batch(0, _named(Punctuate(10)))
    operator.on_batch(1, _named(_row("fine", 9)))
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'in_bands#1'.*too late.*complete before  10"):
        operator.on_batch(0, _named(_row("too late", 9)))


def test_a_sum_beyond_int64_stops_the_step_with_its_name() -> None:
    """Also when only the parts of two bands together are too much."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")
    large = batch_of([Insert((2**62,), 0, 10), Punctuate(1)], schema.payload)
    operator = BandedAggregateOperator(schema, [], {"total": sw.sum("v")}, 2, step="totals")
    operator.on_batch(0, large)
    with pytest.raises(RunError, match=r"(?s)step 'totals'.*sum\(v\).*9223372036854775808"):
        operator.on_batch(1, large)


def test_answers_have_the_columns_of_an_aggregate_and_the_band() -> None:
    """The band is never null."""
    schema = banded_schema(NAMES, ["x"], COUNT)
    assert schema.columns == ("from", "to", "x", "n", "band")
    assert schema.payload.field("band") == BAND
    emission = _counting(1, ["x"]).on_batch(0, _named(_row("a", 0), Punctuate(1)))
    assert all(batch.payload.schema == schema.payload for batch in emission.batches)


@pytest.mark.parametrize(
    ("columns", "time", "keys", "what"),
    [
        ({"at": pa.int64(), "band": pa.string()}, "at", ["band"], COUNT),
        ({"at": pa.int64(), "x": pa.string()}, "at", [], {"band": sw.count()}),
        ({"band": pa.int64(), "x": pa.string()}, "band", [], COUNT),
    ],
    ids=["key", "aggregate", "time"],
)
def test_another_column_that_is_called_band_is_refused(
    columns: Mapping[str, pa.DataType], time: str, keys: list[str], what: Mapping[str, Aggregate]
) -> None:
    """A key, an aggregate or the time; one that is not among the answers is no matter."""
    schema = EventSchema.of(pa.schema(columns), time=time)
    with pytest.raises(SchemaMismatch, match=r"(?s)in_bands would make two columns of one name.*band.*another name"):
        banded_schema(schema, keys, what)
    if time != "band":
        banded_schema(schema, [], COUNT)
