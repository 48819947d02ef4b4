"""The query in process and the query on Spark say the same things with the same words."""

from __future__ import annotations

import inspect
import re

import pytest

import slackwater as sw
from slackwater.errors import PlanError

_SHARED = {
    *("active", "close", "control", "counters", "finished", "progress", "prometheus", "stop", "wait", "work", "why"),
}
_ATTRIBUTES = {"spark", "id"}
"""What a query on Spark has that is set when it is made."""


def _public(kind: type) -> set[str]:
    names = {name for name in dir(kind) if not name.startswith("_")}
    return names | ({"with"} if hasattr(kind, "__enter__") else set())


def _mentioned(kind: type) -> set[str]:
    return set(re.findall(r"`([\w]+)(?:\(\))?`", inspect.getdoc(kind) or ""))


def test_what_both_can_do_has_the_same_name_in_both() -> None:
    """Whoever knows one knows the other."""
    assert _public(sw.Query) & _public(sw.SparkQuery) == _SHARED


def test_what_only_one_can_do_is_listed_where_it_is_missed() -> None:
    """The docstring of the class without it says so, and why."""
    on_spark = _public(sw.SparkQuery) | _ATTRIBUTES
    assert _public(sw.Query) - on_spark <= _mentioned(sw.SparkQuery)
    assert on_spark - _public(sw.Query) <= _mentioned(sw.Query)


def test_both_speak_of_what_they_share() -> None:
    """So that a reader of either finds all of it."""
    assert _mentioned(sw.Query) >= _SHARED
    assert _mentioned(sw.SparkQuery) >= _SHARED


@pytest.mark.parametrize("name", sorted(_SHARED))
def test_what_both_can_do_takes_and_gives_the_same(name: str) -> None:
    """The same parameters with the same defaults, and a value of the same type; properties are properties in both.

    On Spark there may be more, by name, with a default.
    """
    ours, theirs = (inspect.getattr_static(kind, name) for kind in (sw.Query, sw.SparkQuery))
    assert isinstance(ours, property) == isinstance(theirs, property)
    if isinstance(ours, property) and isinstance(theirs, property):
        ours, theirs = ours.fget, theirs.fget
    here, there = inspect.signature(ours), inspect.signature(theirs)
    more = [one for name, one in there.parameters.items() if name not in here.parameters]
    assert all(one.kind is one.KEYWORD_ONLY and one.default is not one.empty for one in more)
    assert here == there.replace(parameters=[one for one in there.parameters.values() if one not in more])


@pytest.mark.parametrize("rows", ["late", "left_out"])
def test_a_place_and_a_function_have_the_same_words_in_process_and_on_spark(rows: str) -> None:
    """`late=` names where rows go, `on_late=` is a function that is called with them; one of the two."""
    parameters = inspect.signature(sw.OrderedStream.start).parameters
    assert {rows, f"on_{rows}"} <= set(parameters)
    assert f"on_{rows}" in inspect.signature(sw.OrderedStream.open).parameters
    ordered = sw.stream([{"at": 1}], time="at").sort(5)
    with pytest.raises(PlanError, match=rf"(?s)two takers.*on_{rows}= a function that is called"):
        ordered.start(checkpoint="c", main="out", **{rows: "late", f"on_{rows}": print})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=rf"(?s)on_{rows} is a function.*name a place by {rows}="):
        ordered.start(checkpoint="c", main="out", **{f"on_{rows}": "late"})  # type: ignore[arg-type]
