"""The words of code and texts are those of the field; those that only we used are gone for good."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import slackwater

_ROOT = Path(slackwater.__file__).parent

_PRIVATE = re.compile(
    r"\b(said|told|tells?|telling|untold|deals?|dealt|dealing|doubts?|doubted|judges?|judged|judging|promis(?:e|es|ed|ing)"
    r"|heard|unheard|inlets?|RowStep|JudgeLateness|DoubtEnd|HostAll|WHEN_TOLD|taken_apart|say_between|kept_word|stands_for"
    r"|tells_from|ties_alike)\b",
    re.IGNORECASE,
)
"""What docs/decisions/0041 replaced: each had several meanings, or one that a Spark engineer could not guess."""

_QUOTED = {"testing/reference/patience_loops.py"}
"""Files that quote a paper's own word."""


_TESTS = Path(__file__).parents[1]

_IN_TESTS = re.compile(
    r"(?<![A-Za-z])(said|told|tells?|telling|untold|deals?|dealt|dealing|judg(?:e|es|ed|ing|ement)|promis(?:e|es|ed|ing))"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
"""The same in tests, parts of names included; their data may be heard, and a function given the benefit of a doubt."""

_NOT_LOOKED_INTO = {
    "public_api/test_words.py",
    # These speak of patience sort, where a paper says that cards are dealt to runs.
    "disorder/test_profile.py",
    "papers/test_impatience_examples.py",
    "testing/reference/test_patience_sorter.py",
}


def _test_files() -> list[Path]:
    files = {file.relative_to(_TESTS).as_posix(): file for file in sorted(_TESTS.rglob("*.py"))}
    return [file for name, file in files.items() if name not in _NOT_LOOKED_INTO]


@pytest.mark.parametrize("file", _test_files(), ids=lambda file: str(file.relative_to(_TESTS)))
def test_tests_speak_as_the_code_does(file: Path) -> None:
    """Names, docstrings and comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines if _IN_TESTS.search(line)] == []


@pytest.mark.parametrize("file", sorted(_ROOT.rglob("*.py")), ids=lambda file: str(file.relative_to(_ROOT)))
def test_no_private_word_is_left(file: Path) -> None:
    """A replica sends, an operator emits, a punctuation shows what is complete."""
    if file.relative_to(_ROOT).as_posix() not in _QUOTED:
        lines = file.read_text(encoding="utf-8").splitlines()
        assert [line.strip() for line in lines if _PRIVATE.search(line)] == []
