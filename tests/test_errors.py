"""Every error text by its formula: where, what was guaranteed, what came, what to do; and the tree as it is drawn."""

from __future__ import annotations

import re

import pytest

from slackwater import errors
from slackwater.errors import (
    BackwardInterval,
    BadPairing,
    BadTime,
    BrokenOrder,
    BrokenPunctuation,
    Incompatible,
    LateEvent,
    NeedsOrder,
    RunError,
    SchemaMismatch,
    SlackwaterError,
    StepFailed,
    UnknownEvent,
    message,
)

_BRANCH = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Z]\w+)\b")


def _drawn_parents() -> dict[str, str | None]:
    """Read the tree in the module docstring: every class and the one it hangs from."""
    assert errors.__doc__ is not None
    path: list[tuple[int, str]] = []
    parents: dict[str, str | None] = {}
    for line in errors.__doc__.splitlines()[1:]:
        found = _BRANCH.match(line)
        if found is None or not line.startswith("    "):
            continue
        depth = len(found["indent"])
        while path and path[-1][0] >= depth:
            path.pop()
        parents[found["name"]] = path[-1][1] if path else None
        path.append((depth, found["name"]))
    return parents


def test_the_tree_in_the_docstring_is_the_real_tree() -> None:
    """Every class is drawn, below the class it derives from."""
    real = {
        one.__name__: one.__mro__[1].__name__ if one is not SlackwaterError else None
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, SlackwaterError)
    }
    assert _drawn_parents() == real


def test_every_error_says_in_one_sentence_what_it_means() -> None:
    """A class without a docstring would be an error without a meaning."""
    for name in _drawn_parents():
        assert getattr(errors, name).__doc__


def test_facts_are_aligned_and_the_hint_comes_last() -> None:
    """One layout for all."""
    text = message("step 'x' stopped", {"a": 1, "longer": "two"}, "do that")
    assert text == "step 'x' stopped\n    a       1\n    longer  two\n    hint: do that"
    assert message("alone") == "alone"


_TEXTS: dict[str, tuple[SlackwaterError, list[str]]] = {
    "NeedsOrder.at": (
        NeedsOrder.at("union", "source rows time=at"),
        ["union", "ordered or punctuated stream", "source rows time=at", "hint: sort(patience="],
    ),
    "SchemaMismatch.missing": (
        SchemaMismatch.missing("where", "vv", ["at", "v"]),
        ["where", "not there", "asked for  vv", "there are  at, v"],
    ),
    "SchemaMismatch.clash": (
        SchemaMismatch.clash("tumbling", "window_start", "rename it"),
        ["tumbling", "two columns of one name", "window_start", "hint: rename it"],
    ),
    "SchemaMismatch.wrong_type": (
        SchemaMismatch.wrong_type("stream", "at", "string", "a timestamp", "parse it"),
        ["stream", "column  at", "type    string", "wanted  a timestamp", "hint: parse it"],
    ),
    "BrokenPunctuation.by": (
        BrokenPunctuation.by("source 'a'", "insert(x, 3, 4)", 5),
        ["source 'a'", "behind a punctuation", "insert(x, 3, 4)", "complete before  5", "hint: punctuate later"],
    ),
    "BrokenOrder.by": (
        BrokenOrder.by("step 'union#1'", "time 3", "time 5"),
        ["step 'union#1'", "declared ordered", "element     time 3", "came after  time 5", "hint: drop"],
    ),
    "LateEvent.of": (
        LateEvent.of("step 'punctuate#1'", {"at": 3}, "3", "5"),
        [
            "step 'punctuate#1'",
            "was complete already",
            "{'at': 3}",
            "event time       3",
            "complete before  5",
            "hint: have more",
        ],
    ),
    "UnknownEvent.adjusted_by": (
        UnknownEvent.adjusted_by("table", "adjust(x, 1, 2, 3)"),
        ["table", "not there", "adjust(x, 1, 2, 3)", "hint: payload, start and prior_end"],
    ),
    "BackwardInterval.of": (
        BackwardInterval.of("source 'a'", "row 3: {}"),
        ["source 'a'", "ends before it starts", "row 3: {}"],
    ),
    "BadTime.missing": (
        BadTime.missing("source 'a'", "at", 7),
        ["source 'a'", "without a time", "column  at", "row     7", "hint: filter such rows out"],
    ),
    "BadTime.overflow": (
        BadTime.overflow("step 'tumbling#1'", "insert(x, 3, 4)", "adding 10"),
        ["step 'tumbling#1'", "int64", "insert(x, 3, 4)", "while    adding 10", "hint: no event"],
    ),
    "BadTime.too_fine": (
        BadTime.too_fine("source 'a'", "at", 2, 1_001),
        ["source 'a'", "finer than a microsecond", "column       at", "row          2", "1001", "hint: round"],
    ),
    "BadPairing.by": (
        BadPairing.by("stream", "close(x, 3)", "nothing is open", "open it first"),
        ["stream", "does not fit: nothing is open", "close(x, 3)", "hint: open it first"],
    ),
    "StepFailed.at": (
        StepFailed.at("where#1", 4, {"v": 0}, ZeroDivisionError("division by zero")),
        ["step 'where#1' failed", "row     4", "{'v': 0}", "ZeroDivisionError: division by zero"],
    ),
}


@pytest.mark.parametrize("name", _TEXTS)
def test_a_text_says_where_what_was_guaranteed_what_came_and_what_to_do(name: str) -> None:
    """Each named constructor, once."""
    error, wanted = _TEXTS[name]
    assert isinstance(error, getattr(errors, name.split(".", maxsplit=1)[0]))
    for part in wanted:
        assert part in str(error)


def test_a_step_that_fails_on_all_rows_together_names_no_row() -> None:
    """Only what is known is shown."""
    text = str(StepFailed.at("where#1", None, None, ValueError("no")))
    assert text == "step 'where#1' failed\n    cause  ValueError: no"


def test_an_incompatible_output_names_the_condition_and_both_sides() -> None:
    """And keeps them as attributes, for programs."""
    error = Incompatible.because("C1", "it was frozen", ("a", "b"), ("c",))
    assert str(error) == "C1: it was frozen\n    output  a, b\n    inputs  c"
    assert (error.condition, error.output_events, error.input_events) == ("C1", ("a", "b"), ("c",))
    assert "inputs" not in str(Incompatible.because("C2", "x", ("a",), ()))


def test_an_error_of_a_run_carries_nothing_until_the_run_says_so() -> None:
    """The attribute is always there."""
    assert RunError("x").emitted == ()
