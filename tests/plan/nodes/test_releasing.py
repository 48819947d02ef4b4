"""What release() refuses, and what explain() says of it."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import PlanError


def _ordered(name: str) -> sw.OrderedStream:
    return sw.stream([{"at": 1, "k": 1}], time="at", name=name).sort(patience=1)


def _both() -> sw.OrderedStream:
    return _ordered("a").join(_ordered("b"), on="k", within=5).select("k").join(_ordered("c"), on="k", within=5)


def test_it_is_refused_where_nobody_is_waited_for() -> None:
    """An option that means nothing."""
    for release in (sw.Release.by_query(), sw.Release.by_memory()):
        with pytest.raises(PlanError, match="has nobody to wait for"):
            _ordered("a").release(release)
    assert _ordered("a").release(sw.Release.by_operator()).run().table.num_rows == 1


def test_it_is_chosen_once() -> None:
    """Two on one path would contradict each other."""
    with pytest.raises(PlanError, match="chosen twice"):
        _both().release(sw.Release.by_query()).release(sw.Release.by_memory())


@pytest.mark.parametrize("policy", ["by_query", None, sw.Late.drop()])
def test_other_values_are_refused(policy: Any) -> None:
    """With the choices that there are."""
    with pytest.raises(PlanError, match=r"choose Release.by_operator\(\)"):
        _both().release(policy)


@pytest.mark.parametrize("growth", [{"join": -1.0}, {"join": float("nan")}, {"join": True}, {1: 2.0}, {"join": "3"}])
def test_growth_is_a_number_of_rows(growth: Any) -> None:
    """By the kind or name of a step."""
    with pytest.raises(PlanError, match="growth= takes numbers of rows"):
        sw.Release.by_memory(growth=growth)


def test_growth_of_no_step_or_an_unknown_one_is_refused() -> None:
    """What is misspelt would change nothing."""
    with pytest.raises(PlanError, match="growth= names no step"):
        sw.Release.by_memory(growth={})
    for name in ("joined", "join#3"):
        with pytest.raises(PlanError, match=r"join#1, join#2"):
            _both().release(sw.Release.by_memory(growth={name: 2.0}))


def test_steps_keep_their_names_whatever_is_held() -> None:
    """A hold reads sources that stand further on in the plan; steps are numbered as rows come to them."""
    plain = [line.split()[0:3] for line in _both().release(sw.Release.by_operator()).explain().splitlines()]
    held = [line.split() for line in _both().release(sw.Release.by_query()).explain().splitlines()]
    named = {word for words in held for word in words if "#" in word}
    assert named >= {word for words in plain for word in words if "#" in word}
    sources = {
        words[index + 1]: word for words in held for index, word in enumerate(words) if word.startswith("source#")
    }
    assert sources == {"a": "source#1", "b": "source#2", "c": "source#3"}


def test_on_spark_growth_must_be_named() -> None:
    """Shards that measure by themselves would let go at different moments."""
    with pytest.raises(PlanError, match=r"growth=\{\"join\": 3.0\}"):
        _both().release(sw.Release.by_memory()).explain(runner="spark")
    explained = _both().release(sw.Release.by_memory(growth={"join#1": 3.0})).explain(runner="spark", shards=2)
    assert explained.count("for c ") == 2
