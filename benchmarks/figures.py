"""Redraws the pictures of the documents from the kept results of full benchmark runs."""

from __future__ import annotations

import json
from typing import Any

from draw import COLOURS, picture
from measure import RESULTS


def main() -> None:
    """Draw everything there are results for."""
    kept = RESULTS / "ets.json"
    if kept.exists():
        ets(json.loads(kept.read_text(encoding="utf-8")))


def ets(kept: dict[str, Any]) -> None:
    """Figures 7 and 8 of the on-demand time-stamp paper, for the union and for the join."""
    for operator, prefix in (("union", "ets"), ("join", "ets_join")):
        series = kept["series"][operator]
        _by_rate(
            f"{prefix}_latency",
            f"Mean latency of the {operator}, 500 and 0.5 events/s (figure 7)",
            "mean latency, ms",
            kept["machine"],
            [(rate, latency) for rate, latency, _ in series["periodic"]],
            {"A": series["none"][0], "C": series["demand"][0]},
        )
        _by_rate(
            f"{prefix}_queue",
            f"Most elements waiting at the {operator}, 500 and 0.5 events/s (figure 8)",
            "peak queue, elements",
            kept["machine"],
            [(rate, queue) for rate, _, queue in series["periodic"]],
            {"A": series["none"][1], "C": series["demand"][1]},
        )


_LABELS = {"A": "A  no punctuations", "B": "B  periodic", "C": "C  on demand"}


def _by_rate(
    name: str,
    title: str,
    what: str,
    machine: dict[str, Any],
    periodic: list[tuple[float, float]],
    constant: dict[str, float],
) -> None:
    with picture(name, title, machine) as axes:
        rates, values = zip(*periodic, strict=True)
        axes.plot(rates, values, marker="o", color=COLOURS["B"], label=_LABELS["B"])
        for scenario, value in constant.items():
            axes.axhline(value, color=COLOURS[scenario], linestyle="--", label=_LABELS[scenario])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("periodic punctuations per second")
        axes.set_ylabel(what)
        axes.legend(frameon=False)


if __name__ == "__main__":
    main()
