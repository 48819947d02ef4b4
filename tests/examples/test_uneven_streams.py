"""The example of two uneven streams, for a moment: it prints its plan, some pairs and the comparison."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_EXAMPLE = Path(__file__).parents[2] / "examples" / "uneven_streams.py"


def test_every_order_is_priced_with_and_without_punctuations(capsys: pytest.CaptureFixture[str]) -> None:
    """The same arrivals make the same pairs; on demand the join hardly waits."""
    example = runpy.run_path(str(_EXAMPLE))
    example["feed"].__globals__["SECONDS"] = 0.4
    example["main"]()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("join#1")
    (without, on_demand) = (line.split() for line in printed[-2:])
    assert without[0] == "none"
    assert on_demand[:2] == ["on", "demand"]
    assert int(without[1]) == int(on_demand[2]) > 0
