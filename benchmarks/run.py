"""Runs one benchmark or all: readable tables first, and one JSON object of named figures as the last line."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

import bands
import ets
import merge
import merge_scenarios
import sort
import sort_as_needed
import spark
import union
from measure import Report, machine

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHMARKS: dict[str, tuple[Callable[..., None], ...]] = {
    "ets": (ets.run, union.run),
    "union": (union.run,),
    "sort": (sort.run,),
    "sort_as_needed": (sort_as_needed.run,),
    "bands": (bands.run,),
    "merge": (merge.run, merge_scenarios.run),
    "spark": (spark.run,),
}
"""What each name runs. The union's throughput belongs to the figures of on-demand punctuations too."""


def main() -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*BENCHMARKS, "all"])
    parser.add_argument("--quick", action="store_true", help="short runs; nothing is saved")
    arguments = parser.parse_args()
    print("machine:", ", ".join(f"{name} {value}" for name, value in machine().items()))
    figures: dict[str, float] = {}
    for name in BENCHMARKS if arguments.name == "all" else [arguments.name]:
        begun = time.perf_counter()
        report = Report(name)
        for part in BENCHMARKS[name]:
            part(report, quick=arguments.quick)
        print(f"\n{name}: {time.perf_counter() - begun:.0f} s")
        if not arguments.quick:
            report.save()
        figures |= report.figures
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
