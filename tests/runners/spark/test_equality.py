"""Equality on real Spark: random plans over random rows give what the same cuts give in process.

A seed makes a plan of any steps, rows, and cuts of these to files (`random_plans.py`). It is run as a stream, a file of
each source per micro-batch, with sinks for all outputs and late rows; and over frames that end. To repeat one, name it:

    pytest "tests/runners/spark/test_equality.py::test_a_classic_session_gives_what_one_process_gives[17]"

with `-m long` before it for those that are only run at night. Cost: about eight seconds of a core for each plan.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from without_spark import all_outputs, in_process, in_shards, shard_plan

import slackwater as sw
from slackwater.errors import LateEvent
from slackwater.plan.explain import explain
from slackwater.plan.node import StepNode, walk
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.rows import AssignWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

COMPILED = True
"""Spark's own steps and expressions are compared with ours."""

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_FOLDER = Path(__file__).parent
_DRIVER = _FOLDER / "drive_equality.py"
# Not imported: what workers are sent must not refer to a module that they cannot find.
_ON_SPARK = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_PLANS = SimpleNamespace(**runpy.run_path(str(_FOLDER / "random_plans.py")))

_CLASSIC = (1294, 1168, 1362, 1968, 1448, 1704)
_CONNECT = (1299, 1525)
"""Seeds that meet every step between them, as a test below says; of three files, and with eight shards once: cheap."""

_MORE_CLASSIC = range(500, 560)
_MORE_CONNECT = range(600, 620)
_PATIENT_SECONDS = 120

_IN_ORDER = ("rows_in_order", "refusals", "bands_of_events")
"""Plans that give an order to the last row: ties as they came."""


def _seeds(always: Sequence[int], at_night: Sequence[int]) -> list[Any]:
    return [*always, *(pytest.param(seed, marks=pytest.mark.long) for seed in at_night)]


# ---- what is expected ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Expected:
    """What a plan gives in process."""

    case: Any
    one_output: bool = False
    """Whether it is the plan for frames that end, whose rows come all at once, and then no more."""

    def planned(self, streams: list[sw.DisorderedStream]) -> Any:
        """The plan, which is one instant per cut."""
        return self.case.planned(streams, every=sw.Every.batch(), one_output=self.one_output)

    @cached_property
    def cuts(self) -> list[list[pa.Table]]:
        """The rows of each source."""
        return [[table] for table in self.case.whole] if self.one_output else self.case.cuts

    @cached_property
    def outputs(self) -> dict[str, Any]:
        """All outputs, by name."""
        sources = [sw.PushSource(self.case.times.schema, name=f"source {n}") for n in range(len(self.cuts))]
        outputs: dict[str, Any] = all_outputs(self.planned([sw.stream(source, time="at") for source in sources]))
        return outputs

    @cached_property
    def shard_plan(self) -> Any:
        """The plan as shards have it."""
        return shard_plan(self.planned, [self.case.times.schema] * len(self.cuts), self.case.shards)

    @cached_property
    def _run(self) -> tuple[list[Any], str | None]:
        return _as_far_as_they_come(in_process(self.planned, self.cuts))

    @property
    def rounds(self) -> list[Any]:
        """What each cut releases, and then the flush, as far as it comes."""
        return self._run[0]

    @property
    def failure(self) -> str | None:
        """Why it fails, if it does."""
        return self._run[1]

    @property
    def may_come_early(self) -> bool:
        """Whether shards may know more than one process.

        Spans of unchanged lifetimes, and values of keys, go out in order of their starts: where keys are held back by
        others, they come earlier in a shard that has not all of them.
        """
        verbs = {getattr(n, "verb", "") for n in self.shard_plan.names}
        return self.shard_plan.shards > 1 and bool({"cut_at_changes", "upserts"} & verbs)

    def __str__(self) -> str:
        """All that is needed to repeat it."""
        case, shards = self.case, self.shard_plan.shards
        files = [[table.num_rows for table in tables] for tables in self.cuts]
        plan = explain(*(stream.node for stream in self.outputs.values()))
        return f"seed {case.seed} ({case.shape}), {shards} of {case.shards} shards, rows of files {files}\n{plan}"


def _as_far_as_they_come(rounds: Iterator[Any]) -> tuple[list[Any], str | None]:
    """What each round releases, and why there are no more, if a row was late that must not be."""
    found: list[Any] = []
    try:
        found.extend(rounds)
    except LateEvent as error:
        return found, f"LateEvent: {error}"
    return found, None


def _spelled(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [str(row) for row in rows]


def _assert_same(expected: _Expected, found: Sequence[Any], rounds: Sequence[Any]) -> None:
    """The same rows in each round, late rows with their bounds; in the same order, where the plan has one."""
    assert len(found) == len(rounds), f"{len(found)} micro-batches instead of {len(rounds)}\n{expected}"
    for output, stream in expected.outputs.items():
        ours, theirs = ([_spelled(one[output]) for one in given] for given in (found, rounds))
        if expected.may_come_early:
            final = [_spelled(one[output]) for one in expected.rounds]
            _assert_rows(expected, output, _by_and_by(ours), _by_and_by(theirs), upper=_by_and_by(final)[-1])
        else:
            _assert_rows(expected, output, list(map(Counter, ours)), list(map(Counter, theirs)))
        if expected.case.shape in _IN_ORDER:
            assert ours == theirs, f"{output}: the same rows in another order\n{expected}"
        if expected.shard_plan.shards == 1 and stream.properties.ordered:
            times = [row[stream.schema.names[0]] for one in found for row in one[output]]
            assert all(one <= next_one for one, next_one in pairwise(times)), f"{output}: out of order\n{expected}"


def _by_and_by(rounds: Sequence[list[str]]) -> list[Counter[str]]:
    """All rows up to each round."""
    return [Counter(row for earlier in rounds[: number + 1] for row in earlier) for number in range(len(rounds))]


def _assert_rows(
    expected: _Expected,
    output: str,
    ours: Sequence[Counter[str]],
    theirs: Sequence[Counter[str]],
    upper: Counter[str] | None = None,
) -> None:
    """The same rows in each round, or, up to a bound, more of them."""
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        missing, extra = other - one, one - (other if upper is None else upper)
        if missing or extra:
            lines = [f"{output}, round {number}:", *(f"  only in process  {row}" for row in sorted(missing.elements()))]
            lines += [f"  only in shards   {row}" for row in sorted(extra.elements())]
            pytest.fail("\n".join([*lines, str(expected)]), pytrace=False)


# ---- on Spark --------------------------------------------------------------------------------------------------------


def _assert_stream(case: Any, folder: Path) -> None:
    """What the sinks have is what the cuts release; where one process fails, so does Spark, at the same micro-batch."""
    expected = _Expected(case)
    failed = folder / "stream failed"
    failure_text = failed.read_text() if failed.exists() else None
    assert failure_text == expected.failure, f"{failure_text}\ninstead of\n{expected.failure}\n{expected}"
    rounds = expected.rounds if expected.failure else expected.rounds[:-1]  # a stream is not flushed
    numbers = {
        output: sorted(int(f.stem) for f in (folder / "stream" / output).glob("*")) for output in expected.outputs
    }
    assert numbers == {output: list(range(len(rounds))) for output in expected.outputs}, (
        f"micro-batches {numbers}\n{expected}"
    )
    found = [
        {output: _read(folder / "stream" / output / f"{number}.arrow", s) for output, s in expected.outputs.items()}
        for number in range(len(rounds))
    ]
    _assert_same(expected, found, rounds)


def _assert_batch(case: Any, folder: Path) -> None:
    """What a frame has is what one cut releases, and then the flush."""
    expected = _Expected(case, one_output=True)
    failed = folder / "batch failed"
    assert not failed.exists(), f"{failed.read_text()}\n{expected}"
    ((output, stream),) = expected.outputs.items()
    whole = {output: [row for one in expected.rounds for row in one[output]]}
    _assert_same(expected, [{output: _read(folder / "batch" / "0.arrow", stream)}], [whole])


def _read(file: Path, stream: Any) -> list[dict[str, Any]]:
    """The rows of a file, in the types that they have in process: Spark shows times in the zone of its session."""
    with pa.ipc.open_file(str(file)) as reader:
        rows: list[dict[str, Any]] = reader.read_all().cast(stream.schema).to_pylist()
    return rows


def _wanted(request: pytest.FixtureRequest, test: Callable[..., None]) -> list[Any]:
    """The seeds with which a test of this file is about to be run: what they need is run together."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return [item.callspec.params["seed"] for item in items if item.originalname == test.__name__]


@pytest.fixture(scope="module")
def classic(request: pytest.FixtureRequest, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a classic session gives."""
    folder = tmp_path_factory.mktemp("classic")
    _ON_SPARK.run(session, folder, _wanted(request, test_a_classic_session_gives_what_one_process_gives))
    return folder


@pytest.fixture(scope="module")
def connect(
    request: pytest.FixtureRequest, surroundings: Callable[[Path], dict[str, str]], tmp_path_factory: Any
) -> Iterator[Path]:
    """A folder with what a session of Spark Connect gives, which has a process and a JVM of its own."""
    folder: Path = tmp_path_factory.mktemp("connect")
    seeds = _wanted(request, test_spark_connect_gives_what_one_process_gives)
    command = [sys.executable, str(_DRIVER), str(folder), *map(str, seeds)]
    environment = {**os.environ, **surroundings(folder)}
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)  # noqa: S603
    try:
        assert driver.wait(_PATIENT_SECONDS * (1 + len(seeds))) == 0, (folder / "log").read_text()
        yield folder
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


@pytest.mark.parametrize("seed", _seeds(_CLASSIC, _MORE_CLASSIC))
def test_a_classic_session_gives_what_one_process_gives(seed: int, classic: Path) -> None:
    """As a stream and over frames that end: the same rows, late rows and failures."""
    _assert_stream(_PLANS.Case(seed), classic / str(seed))
    _assert_batch(_PLANS.Case(seed), classic / str(seed))


@pytest.mark.parametrize("seed", _seeds(_CONNECT, _MORE_CONNECT))
def test_spark_connect_gives_what_one_process_gives(seed: int, connect: Path) -> None:
    """The same over Spark Connect."""
    _assert_stream(_PLANS.Case(seed), connect / str(seed))
    _assert_batch(_PLANS.Case(seed), connect / str(seed))


# ---- without Spark ---------------------------------------------------------------------------------------------------


@example(seed=10087, store=False)  # replicas are compared to the flush, of which every shard sees a part
@given(seed=st.integers(0, 10**6), store=st.booleans())
def test_shards_that_are_fed_by_hand_give_what_one_process_gives(seed: int, store: bool) -> None:
    """The same plans in the same shards, without Spark: cheap, so there are more of them."""
    expected = _Expected(_PLANS.Case(seed))
    plan = expected.shard_plan
    cuts = [expected.cuts[int(pipeline.source.name.removeprefix("source "))] for pipeline in plan.pipelines]
    found, failure = _as_far_as_they_come(in_shards(plan, cuts, Random(seed), store=store))
    assert failure == expected.failure, str(expected)
    _assert_same(expected, found, expected.rounds)


# ---- what is tested --------------------------------------------------------------------------------------------------


def _met(expected: _Expected) -> set[str]:
    """Which steps, windows, fates of late rows, kinds of rows and numbers of shards a plan meets."""
    steps = list(walk(*(stream.node for stream in expected.outputs.values())))
    punctuates = [step for step in steps if isinstance(step, Punctuate)]
    sizes = {table.num_rows for tables in expected.cuts for table in tables}
    late = [row for one in expected.rounds for output, rows in one.items() if "main" not in output for row in rows]
    return {
        *(step.verb for step in steps if isinstance(step, StepNode)),
        *(type(step.window).__name__ for step in steps if isinstance(step, AssignWindow)),
        *(str(what.function) for step in steps for what in getattr(step, "aggregates", {}).values()),
        *(f"late rows are {step.late}" for step in punctuates),
        *(f"{len(step.patiences)} bands" for step in punctuates),
        expected.case.shape,
        f"{expected.shard_plan.shards} shards",
        "times of a calendar" if expected.case.times.calendar else "sequence numbers",
        *(["empty file"] if 0 in sizes else []),
        *(["file of one row"] if 1 in sizes else []),
        *(["late rows"] if late else []),
        *(["failure"] if expected.failure else []),
    }


_ALWAYS_MET = {
    *("where", "select", "map_batches", "punctuate", "sort", "union", "join", "followed_by", "aggregate"),
    *("Tumbling", "Hopping", "Sliding", "cut_at_changes", "merge_replicas", "settle", "deduplicate"),
    *("count", "sum", "min", "max", "mean", "count_distinct", "top_k"),
    *("in_bands", "2 bands", "late rows are diverted", "late rows are dropped", "late rows are adjusted"),
    *("times of a calendar", "sequence numbers", "empty file", "file of one row", "late rows"),
    *("replicas", "replicas_of_aggregates", "revised_replicas", "late rows are refused"),
    *("1 shards", "3 shards", "8 shards"),
}
_MET_AT_NIGHT = _ALWAYS_MET | {
    *("3 bands", "failure"),
    *(*_PLANS.SHAPES, *_PLANS.ADDED.values()),
}


@pytest.mark.parametrize(
    ("seeds", "all_of_them"),
    [
        ((*_CLASSIC, *_CONNECT), _ALWAYS_MET),
        pytest.param(_MORE_CLASSIC, _MET_AT_NIGHT, marks=pytest.mark.long),
    ],
)
def test_the_plans_meet_every_step(seeds: Sequence[int], all_of_them: set[str]) -> None:
    """And nearly all have rows that come out before the end: without such a plan shows little."""
    expected = [_Expected(_PLANS.Case(seed)) for seed in seeds]
    assert not all_of_them - set().union(*map(_met, expected))
    early = {one.case.seed: [rounds["main 0"] for rounds in one.rounds[: len(one.cuts[0])]] for one in expected}
    silent = [seed for seed, released in early.items() if not any(released)]
    assert 10 * len(silent) <= len(seeds), f"nothing comes out of the plans of seeds {silent}"
