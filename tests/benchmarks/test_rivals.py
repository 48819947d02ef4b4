"""Rivals are only rivals if they give the right answer: the merge in plain Python, the other NumPy, the adaptors."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import other_numpy
from measure import Taken, interleaved
from online_contenders import ALL, OURS
from online_rivals import Feed
from other_numpy import OtherNumpy, beside, better, timed
from python_merge import PythonMerge
from replicated import Generator
from slackwater.events.elements import Adjust, Insert, Punctuate, elements_of
from slackwater.testing.oracles.merging import R3

if TYPE_CHECKING:
    from slackwater.events.elements import Element
from table_rivals import NUMPY, frames, same


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_the_merge_in_plain_python_sends_what_the_papers_algorithm_sends(inputs: int) -> None:
    """Element by element; only the order of what one punctuation sends is its own."""
    generator = Generator(400, stable_freq=0.05, alive=30, disorder=0.3, revised=0.3, revisions=2)
    replicas = [
        [element for batch in generator.replica(seed).batches(64) for element in elements_of(batch)]
        for seed in range(inputs)
    ]
    fast, right = PythonMerge(inputs), R3(inputs)
    adjusted = 0
    for place in range(max(map(len, replicas))):
        for stream, elements in enumerate(replicas):
            if place < len(elements):
                expected = right.take(stream, elements[place])
                assert sorted(map(str, fast.take(stream, elements[place]))) == sorted(map(str, expected))
                adjusted += len(expected) > 1
    assert adjusted > 5, "punctuations have adjusted what was sent"


_TIMES = st.integers(0, 5)
_KEYS = st.sampled_from("ab"), st.integers(0, 1)
_ELEMENTS = st.one_of(
    st.builds(Insert, *_KEYS, _TIMES), st.builds(Adjust, *_KEYS, _TIMES, _TIMES), st.builds(Punctuate, _TIMES)
)
_AT_ITS_END = [(0, Insert("a", 0, 3)), (0, Punctuate(3)), (1, Adjust("a", 0, 3, 5)), (1, Punctuate(4))]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 1), _ELEMENTS), max_size=30))
@example(_AT_ITS_END)
def test_the_merge_in_plain_python_agrees_where_ends_meet_punctuations(sent: list[tuple[int, Element]]) -> None:
    """Whatever is emitted: few times, so that a punctuation often is the very end of an event."""
    fast, right = PythonMerge(2), R3(2)
    for stream, element in sent:
        expected = right.take(stream, element)
        assert sorted(map(str, fast.take(stream, element))) == sorted(map(str, expected))


def _columns() -> dict[str, Any]:
    times = np.random.default_rng(1).integers(0, 500, 1_000)
    return {"at": times, "value": np.arange(1_000, dtype=np.int32)}


def test_the_other_numpy_has_the_features_switched_off_and_works_on_its_own_columns() -> None:
    """It is NumPy's own list that is shorter there; the environment of this process is as it was."""
    before = dict(os.environ)
    other = OtherNumpy("X86_V3")
    try:
        other.give(_columns())
        assert "X86_V3" not in other.call(_enabled)
        assert sorted(other.call(other_numpy.held)["columns"]) == ["at", "value"]
        assert isinstance(other.call(timed, NUMPY["numpy argsort"], 2), Taken)
        calls = beside(NUMPY, _columns(), other)
        assert list(better(dict.fromkeys(calls, 1.0))) == list(NUMPY)
        assert len(calls) == 2 * len(NUMPY)
    finally:
        other.close()
    assert dict(os.environ) == before


def _enabled() -> list[str]:
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return [name for name, on in features.items() if on]


def test_the_better_of_two_processes_counts() -> None:
    """Whichever it is."""
    assert better({"a": 3.0, "b": 1.0, "a, AVX2": 2.0, "b, AVX2": 4.0}) == {"a": 2.0, "b": 1.0}


def test_a_time_that_was_measured_elsewhere_is_taken_as_it_is() -> None:
    """The way there and back does not count."""
    assert interleaved({"there": lambda: Taken(7.0)}, repeats=2) == {"there": [7.0, 7.0]}


def test_all_who_sort_a_table_make_the_same_table() -> None:
    """Ties in order of arrival, every column."""
    columns = _columns()
    right = NUMPY["numpy argsort"](columns)
    assert right["value"].tolist() == np.argsort(columns["at"], kind="stable").tolist()
    contenders: dict[str, Any] = {**frames(columns), "packed": partial(NUMPY["numpy packed"], columns)}
    for name, work in contenders.items():
        assert same(work(), right), name
    assert not same({**right, "value": right["value"][::-1]}, right)


@pytest.mark.parametrize("name", [name for name in ALL if "batch" not in name and name != OURS])
@pytest.mark.parametrize("every", [1, 7, 50])
def test_who_sorts_online_releases_what_each_punctuation_completes(name: str, every: int) -> None:
    """The whole stream from the first event, compared with the stable argsort."""
    rng = np.random.default_rng(2)
    times = np.arange(700) - rng.integers(0, 40, 700) * (rng.random(700) < 0.3)
    feed = Feed(times, np.argsort(times, kind="stable"), 100, every, 40, ends=False)
    kept: list[Any] = []
    contender = ALL[name].make(feed, lambda chunk: kept.append((chunk[0].copy(), chunk[1].copy())), 500)
    events = 500 // every // 2 * every
    contender.advance(events)
    contender.advance(events)
    made = [np.concatenate(part) for part in zip(*kept, strict=True)]
    for column, right in zip(made, feed.released(100 + 2 * events), strict=True):
        assert column.tolist() == right.tolist()
