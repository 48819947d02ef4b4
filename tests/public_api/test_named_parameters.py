"""Parameters have names: editors show them, type checkers check them, and a misspelt one is refused."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator

_BY_NAME = {
    "computed": "names of columns, which users choose",
    "by_name": "names of sources, which users have",
    "aggregates": "names of columns, which users choose",
    "options": "those of Spark's file source, listed by a TypedDict",
}
"""What may come by any name, and why."""


def _callables() -> Iterator[tuple[str, Any]]:
    values = [getattr(sw, name) for name in sw.__all__]
    for value in values:
        if inspect.isfunction(value):
            yield value.__qualname__, value
        elif inspect.isclass(value) and not getattr(value, "_is_protocol", False):
            for name, member in inspect.getmembers(value):
                if (inspect.isfunction(member) or inspect.ismethod(member)) and (name[0] != "_" or name == "__init__"):
                    yield f"{value.__qualname__}.{name}", member


@pytest.mark.parametrize(("name", "function"), [pytest.param(*one, id=one[0]) for one in _callables()])
def test_no_parameter_hides_behind_another(name: str, function: Any) -> None:
    """Only names that users choose, and those of Spark, come as they are."""
    hidden = [one for one in inspect.signature(function).parameters.values() if one.kind is one.VAR_KEYWORD]
    assert [one.name for one in hidden if one.name not in _BY_NAME] == [], name


@pytest.mark.parametrize("call", ["open", "start", "to_spark"])
def test_streams_and_bands_take_the_same(call: str) -> None:
    """What one stream can be given, several can be given together."""
    of_one = inspect.signature(getattr(sw.OrderedStream, call)).parameters
    if call == "to_spark":
        assert not hasattr(sw.PatienceBands, call)
        return
    of_bands = inspect.signature(getattr(sw.PatienceBands, call)).parameters
    assert list(of_one) == list(of_bands)
    assert [one.default for one in of_one.values()] == [one.default for one in of_bands.values()]


@pytest.mark.parametrize("option", ["shards", "chunk_rows", "timeout", "memory"])
def test_options_of_spark_are_refused_in_process(option: str) -> None:
    """They would mean nothing there."""
    given: dict[str, Any] = {option: 2}
    with pytest.raises(TypeError, match=option):
        sw.stream([{"at": 1}], time="at").open(print, **given)
