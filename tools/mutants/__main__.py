"""Plants small bugs and says which of them no test notices.

    python tools/mutants [--of NAME ...] [--most 60] [--seed 1] [--jobs 2]

A seeded sample of the changes of kernels, operators and the sinks of Spark, the same for the same seed; survivors are
listed at the end with the place to look at. Those that change no behaviour stand in `explained.txt`, with the reason.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent))

from changes import Change, changes_of
from workshop import PACKAGE, Verdict, Workshop

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROJECT: Final = Path(__file__).parents[2]
_ROOMS: Final = ("kernels", "operators", "runners/in_process", "runners/spark/sinks.py")
_EXPLAINED: Final = Path(__file__).with_name("explained.txt")


def candidates(names: Sequence[str]) -> list[tuple[Path, Change]]:
    """The changes of all files whose path has one of these names in it, less the explained ones."""
    explained = read_explained(_EXPLAINED.read_text())
    found = []
    for file in sorted((_PROJECT / PACKAGE).rglob("*.py")):
        path = file.relative_to(_PROJECT)
        if any(name in path.as_posix() for name in names):
            found += [
                (path, change)
                for change in changes_of(file.read_text())
                if f"{path.relative_to(PACKAGE)}: {change.key}" not in explained
            ]
    return found


def read_explained(text: str) -> set[str]:
    r"""The changes that are explained: every line that is neither a comment nor a reason (indented).

    >>> read_explained("# head\nkernels/a.py: f: x < 3 -> x <= 3\n    both give the same\n")
    {'kernels/a.py: f: x < 3 -> x <= 3'}
    """
    return {line for line in text.splitlines() if line and line[0] not in "# "}


def main() -> int:
    """Run a sample; say how many were noticed, and list the rest."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--of", nargs="*", default=list(_ROOMS), help="parts of paths of files")
    options.add_argument("--most", type=int, default=60)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    chosen = options.parse_args()
    sample = candidates(chosen.of)
    random.Random(chosen.seed).shuffle(sample)  # noqa: S311 - a sample, not a secret
    sample = sample[: chosen.most]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        workshops: SimpleQueue[Workshop] = SimpleQueue()
        for number in range(chosen.jobs):
            workshops.put(Workshop(_PROJECT, Path(folder) / str(number)))

        def trial(one: tuple[Path, Change]) -> Verdict:
            workshop = workshops.get()
            try:
                verdict = workshop.try_out(*one)
            finally:
                workshops.put(workshop)
            print(_line(verdict), flush=True)
            return verdict

        with ThreadPoolExecutor(chosen.jobs) as pool:
            verdicts = list(pool.map(trial, sample))
    survivors = [verdict for verdict in verdicts if verdict.killed_by is None]
    print(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} planted bugs were noticed; not noticed:")
    for verdict in survivors:
        print(f"{verdict.file.relative_to(PACKAGE)}: {verdict.change.key}    (line {verdict.change.line})")
    return 0


def _line(verdict: Verdict) -> str:
    fate = f"noticed by {verdict.killed_by}" if verdict.killed_by else "NOT NOTICED"
    place = f"{verdict.file.relative_to(PACKAGE)}:{verdict.change.line}"
    return f"{verdict.seconds:5.0f} s  {place}  {verdict.change.what}  {fate}"


if __name__ == "__main__":
    sys.exit(main())
