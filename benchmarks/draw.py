"""One look for all pictures: plain axes, few colours, the machine in the corner."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Iterator

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
"""Where the pictures of the documents are."""

COLOURS = {"A": "#b2182b", "B": "#2166ac", "C": "#1a9850", "D": "#762a83"}
"""One colour for each scenario, in every picture."""


@contextmanager
def picture(name: str, title: str, machine: dict[str, Any]) -> Iterator[Any]:
    """Give axes to draw on, then save them as an SVG that is the same for the same data."""
    mpl.rcParams.update(
        {
            "svg.hashsalt": name,
            "svg.fonttype": "none",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.set_title(title, loc="left")
    yield axes
    figure.text(0.995, 0.005, f"{machine['cpu']}, {machine['cores']} cores", ha="right", fontsize=7, color="#666666")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
