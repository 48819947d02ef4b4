"""The examples in docstrings run and print what they say, and every public method has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import TYPE_CHECKING

import pytest
from docstring_examples import MODULES, examples_of, needs_spark

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator

_WITH_EXAMPLES = 180
"""There are at least so many examples; fewer would mean that they are no longer found."""

_ON_SPARK = (
    "DeltaSink",
    "DeltaSource",
    "FolderSink",
    "FunctionSink",
    "JetStreamSource",
    "ParquetFiles",
    "PostgresSink",
    "Sink",
    "SparkQuery",
)

_FOR_RUNNERS = {
    "Clock.now",
    "Counters.leave_out",
    "DeltaSink.described",
    "DeltaSink.for_rows",
    "DeltaSink.place",
    "DeltaSource.name",
    "DeltaSource.reader",
    "DeltaSource.schema",
    "DeltaSource.streamReader",
    "FolderSink.claimed",
    "FolderSink.described",
    "FolderSink.place",
    "FunctionSink.write",
    "JetStreamSource.name",
    "JetStreamSource.reader",
    "JetStreamSource.schema",
    "JetStreamSource.streamReader",
    "ParquetFiles.packed",
    "PostgresSink.for_rows",
    "PushSource.ignore_before",
    "PushSource.open",
    "PushSource.poll",
    "PushSource.poll_together",
    "PushSource.quiet_until",
    "Sink.write",
}
"""What runners call, and users do not."""


@pytest.mark.parametrize("name", ["slackwater", *MODULES])
def test_examples_print_what_they_say(name: str) -> None:
    """Every module by itself; what needs Spark is run with the tests of the Spark runner."""
    runner = doctest.DocTestRunner()
    for example in examples_of(importlib.import_module(name)):
        if not needs_spark(example):
            assert runner.run(example).failed == 0


def test_there_are_examples() -> None:
    """A test of nothing would pass too; those of classes and functions that are offered are among them."""
    examples = [one for name in MODULES for one in examples_of(importlib.import_module(name)) if one.examples]
    assert len(examples) >= _WITH_EXAMPLES
    some = ("streams.query.Query.stop", "streams.event_stream.EventStream.where", "streams.ordered.union")
    assert {f"slackwater.{one}" for one in some} <= {one.name for one in examples}


def _public() -> Iterator[tuple[str, str]]:
    """All functions and methods that are offered, with the docstrings in which an example of them may stand."""
    for name in (*sw.__all__, *_ON_SPARK):
        value = getattr(sw, name)
        if inspect.isfunction(value):
            yield name, value.__doc__ or ""
        elif inspect.isclass(value):
            for member, found in vars(value).items():
                method = getattr(found, "__func__", found)
                if inspect.isfunction(method) and not member.startswith("_"):
                    calls = re.search(rf">>> .*\.{member}\(|\.\.\. .*\.{member}\(", value.__doc__ or "")
                    yield f"{name}.{member}", f"{method.__doc__}{value.__doc__ if calls else ''}"


@pytest.mark.parametrize(("name", "docstring"), [pytest.param(*one, id=one[0]) for one in _public()])
def test_every_public_function_and_method_has_an_example(name: str, docstring: str) -> None:
    """Its own, or one of its class that calls it."""
    assert ">>>" in docstring or name in _FOR_RUNNERS
