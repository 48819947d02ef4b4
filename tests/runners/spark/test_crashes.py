"""Crashes and faults on real Spark: whatever dies, fails or is damaged, in the end nothing is lost and nothing doubled.

A query of two shards and five outputs is disturbed, and started again from its checkpoint until it has come to its end.
What it has written then is what a query writes that was not disturbed: the same rows in the same order in the same
files, and the same metrics. That query in turn writes what the same cuts give in process.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import RunError
from slackwater.runners.spark.failures import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MASTER = "local[2,2]"
"""Two cores, and a task that failed is tried once more."""

_DRIVER = Path(__file__).with_name("drive_bands.py")
# Not imported: what workers are sent must not refer to a module that they cannot find.
_QUERY = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_KILLING = SimpleNamespace(**runpy.run_path(str(_DRIVER.with_name("killing.py"))))

_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64(), "word": pa.string()})
_WORDS = np.array([None, "", "tide", "slack water", "ebb", "flood", "neap"], dtype=object)
_PATIENT_SECONDS = 300
_FILES = 3
_MANY_FILES = 8

_Written: TypeAlias = "dict[str, Any]"
"""The rows of every file, by the output, the micro-batch and the number of the file."""

_VARYING = ("state_bytes", "decode_seconds", "operate_seconds", "state_seconds", "encode_seconds")
"""Metrics that differ from run to run: times are measured, and a state may be stored in other pieces."""


# ---- the query -------------------------------------------------------------------------------------------------------


def _cuts(files: int) -> list[pa.Table]:
    """A disordered stream, cut at random: times that go back and tie, keys that are missing, rows that are too late."""
    random, rows = np.random.default_rng(12), 2_000 * files
    late_by = random.integers(0, 150, rows) * (random.random(rows) < 0.2)
    at = np.maximum(np.arange(rows) // 40 - late_by, 0)
    words = pa.array(_WORDS[random.integers(0, len(_WORDS), rows)], pa.string())
    table = pa.table([pa.array(at).cast(_SCHEMA.field("at").type), pa.array(np.arange(rows)), words], schema=_SCHEMA)
    edges = [2_000 * number + int(random.integers(-300, 300)) * (0 < number < files) for number in range(files + 1)]
    return [table.slice(first, stop - first) for first, stop in pairwise(edges)]


def _write(folder: Path, cuts: list[pa.Table], which: slice = slice(None)) -> Path:
    """Write a file per cut, in their order of arrival: Spark goes by the times of the files."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number in range(len(cuts))[which]:
        hidden = folder / "in" / f".{number:04}"
        pq.write_table(cuts[number], hidden)
        os.utime(hidden, (1_000 + number, 1_000 + number))
        hidden.rename(folder / "in" / f"{number:04}.parquet")
    return folder


def _run(session: SparkSession, folder: Path, users: Any = None) -> None:
    """Run the query from its checkpoint, if there is one, to the end of the files that are there."""
    _QUERY.run(session, str(folder), users or _QUERY.functions(), _QUERY.Halt(str(folder)))


def _written(folder: Path) -> _Written:
    """What all micro-batches have written, in the order in which it stands in each file."""
    found: _Written = {}
    for output in _QUERY.OUTPUTS:
        for file in sorted((folder / output).glob("batch_id=*/*.parquet")):
            rows = pq.read_table(file, partitioning=None)
            if output == "metrics":
                rows = rows.drop_columns(list(_VARYING))
            place = f"{output}/{file.parent.name}/{file.name[: len('part-00000')]}"
            assert place not in found, "an earlier life has left a file behind"
            found[place] = rows.cast(pa.schema(map(_as_stored, rows.schema))).to_pylist()
    return found


def _as_stored(column: pa.Field) -> pa.Field:
    """One type for a column that Parquet has in another: times in nanoseconds, durations as numbers."""
    if pa.types.is_duration(column.type):
        return column.with_type(pa.int64())
    return column.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _assert_whole(folder: Path, expected: _Written) -> None:
    """Every file of every micro-batch and output is there, with the same rows in the same order."""
    found = _written(folder)
    assert found.keys() == expected.keys()
    for place, rows in found.items():
        assert rows == expected[place], place


def _in_process(cuts: list[pa.Table]) -> dict[str, list[list[Any]]]:
    """What each cut gives in process, by output."""
    source = sw.PushSource(_SCHEMA)
    streams = _QUERY.planned(sw.stream(source, time="at"), _QUERY.functions())
    given: dict[str, list[Any]] = {output: [] for output in _QUERY.OUTPUTS if output != "metrics"}
    by_cut: dict[str, list[list[Any]]] = {output: [] for output in given}
    bindings = list(zip([*streams, streams[-1].late], map(_taker, given.values()), strict=True))
    with sw.Query(bindings, clock=sw.ManualClock()) as query:
        for cut in cuts:
            source.push(cut.combine_chunks())
            query.work()
            for output, rows in given.items():
                by_cut[output].append(list(rows))
                rows.clear()
    return by_cut


def _taker(rows: list[Any]) -> Callable[[pa.RecordBatch], None]:
    return lambda batch: rows.extend(batch.cast(pa.schema(map(_as_stored, batch.schema))).to_pylist())


def _undisturbed(session: SparkSession, folder: Path, cuts: list[pa.Table]) -> _Written:
    """What a query writes to which nothing happens: what the same cuts give in process."""
    _run(session, _write(folder, cuts))
    found = _written(folder)
    for output, by_cut in _in_process(cuts).items():
        assert all(by_cut[1:]), "a micro-batch without rows shows little"
        for number, expected in enumerate(by_cut):
            files = [rows for place, rows in found.items() if place.startswith(f"{output}/batch_id={number}/")]
            rows = [row for one in files for row in one]
            assert sorted(map(repr, rows)) == sorted(map(repr, expected)), (output, number)
    shards = [row["shard"] for place, rows in found.items() if place.startswith("metrics/") for row in rows]
    assert sorted(shards) == sorted(list(range(_QUERY.SHARDS)) * len(cuts))
    return found


@pytest.fixture(scope="module")
def undisturbed(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Written:
    """What is written of a few files if nothing happens."""
    return _undisturbed(session, tmp_path_factory.mktemp("undisturbed"), _cuts(_FILES))


# ---- killed ----------------------------------------------------------------------------------------------------------


class _Lives:
    """The lives of a query in processes of its own, one after the other, all of which are killed."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = {**os.environ, **env}

    def kill_at(self, place: str, micro_batch: int) -> None:
        """Live until a place is reached in a micro-batch."""
        with self._driver(place, str(micro_batch)) as driver:
            self._wait_until(lambda: driver.poll() is not None or (self._folder / "halted").exists())
            assert driver.poll() is None, self._log()
            self._assert_aimed(place, micro_batch)

    def kill_after(self, seconds: float) -> bool:
        """Live for so long after a first micro-batch; say whether it was killed before it had come to its end."""
        commits = self._folder / "checkpoint/commits"
        before = set(commits.glob("[0-9]*"))
        with self._driver() as driver:
            self._wait_until(lambda: driver.poll() is not None or set(commits.glob("[0-9]*")) > before)
            with suppress(subprocess.TimeoutExpired):
                assert driver.wait(seconds) == 0, self._log()
                return False
        return True

    @contextmanager
    def _driver(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that runs the query, with a JVM and workers; in the end all of them are killed."""
        (self._folder / "halted").unlink(missing_ok=True)
        command = [sys.executable, str(_DRIVER), str(self._folder), *arguments]
        with (self._folder / "log").open("wb") as log:
            driver = subprocess.Popen(  # noqa: S603 - our own words
                command, stdout=log, stderr=log, start_new_session=True, env=self._env
            )
        try:
            yield driver
        finally:
            _KILLING.kill_all_of(driver)

    def _wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENT_SECONDS
        while not happened():
            assert time.monotonic() < deadline, self._log()
            time.sleep(0.005)

    def _log(self) -> str:
        return (self._folder / "log").read_text()

    def _assert_aimed(self, place: str, micro_batch: int) -> None:
        """Assert that as much of a micro-batch is on disk as should be at a place, unless an earlier life got further.

        The micro-batch has begun and is not committed; its state is stored or not; of its outputs, those before the
        place are whole, and those behind it are not.
        """
        checkpoint, written = self._folder / "checkpoint", []
        assert (checkpoint / f"offsets/{micro_batch}").exists()
        assert not (checkpoint / f"commits/{micro_batch}").exists()
        for shard in range(_QUERY.SHARDS):
            stored = list((checkpoint / f"state/0/{shard}").glob(f"{micro_batch + 1}_*.changelog"))
            assert bool(stored) is (place not in {"packing", "hosting"})
        when, _, output = place.partition(" ")
        if output:
            written = list(_QUERY.OUTPUTS[: _QUERY.OUTPUTS.index(output) + (when == "after")])
        folders = {one: self._folder / one / f"batch_id={micro_batch}" for one in _QUERY.OUTPUTS}
        assert [one for one, folder in folders.items() if folder.exists()] == written
        if when == "within":
            assert list((self._folder / output).glob(f"_slackwater/staged/*-{micro_batch}/**/part-00000-*"))


def test_a_query_that_was_killed_goes_on(
    session: SparkSession,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
    undisturbed: _Written,
) -> None:
    """Killed with its JVM and workers, when it had written two of its outputs, and half of another.

    Twenty other places and moments are below, and two hundred more in test_kills.py.
    """
    lives = _Lives(_write(tmp_path, _cuts(_FILES)), surroundings_of_killed(tmp_path))
    lives.kill_at("within rows", 1)
    _run(session, tmp_path)
    _assert_whole(tmp_path, undisturbed)


@pytest.fixture(scope="module")
def undisturbed_for_long(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Written:
    """What is written of many files if nothing happens."""
    return _undisturbed(session, tmp_path_factory.mktemp("undisturbed"), _cuts(_MANY_FILES))


@pytest.mark.long
def test_a_query_that_was_killed_at_every_place_goes_on(
    session: SparkSession,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
    undisturbed_for_long: _Written,
) -> None:
    """Twelve times, now and then several times in one micro-batch, further on each time."""
    lives = _Lives(_write(tmp_path, _cuts(_MANY_FILES)), surroundings_of_killed(tmp_path))
    for place, micro_batch in [
        ("packing", 0), ("hosting", 0), ("after metrics", 0),
        ("before early", 2), ("within early", 2), ("after early", 2),
        ("packing", 4), ("within late", 4), ("within metrics", 4),
        ("hosting", 6), ("before early", 6),
        ("after metrics", 7),
    ]:  # fmt: skip
        lives.kill_at(place, micro_batch)
    _run(session, tmp_path)
    _assert_whole(tmp_path, undisturbed_for_long)


@pytest.mark.long
def test_a_query_that_was_killed_at_any_time_goes_on(
    session: SparkSession,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
    undisturbed_for_long: _Written,
) -> None:
    """Eight times, after seconds that were drawn; one that has come to its end before all are spent starts anew.

    Each life does a micro-batch at least, so that all of them are met; what dies in its first, is aimed at above.
    """
    random = Random(21)
    seconds = [random.uniform(0, 4) for _ in range(8)]
    for attempt in count():
        folder = _write(tmp_path / str(attempt), _cuts(_MANY_FILES))
        lives = _Lives(folder, surroundings_of_killed(folder))
        while seconds and lives.kill_after(seconds[-1]):
            seconds.pop()
        _run(session, folder)
        _assert_whole(folder, undisturbed_for_long)
        if not seconds:
            break


# ---- faults ----------------------------------------------------------------------------------------------------------


def _fail(session: SparkSession, folder: Path, users: Any = None) -> str:
    """Run the query, which fails; return what it says."""
    with pytest.raises(RunError) as failure:
        _run(session, folder, users)
    assert "Traceback" not in str(failure.value)
    assert "=== Streaming Query ===" not in str(failure.value)
    return f"{type(failure.value).__name__}: {failure.value}"


def _assert_written_before(folder: Path, expected: _Written, micro_batch: int) -> None:
    """Everything before a micro-batch is written, and nothing of it."""
    before = tuple(f"/batch_id={number}/" for number in range(micro_batch))
    assert _written(folder) == {place: rows for place, rows in expected.items() if any(map(place.__contains__, before))}


def test_stored_state_that_is_damaged_is_noticed(session: SparkSession, tmp_path: Path, undisturbed: _Written) -> None:
    """Nothing is written that would be based on it; with the file as it was, the query goes on."""
    cuts = _cuts(_FILES)
    _run(session, _write(tmp_path, cuts, slice(2)))
    _write(tmp_path, cuts, slice(2, None))
    (stored,) = (tmp_path / "checkpoint/state/0/1").glob("2_*.changelog")
    whole = stored.read_bytes()
    half = len(whole) // 2
    turned = bytes(byte ^ 0xFF for byte in whole[half : half + 20])
    for damaged in (whole[:half], whole[:half] + turned + whole[half + 20 :]):
        stored.write_bytes(damaged)
        failure_text = _fail(session, tmp_path)
        assert "the stored state of a query on Spark is damaged or incomplete" in failure_text
        assert "hint: restore the checkpoint from a copy" in failure_text
        _assert_written_before(tmp_path, undisturbed, 2)
        stored.write_bytes(whole)
    _run(session, tmp_path)
    _assert_whole(tmp_path, undisturbed)


def _failing(column: str, value: object) -> Callable[[pa.RecordBatch], None]:
    """A function that does not know what to do with a row."""

    def fail(rows: pa.RecordBatch) -> None:
        if value in rows.column(column).to_pylist():
            raise LookupError(f"no tide table has {value}\n\nlook elsewhere")

    return fail


def _sums(written: _Written, micro_batch: int) -> list[int]:
    """The sums that come with the counts of a micro-batch."""
    places = [f"{output}/batch_id={micro_batch}/" for output in ("early", "final")]
    return [row["sum"] for place, rows in written.items() if place.startswith(tuple(places)) for row in rows]


@pytest.mark.parametrize(
    ("function", "step"),
    [("on_rows", "map_batches of source 'frame'"), pytest.param("on_counts", "where#", marks=pytest.mark.long)],
)
def test_a_function_that_fails_stops_the_query_and_is_quoted(
    session: SparkSession, tmp_path: Path, undisturbed: _Written, function: str, step: str
) -> None:
    """With the step and the row; nothing of the micro-batch is written, and with a better function it goes on."""
    cuts = _cuts(_FILES)
    if function == "on_rows":
        column, value = "n", cuts[1].column("n")[700].as_py()
    else:
        column, value = "sum", next(one for one in _sums(undisturbed, 1) if one not in _sums(undisturbed, 0))
    _write(tmp_path, cuts)
    failure_text = _fail(session, tmp_path, _QUERY.functions(**{function: _failing(column, value)}))
    assert failure_text.startswith("StepFailed: step ")
    assert step in failure_text.splitlines()[0]
    assert f"'{column}': {value}" in failure_text
    assert failure_text.endswith(f"LookupError: no tide table has {value}\n\nlook elsewhere")
    _assert_written_before(tmp_path, undisturbed, 1)
    _run(session, tmp_path)
    _assert_whole(tmp_path, undisturbed)


def _deadly(until: Path) -> Callable[[pa.RecordBatch], None]:
    """A function that kills its worker in the second micro-batch, until a file is there."""
    micro_batch = _QUERY.micro_batch

    def die(rows: pa.RecordBatch) -> None:  # noqa: ARG001 - whatever the rows are
        if micro_batch() == 1 and not until.exists():
            (until.parent / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def test_a_worker_that_was_killed_is_replaced(session: SparkSession, tmp_path: Path, undisturbed: _Written) -> None:
    """In the middle of a shard: Spark tries the task again, and the query goes on as if nothing had been."""
    users = _QUERY.functions(on_counts=_deadly(until=tmp_path / "died"))
    _run(session, _write(tmp_path, _cuts(_FILES)), users)
    assert (tmp_path / "died").exists()
    _assert_whole(tmp_path, undisturbed)


@pytest.mark.long
def test_a_query_whose_workers_die_every_time_fails_and_goes_on(
    session: SparkSession, tmp_path: Path, undisturbed: _Written
) -> None:
    """It says what happened, and writes nothing of the micro-batch until workers live."""
    users = _QUERY.functions(on_rows=_deadly(until=tmp_path / "mended"))
    failure_text = _fail(session, _write(tmp_path, _cuts(_FILES)), users)
    assert "a Python worker of a query on Spark was killed, or crashed" in failure_text
    assert "hint: start it again" in failure_text
    _assert_written_before(tmp_path, undisturbed, 1)
    (tmp_path / "mended").touch()
    _run(session, tmp_path, users)
    _assert_whole(tmp_path, undisturbed)


def test_a_sink_that_fails_is_quoted() -> None:
    """Its own words, all of them, out of what Spark says when a function of foreachBatch raises."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy."
        " Return Message: Traceback (most recent call last):\n"
        '  File "sinks.py", line 93, in __call__\n    sink.write(rows, batch_id)\n'
        "OSError: no space\n\nleft on the device\n SQLSTATE: 39000 SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: [id = 1]\n"
    )
    assert str(failure_of(RuntimeError(text))).splitlines()[:4] == [
        "a query on Spark failed",
        "    Spark says  OSError: no space",
        "",
        "left on the device",
    ]
