"""Plants small bugs and says which of them no test notices.

    python tools/mutants [--of NAME ...] [--most 60] [--seed 1] [--jobs 2] [--folder KEPT] [--again SURVIVORS]

A seeded sample of the changes of kernels, operators, the runner in process, and shards, state and sinks of Spark, the
same for the same seed and the same number from each of them; survivors are listed at the end with the place to look at.
Those that change no behaviour stand in `explained.txt`, with the reason.

First all tests without Spark are watched once, which takes minutes; with `--folder` this is done once for many runs.
Each change is then set against the tests that enter the changed function. It is made in memory, in a fork. What runs on
Spark and is noticed by none of them is tried with Spark, in a copy of the project; never in the project.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent))

from changes import Change, changes_of
from nearest_tests import PACKAGE, Chosen, NearestTests
from workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verdict import Verdict

_PROJECT: Final = Path(__file__).parents[2]
_ON_SPARK: Final = tuple(f"runners/spark/{name}" for name in ("input/parquet_files.py", "output/", "shard/", "state/"))
_ROOMS: Final = ("kernels/", "columns/", "operators/", "runners/in_process/", *_ON_SPARK)
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
    sample = in_turn(chosen.of, candidates(chosen.of), chosen.seed)
    if chosen.again is not None:
        again = {line.partition("    (line")[0] for line in chosen.again.read_text().splitlines()}
        sample = [one for one in sample if f"{one[0].relative_to(PACKAGE)}: {one[1].key}" in again]
    sample = sample[: chosen.most]
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        verdicts = _verdicts(sample, chosen.folder.resolve() if chosen.folder else Path(temporary), chosen)
    _list("said nothing", [verdict for verdict in verdicts if verdict.unsure])
    verdicts = [verdict for verdict in verdicts if not verdict.unsure]
    planted, noticed = (Counter(_folder(one) for one in some) for some in (verdicts, filter(_noticed, verdicts)))
    print("\nnoticed of planted:", ", ".join(f"{name} {noticed[name]}/{planted[name]}" for name in sorted(planted)))
    print(f"{noticed.total()} of {planted.total()} planted bugs were noticed.")
    _list("not noticed", [verdict for verdict in verdicts if not _noticed(verdict)])
    return 0


def in_turn(names: Sequence[str], found: list[tuple[Path, Change]], seed: int) -> list[tuple[Path, Change]]:
    """Shuffle changes, then take one of the first name, one of the next, and so on: each has its share of a sample."""
    random.Random(seed).shuffle(found)  # noqa: S311 - a sample, not a secret
    dealt: dict[str, list[tuple[Path, Change]]] = {name: [] for name in names}
    for one in found:
        place = f"{one[0].relative_to(PACKAGE).as_posix()}:{one[1].inside}"
        dealt[next(name for name in names if name in place)].append(one)
    return [one for one in chain.from_iterable(zip_longest(*dealt.values())) if one is not None]


def _folder(verdict: Verdict) -> str:
    return verdict.file.parent.relative_to(PACKAGE).as_posix()


def _noticed(verdict: Verdict) -> bool:
    return verdict.killed_by is not None


def _list(title: str, verdicts: list[Verdict]) -> None:
    print(f"\n{title}:" if verdicts else "", end="\n" if verdicts else "")
    for verdict in verdicts:
        print(f"{verdict.file.relative_to(PACKAGE)}: {verdict.change.key}    (line {verdict.change.line})")


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
    """What became of each change: all are tried in forks, and what runs on Spark, if not noticed there, in copies."""
    end = time.monotonic() + 60 * chosen.minutes
    made = [Workshop(_PROJECT, folder / str(number)) for number in range(chosen.jobs)]
    workshops: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in made:
        workshops.put(workshop)
    verdicts: list[Verdict] = []
    not_yet: list[Verdict] = []

    def report(verdict: Verdict) -> None:
        verdicts.append(verdict)
        print(_line(verdict), flush=True)

    def report_or_go_on(verdict: Verdict) -> None:
        (not_yet.append if "spark" in verdict.file.parts and not _noticed(verdict) else report)(verdict)

    def trial_on_spark(before: Verdict) -> None:
        if time.monotonic() > end:
            return
        workshop = workshops.get()
        try:
            verdict = workshop.try_on_spark(before.file, before.change)
        finally:
            workshops.put(workshop)
        asked = Chosen(before.asked.tests + verdict.asked.tests, before.asked.left_out)
        report(replace(verdict, asked=asked, seconds=before.seconds + verdict.seconds))

    nearest = NearestTests(_PROJECT, made[0].watch(chosen.jobs))
    made[0].try_in_forks(sample, nearest, (chosen.jobs, chosen.seconds, end), report_or_go_on)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        list(pool.map(trial_on_spark, not_yet))
    return verdicts


def _line(verdict: Verdict) -> str:
    asked = f"{len(verdict.asked.tests)} tests, {verdict.asked.left_out} left out"
    action = f"noticed by {verdict.killed_by}" if verdict.killed_by else f"NOT NOTICED ({asked})"
    action = f"SAYS NOTHING: {verdict.unsure}" if verdict.unsure else action
    place = f"{verdict.file.relative_to(PACKAGE)}:{verdict.change.line}"
    return f"{verdict.seconds:5.0f} s  {place}  {verdict.change.what}  {action}"


if __name__ == "__main__":
    sys.exit(main())
