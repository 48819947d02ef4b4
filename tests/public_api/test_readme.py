"""The README's examples run as they stand and print what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

_README = Path(__file__).parents[2] / "README.md"
# Code with its output right behind it; what has none needs Spark, and is run where Spark is.
_EXAMPLES = re.findall(r"```python\n((?:(?!```).)*)```\s+```\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("code", "output"), _EXAMPLES, ids=[f"example {n + 1}" for n in range(len(_EXAMPLES))])
def test_an_example_of_the_readme_prints_what_the_readme_says(code: str, output: str) -> None:
    """Paste the code into Python and compare, letter by letter."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - that is the test
    assert printed.getvalue().strip() == output.strip()


def test_the_readme_has_examples() -> None:
    """Twelve examples are found, so that the test above cannot pass by finding none."""
    assert len(_EXAMPLES) == 12
