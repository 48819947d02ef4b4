"""Plants small bugs and says which of them no test notices.

    python tools/mutants [--of NAME ...] [--most 60] [--seed 1] [--jobs 2] [--folder KEPT] [--again SURVIVORS]

A seeded sample of the changes of kernels, operators and the sinks of Spark, the same for the same seed; survivors are
listed at the end with the place to look at. Those that change no behaviour stand in `explained.txt`, with the reason.

First all tests are watched once, which takes minutes; with `--folder` this is done once for many runs. Each change is
then set against the tests that enter the changed function. It is made in memory, in a fork;
in what runs on Spark, in a copy of the project; never in the project.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent))

from changes import Change, changes_of
from nearest_tests import PACKAGE, NearestTests
from workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verdict import Verdict

_PROJECT: Final = Path(__file__).parents[2]
_SINKS: Final = (
    "runners/spark/output/sinks.py",
    "runners/spark/output/folder_sink.py",
    "runners/spark/input/parquet_files.py",
)
_ROOMS: Final = ("kernels", "columns", "operators", "runners/in_process", *_SINKS)
_EXPLAINED: Final = Path(__file__).with_name("explained.txt")


def candidates(names: Sequence[str]) -> list[tuple[Path, Change]]:
    """The changes of all functions that have one of these names in their `file:function`, less the explained ones."""
    explained = read_explained(_EXPLAINED.read_text())
    found = []
    for file in sorted((_PROJECT / PACKAGE).rglob("*.py")):
        path = file.relative_to(_PROJECT)
        place = path.relative_to(PACKAGE).as_posix()
        found += [
            (path, change)
            for change in changes_of(file.read_text())
            if any(name in f"{place}:{change.inside}" for name in names)
            and explained.isdisjoint({f"{place}: {change.key}", f"{place}: {change.inside}: any change"})
        ]
    return found


def read_explained(text: str) -> set[str]:
    r"""The changes that are explained: every line that is neither a comment nor a reason (indented).

    Of a function that only chooses between two ways to the same result `any change` is explained.

    >>> read_explained("# head\nkernels/a.py: f: x < 3 -> x <= 3\n    both give the same\n")
    {'kernels/a.py: f: x < 3 -> x <= 3'}
    """
    return {line for line in text.splitlines() if line and line[0] not in "# "}


def main() -> int:
    """Run a sample; say how many were noticed, and list the rest."""
    chosen = _options().parse_args()
    sample = candidates(chosen.of)
    random.Random(chosen.seed).shuffle(sample)  # noqa: S311 - a sample, not a secret
    if chosen.again is not None:
        again = {line.partition("    (line")[0] for line in chosen.again.read_text().splitlines()}
        sample = [one for one in sample if f"{one[0].relative_to(PACKAGE)}: {one[1].key}" in again]
    sample = sample[: chosen.most]
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        verdicts = _verdicts(sample, chosen.folder.resolve() if chosen.folder else Path(temporary), chosen)
    survivors = [verdict for verdict in verdicts if verdict.killed_by is None]
    print(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} planted bugs were noticed; not noticed:")
    for verdict in survivors:
        print(f"{verdict.file.relative_to(PACKAGE)}: {verdict.change.key}    (line {verdict.change.line})")
    return 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--of", nargs="*", default=list(_ROOMS), help="parts of file:function")
    options.add_argument("--most", type=int, default=60, help="how many changes are tried")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seconds", type=float, default=20, help="of tests, as noted, for each change")
    options.add_argument("--minutes", type=float, default=10_000, help="after which no further change is tried")
    options.add_argument("--folder", type=Path, help="where copies and notes are kept for the next run")
    options.add_argument("--again", type=Path, help="try only the changes of this file, listed as survivors are")
    return options


def _verdicts(sample: list[tuple[Path, Change]], folder: Path, chosen: argparse.Namespace) -> list[Verdict]:
    """What became of each change: of what runs on Spark in copies, of all others in forks; some at once."""
    end = time.monotonic() + 60 * chosen.minutes
    made = [Workshop(_PROJECT, folder / str(number)) for number in range(chosen.jobs)]
    workshops: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in made:
        workshops.put(workshop)
    verdicts: list[Verdict] = []

    def report(verdict: Verdict) -> None:
        verdicts.append(verdict)
        print(_line(verdict), flush=True)

    def trial(one: tuple[Path, Change]) -> None:
        if time.monotonic() > end:
            return
        workshop = workshops.get()
        try:
            report(workshop.try_on_spark(*one))
        finally:
            workshops.put(workshop)

    on_spark = [one for one in sample if "spark" in one[0].parts]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(trial, on_spark))
    here = [one for one in sample if one not in on_spark]
    if here:
        nearest = NearestTests(_PROJECT, made[0].watch(chosen.jobs))
        made[0].try_in_forks(here, nearest, (chosen.jobs, chosen.seconds, end), report)
    return verdicts


def _line(verdict: Verdict) -> str:
    asked = f"{len(verdict.asked.tests)} tests, {verdict.asked.left_out} left out"
    action = f"noticed by {verdict.killed_by}" if verdict.killed_by else f"NOT NOTICED ({asked})"
    place = f"{verdict.file.relative_to(PACKAGE)}:{verdict.change.line}"
    return f"{verdict.seconds:5.0f} s  {place}  {verdict.change.what}  {action}"


if __name__ == "__main__":
    sys.exit(main())
