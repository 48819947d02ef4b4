"""Computations as explain() and messages write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from slackwater.columns.expression_text import describe

if TYPE_CHECKING:
    import pyarrow as pa


class _Doubled:
    """A callable that is not a function."""

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        return rows.column("v")


def _named(rows: pa.RecordBatch) -> pa.Array:
    return rows.column("v")


@pytest.mark.parametrize(
    ("computation", "text"),
    [
        (nw.col("amount") > 0, "amount > 0"),
        (nw.col("a") == nw.col("b"), "a == b"),
        (nw.col("a") * 2, "a * 2"),
        (nw.col("a"), "a"),
        ((nw.col("a") + nw.col("b")) * 2, "(a + b) * 2"),
        ((nw.col("a") > 0) & (nw.col("b") < 9), "(a > 0) & (b < 9)"),
        (nw.col("name").str.starts_with("x"), "name.str.starts_with(x)"),
        (_named, "_named"),
        (_Doubled(), "_Doubled"),
    ],
)
def test_a_computation_is_described_on_one_line(computation: Any, text: str) -> None:
    """As people would write it."""
    assert describe(computation) == text


@pytest.mark.parametrize(
    "computation",
    [
        ((nw.col("a") > 0) & (nw.col("b") < 9)) | ~(nw.col("a") == 3),
        (nw.col("a") + nw.col("b")) * 2 > 7,
        -nw.col("a").abs() // 2 % 3,
    ],
)
def test_a_nested_computation_is_described_without_the_machinery(computation: nw.Expr) -> None:
    """Python's own names for operators are nobody's business, and brackets must match."""
    text = describe(computation)
    assert "__" not in text
    assert text.count("(") == text.count(")")
    assert "\\n" not in text
