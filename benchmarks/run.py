"""Runs one benchmark or all: readable tables first, and one JSON object of named figures as the last line."""

from __future__ import annotations

import argparse
import json
import time
from importlib import import_module

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "ets": ("ets", "union"),
    "union": ("union",),
    "sort": ("sort",),
    "sort_as_needed": ("sort_as_needed",),
    "bands": ("bands", "windows"),
    "merge": ("merge", "merge_scenarios", "plan_switching"),
    "deduplicate": ("deduplicate",),
    "heartbeats": ("heartbeats", "releases", "heartbeats_on_spark"),
    "spark": ("spark",),
    "spark_held": ("spark_held",),
}
"""The modules that each name runs, imported when they are: processes that some of them start import this file again.

The union's throughput belongs to the figures of on-demand punctuations too.
"""


def main() -> None:
    """Read the arguments, run, print."""
    from measure import Report, machine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*BENCHMARKS, "all"])
    parser.add_argument("--quick", action="store_true", help="short runs; nothing is saved")
    arguments = parser.parse_args()
    print("machine:", ", ".join(f"{name} {value}" for name, value in machine().items()))
    figures: dict[str, float] = {}
    for name in BENCHMARKS if arguments.name == "all" else [arguments.name]:
        begun = time.perf_counter()
        report = Report(name)
        for module in BENCHMARKS[name]:
            import_module(module).run(report, quick=arguments.quick)
        print(f"\n{name}: {time.perf_counter() - begun:.0f} s")
        if not arguments.quick:
            report.save()
        figures |= report.figures
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
