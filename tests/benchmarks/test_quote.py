"""The figures that documents quote are those of committed results, each rounded, none typed by hand."""

from __future__ import annotations

import doctest
import json
from typing import TYPE_CHECKING

import pytest

import measure
import quote

if TYPE_CHECKING:
    from pathlib import Path

_RESULTS = quote.ROOT / "benchmarks" / "results"
_FIGURES = quote.kept(_RESULTS)
_DOCUMENTS = pytest.mark.parametrize("document", quote.DOCUMENTS, ids=lambda path: str(path.relative_to(quote.ROOT)))


@_DOCUMENTS
def test_every_quoted_figure_is_the_rounded_value_of_a_committed_result(document: Path) -> None:
    """`make figures` would change nothing."""
    text = document.read_text(encoding="utf-8")
    assert quote.filled(text, _FIGURES) == text, "run `make figures`"


@_DOCUMENTS
def test_documents_quote_many_figures(document: Path) -> None:
    """So that the test above cannot pass by finding none."""
    assert len(quote.names_in(document.read_text(encoding="utf-8"))) >= 20


@_DOCUMENTS
def test_a_figure_that_is_quoted_is_one_that_the_benchmark_measures(document: Path) -> None:
    """A misspelled name would be shown as not measured for ever."""
    for file, name in quote.names_in(document.read_text(encoding="utf-8")):
        if _format_of(file) == measure.FORMAT:
            assert name in _FIGURES[file], f"{file}.{name} is quoted, and no figure of a full run"


@pytest.mark.parametrize("file", ["sort", "bands", "merge"])
def test_every_figure_of_a_full_run_is_documented(file: str) -> None:
    """A field of the last line that no table explains means nothing."""
    if _format_of(file) == measure.FORMAT:
        text = quote.DOCUMENTS[1].read_text(encoding="utf-8")
        explained = {name for of, name in quote.names_in(text) if of == file}
        assert {name for name in _FIGURES[file] if not name.startswith("machine.")} <= explained


def test_no_figure_stands_in_the_prose_of_the_readme() -> None:
    """What is quoted stands in a table, where a result is behind it."""
    assert quote.unquoted((quote.ROOT / "README.md").read_text(encoding="utf-8")) == []


def test_a_figure_that_was_not_measured_is_a_dash() -> None:
    """It is neither left out nor left as it was."""
    table = "| what | measured | figure |\n|---|--:|---|\n| speed | 7 | `sort.speed`, `spark.speed` |"
    assert "| 2.5, – |" in quote.filled(table, {"sort": {"speed": 2.5}})  # noqa: RUF001 - the dash


def test_a_cell_may_name_its_figures_in_a_comment() -> None:
    """Readers of the document do not see it; other cells of the row are left alone."""
    row = "| 1 | 7 <!-- sort.a_least sort.a_most --> | x | 8 <!-- sort.b --> |"
    figures = {"sort": {"a_least": 1.0, "a_most": 2.0, "b": 300.0}}
    right = "| 1 | 1.0 to 2.0 <!-- sort.a_least sort.a_most --> | x | 300 <!-- sort.b --> |"
    assert quote.filled(row, figures) == right
    assert quote.names_in(row) == [("sort", "a_least"), ("sort", "a_most"), ("sort", "b")]


def test_the_least_and_the_most_are_a_range() -> None:
    """Two figures of other names stand side by side."""
    assert quote.quoted([("sort.ns_least", 14.6), ("sort.ns_most", 29.2)]) == "15 to 29"
    assert quote.quoted([("sort.a", 14.6), ("sort.b", 29.2)]) == "15, 29"


def test_beside_a_goal_a_figure_is_as_exact_as_the_goal() -> None:
    """Rounded to two digits, 1.054 would look like more than a goal of at most 1.05; other units are left alone."""
    table = "| what | goal | measured | figure |\n|---|---|--:|---|\n| cost | ≤ 1.05{} | ? | `sort.cost`, `sort.ms` |"
    figures = {"sort": {"cost": 1.054, "ms": 1.31}}
    assert "| 1.05, 1.31 |" in quote.filled(table.format(""), figures)
    assert "| 1.05, 1.3 |" in quote.filled(table.format(", ≤ 1,000"), figures)
    assert "| 1.1, 1.3 |" in quote.filled(table.replace("goal", "aim"), figures)
    assert "| 1.05, 8.3 |" in quote.filled(table.format(""), {"sort": {"cost": 1.054, "ms": 8.31}})


def test_the_examples_of_the_script_hold() -> None:
    """Its docstrings show how tables are read and numbers rounded."""
    assert doctest.testmod(quote).failed == 0


def _format_of(file: str) -> int:
    """Which names the figures of a result file have; 0 if there is none, or it is from before names were honest."""
    path = _RESULTS / f"{file}.json"
    return int(json.loads(path.read_text(encoding="utf-8")).get("format", 0)) if path.exists() else 0
