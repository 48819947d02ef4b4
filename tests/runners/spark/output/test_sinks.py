"""Who takes which outputs: a sink that is named for several takes them together, or is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_query
from pyspark.sql.types import LongType, StringType, StructField, StructType

import slackwater as sw
from slackwater.errors import PlanError, RunError, Superseded
from slackwater.runners.spark.checkpoint.ownership import Run, next_run
from slackwater.runners.spark.output import sinks
from slackwater.runners.spark.output.folder_sink import FolderSink, OwnedFolder, Stretch, next_stretch
from slackwater.runners.spark.output.sinks import SinkBinding, as_sink, bindings_of
from slackwater.runners.spark.planning.plan_lines import Line
from slackwater.runners.spark.shard.metrics import METRICS
from slackwater.runners.spark.storage.places import Place
from slackwater.runners.spark.wire.arrow_bytes import to_buffer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = StructType([StructField("at", LongType()), StructField("n", LongType())])
_WORDS = StructType([StructField("at", LongType()), StructField("n", StringType())])


def _nothing(rows: Any, batch_id: int) -> None:
    """Take rows."""


def test_equal_sinks_are_one() -> None:
    """Two paths that are the same, or the same function twice: what a micro-batch has for it is written at once."""
    columns = {"main": _COUNTS, "main#2": _COUNTS, "main#3": _COUNTS, "late": _WORDS}
    given = {"main": as_sink("a"), "late": as_sink(_nothing), "main#2": as_sink("a"), "main#3": as_sink("b")}
    assert bindings_of(given, columns) == [
        SinkBinding(FolderSink("a"), ("main", "main#2"), _COUNTS),
        SinkBinding(as_sink(_nothing), ("late",), _WORDS),
        SinkBinding(FolderSink("b"), ("main#3",), _COUNTS),
    ]


def test_few_rows_are_taken_as_they_are_only_if_all_of_them_are_there() -> None:
    """A chunk that was too long to come along is not left out: then Spark writes all; so it does when they are many."""
    rows = pa.record_batch({"at": [1, 2], "n": [3, 4]})
    body = to_buffer(rows).to_pybytes()
    binding = SinkBinding(as_sink("a"), ("main", "main#2"), _COUNTS)
    here, too = sinks._Chunk("main", len(body), body), sinks._Chunk("main#2", len(body), body)
    elsewhere = sinks._Chunk("late", 1 << 40, None)
    assert sinks._few([here, elsewhere, too], binding) == [pa.Table.from_batches([rows])] * 2
    assert sinks._few([elsewhere], binding) == []
    assert sinks._few([here, sinks._Chunk("main", len(body), None)], binding) is None
    most = sinks.FEW_BYTES
    assert sinks._few([here._replace(size=most - 1), here._replace(size=1)], binding) is not None
    assert sinks._few([here._replace(size=most), here._replace(size=1)], binding) is None


class _WritesFew:
    """A sink that writes few rows itself, or not, as the folder of one session may and that of another may not."""

    def __init__(self, **prefers: bool) -> None:
        self.__dict__.update(prefers)

    def write(self, rows: Any, batch_id: int) -> None:
        """Take rows."""

    def write_few(self, *_: Any) -> bool:
        """Take rows."""
        return True


def test_rows_are_asked_for_by_a_job_of_their_own_where_the_driver_writes_them() -> None:
    """Not where they are too many, for a function, which would get them back in a frame, or where only Spark writes."""
    chunks = [sinks._Chunk("main", sinks.MORE_BYTES - 1, None), sinks._Chunk("late", 1 << 40, None)]
    more = [*chunks, sinks._Chunk("main", 2, None)]

    def asked(sink: Any, chunks: list[sinks._Chunk] = chunks) -> bool:
        return sinks._may_be_asked_for(chunks, SinkBinding(sink, ("main",), _COUNTS))

    assert asked(_WritesFew())
    assert asked(_WritesFew(prefers_few=True))
    assert not asked(_WritesFew(prefers_few=False))
    assert not asked(_WritesFew(), more)
    no_length: Any = None  # as Spark has it where there is no body
    metrics = sinks._Chunk(METRICS, no_length, None)
    assert not sinks._may_be_asked_for([*chunks, metrics], SinkBinding(_WritesFew(), (METRICS,), None))
    assert not asked(as_sink(_nothing))


class _Kept(list[Any]):
    """Keeps rows; two that are empty are equal."""

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Keep rows."""
        self.append((rows, batch_id))


class _KeptToo(list[Any]):
    """The same as a sink."""

    def write(self, rows: Any, batch_id: int) -> None:
        """Keep rows."""
        self.append((rows, batch_id))


@pytest.mark.parametrize("kind", [_Kept, _KeptToo])
def test_what_users_made_is_only_itself(kind: type[Any]) -> None:
    """Two objects that are equal now may differ as soon as one has got rows."""
    columns, first, second = {"main": _COUNTS, "main#2": _COUNTS, "main#3": _COUNTS}, kind(), kind()
    assert first == second
    bindings = bindings_of(
        {name: as_sink(sink) for name, sink in zip(columns, (first, second, first), strict=True)}, columns
    )
    assert [binding.outputs for binding in bindings] == [("main", "main#3"), ("main#2",)]


@pytest.mark.parametrize("other", ["late", METRICS])
def test_one_sink_for_different_columns_is_refused(other: str) -> None:
    """The second would replace what the first had written under the number of the same micro-batch."""
    sinks = {"main": as_sink("a"), other: as_sink("a")}
    with pytest.raises(PlanError, match=rf"(?s)different columns.*'a'.*main +at, n.*{other} .*a sink of its own"):
        bindings_of(sinks, {"main": _COUNTS, "late": _WORDS})


def test_each_band_has_a_sink_or_all_have_one() -> None:
    """Refused before Spark is asked for anything."""
    bands = sw.stream([{"at": 1}], time="at").tumbling(10).in_bands(5, 20, n=sw.count())
    with pytest.raises(PlanError, match=r"(?s)each stream needs a sink.*streams +2.*sinks +1"):
        bands.start(checkpoint="nowhere", main=["one"])


# ---- whose batches are whose -----------------------------------------------------------------------------------------


def test_a_query_that_adopts_a_folder_goes_on_behind_all_others() -> None:
    """Also one that had it before: what it wrote then stays where it is, under the numbers that it had."""
    first = Stretch("a", 0, 0)
    second = next_stretch([first], "b", 5)  # a has written 0 to 4
    third = next_stretch([first, second], "a", 8)  # b has written 5 to 7
    fourth = next_stretch([first, second, third], "b", 8)  # a has written nothing since
    assert [second, third, fourth] == [Stretch("b", 0, 5), Stretch("a", 5, 8), Stretch("b", 3, 8)]
    fifth = next_stretch([first, second, third, fourth], "a", 10)  # b has written 8 and 9
    assert fifth == Stretch("a", 5, 10)
    folders = {query: _owned(query, (first, second, third, fourth)) for query in "ab"}
    assert [folders["a"].number_of(batch) for batch in (0, 4, 5, 6)] == [0, 4, 8, 9]
    assert [folders["b"].number_of(batch) for batch in (0, 2, 3, 4)] == [5, 7, 8, 9]


def _owned(query: str, stretches: tuple[Stretch, ...]) -> OwnedFolder:
    run = Run(query, "run", 1, {}, Place.written("/checkpoint"))
    return OwnedFolder(FolderSink("/out"), Place.written("/out"), run, stretches)


def test_of_two_runs_the_newer_has_the_checkpoint_and_the_folder(tmp_path: Path) -> None:
    """The older one is refused by both, whatever it is about to do; no Spark is needed to find out."""
    nobody: Any = SimpleNamespace(_jvm=True)  # a classic session, which local files are none of the business of
    checkpoint, sink = Place.written(str(tmp_path / "checkpoint")), FolderSink((tmp_path / "out").as_uri())
    runs: list[Run] = []
    folders: list[Any] = []
    for _ in range(2):
        run = next_run(nobody, checkpoint, {"sort#1": Line("sort")})
        claim = sink.claimed(nobody, run)
        run.write(nobody)
        runs.append(run)
        folders.append(claim.take(nobody))
    assert [run.epoch for run in runs] == [1, 2]
    assert len({run.query for run in runs}) == 1
    assert len({run.run for run in runs}) == 2
    runs[1].require_newest(nobody)
    assert not folders[1].has(nobody, 0)
    with pytest.raises(Superseded, match=r"(?s)another driver has taken over.*this start +1.*newest start +2"):
        runs[0].require_newest(nobody)
    with pytest.raises(Superseded, match="the folder of a sink was taken over"):
        folders[0].has(nobody, 0)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(RunError, match="the checkpoint of a running query is gone"):
        runs[1].require_newest(nobody)
    with pytest.raises(PlanError, match="belongs to another query"):
        sink.claimed(nobody, next_run(nobody, checkpoint, {"sort#1": Line("sort")}))


def test_two_new_queries_cannot_both_have_a_new_folder(tmp_path: Path) -> None:
    """Both look before either takes it; the second to take it is refused."""
    nobody: Any = SimpleNamespace(_jvm=True)  # a classic session, which local files are none of the business of
    runs = [next_run(nobody, Place.written(str(tmp_path / name)), {}) for name in ("one", "other")]
    claims = [FolderSink((tmp_path / "out").as_uri()).claimed(nobody, run) for run in runs]
    claims[0].take(nobody)
    with pytest.raises(PlanError, match=rf"(?s)belongs to another query.*{runs[0].query}"):
        claims[1].take(nobody)


class _WritesOneFile:
    """Stands where Spark's writer does, and notes what readers of a folder see while it writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: list[list[str]] = []

    def mode(self, *_: str, **__: str) -> _WritesOneFile:
        """Take a setting, as all of these do."""
        return self

    format = options = mode

    def save(self, address: str) -> None:
        """Write in two steps."""
        staged = Path(urlsplit(address).path)
        staged.mkdir(parents=True)
        for name in ("a.parquet", "b.parquet"):
            (staged / name).write_text(name)
            self.seen.append(_shown(self._folder))


def _shown(folder: Path) -> list[str]:
    """What readers of a folder see: Spark and Arrow look into no folder with such a name."""
    return sorted(str(one.relative_to(folder)) for one in folder.glob("[!_.]*/[!_.]*"))


def test_a_micro_batch_appears_whole(tmp_path: Path) -> None:
    """While it is written nobody sees any of it; then it is there, and is not asked for again."""
    nobody: Any = SimpleNamespace(_jvm=True)  # a classic session, which local files are none of the business of
    run = next_run(nobody, Place.written(str(tmp_path / "checkpoint")), {})
    owned: Any = FolderSink((tmp_path / "out").as_uri()).claimed(nobody, run).take(nobody)
    writer = _WritesOneFile(tmp_path / "out")
    rows: Any = SimpleNamespace(write=writer, sparkSession=nobody)
    owned.write(rows, 0)
    assert writer.seen == [[], []]
    assert [owned.has(nobody, batch) for batch in (0, 1)] == [True, False]
    first = _shown(tmp_path / "out")
    assert [Path(one).name for one in first] == ["a.parquet", "b.parquet"]
    owned.write(rows, 1)
    assert writer.seen[2:] == [first, first]
    assert len(_shown(tmp_path / "out")) == 4


def _with_times(session: SparkSession, folder: Path) -> Any:
    """Rows in order, into one folder: late ones are dropped."""
    frame = session.readStream.schema(small_query.COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    return sw.stream(frame, time="at").sort(small_query.PATIENCE, late=sw.Late.drop())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("more", [4_000, sinks.MORE_BYTES], ids=["many by tasks", "many by the driver"])
def test_one_folder_gets_few_rows_from_the_driver_and_many_from_spark(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """The same rows in the same order, whichever way each micro-batch took.

    What does not come along with the first job is asked for by another one, unless it is too much. The third one is not
    asked: it goes from the first job to the folder.
    """
    small_query.bring(tmp_path, range(4))
    wide = pq.read_table(tmp_path / "in/1.parquet")  # the second micro-batch has many, and so the third is not asked
    at = np.repeat(wide["at"].to_numpy(), 4)
    pq.write_table(pa.table({"at": at, "n": np.repeat(wide["n"].to_numpy(), 4)}), tmp_path / "in/1.parquet")
    os.utime(tmp_path / "in/1.parquet", (100_001, 100_001))
    monkeypatch.setattr(sinks, "FEW_BYTES", 4_000)
    monkeypatch.setattr(sinks, "MORE_BYTES", more)
    options = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": {"availableNow": True}, "shards": 1}
    _with_times(session, tmp_path).start(main=str(tmp_path / "out"), **options).wait()
    batches = [sorted((tmp_path / f"out/batch_id={number}").glob("*.parquet")) for number in range(4)]
    by_driver = [[path.name for path in files] == ["part-00000.parquet"] for files in batches]
    assert by_driver == [True, more > 4_000, False, True]
    found = [row for files in batches for path in files for row in pq.read_table(path).to_pylist()]
    assert [row["at"] for row in found] == sorted(row["at"] for row in found)
    expected = [row for row in small_query.expected(4) for _ in range(4 if 100 <= row < 200 else 1)]
    assert sorted(row["n"] for row in found) == expected
