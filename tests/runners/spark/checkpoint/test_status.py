"""What a query on Spark leaves in its checkpoint of how it stands, and what the commands make of it."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.cli import on_spark
from slackwater.cli.main import main
from slackwater.cli.stopping import Stop
from slackwater.errors import RunError
from slackwater.runners.spark.checkpoint.status import FAILED, RUNNING, STOPPED, Status, StatusWriter, leaving_status
from slackwater.runners.spark.storage.files import LocalFiles
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_PATIENT_SECONDS = 120


class _Written:
    """Waits for what listeners of Spark do on its thread."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._news = threading.Condition()
        writing = StatusWriter._write

        def write(writer: StatusWriter) -> None:
            with self._news:
                writing(writer)
                self._news.notify_all()

        patch.setattr(StatusWriter, "_write", write)

    def until(self, checkpoint: Path, is_so: Any) -> Status:
        """The status, when it is so."""
        with self._news:
            assert self._news.wait_for(lambda: (found := _status(checkpoint)) and is_so(found), _PATIENT_SECONDS)
            found = _status(checkpoint)
            assert found is not None
            return found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> _Written:
    """Knows when a status is written."""
    return _Written(monkeypatch)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    _bring(0, [(10, "a", 5), (10, "b", 3), (10, "a", 14)])
    return tmp_path


def _bring(number: int, rows: list[tuple[int, str, int]]) -> None:
    Path("in").mkdir(exist_ok=True)
    columns = dict(zip(("landed", "who", "at"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), f"in/{number}.parquet")


def _status(checkpoint: Path) -> Status | None:
    text = LocalFiles().read(f"file://{checkpoint.absolute()}/_slackwater/status.json")
    return None if text is None else Status.of_text(text, Place.written(str(checkpoint)))


def _stream(session: SparkSession) -> sw.OrderedStream:
    frame = session.readStream.schema("landed long, who string, at long").parquet(str(Path("in").absolute()))
    rows = sw.stream(frame, time="at", origin="who", arrived="landed", name="tides")
    return rows.sort(bounds=sw.Bounds.in_order() & sw.Bounds.lull(100))


def _start(session: SparkSession, **options: Any) -> sw.SparkQuery:
    places: dict[str, Any] = {name: str(Path(name).absolute()) for name in ("checkpoint", "main", "late")}
    return _stream(session).start(**{**places, "shards": 1, **options})


def test_the_checkpoint_says_what_the_query_says(
    session: SparkSession, folder: Path, written: _Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind each micro-batch, as long as it runs and when it has stopped; and it is taken for no more than it is."""
    query = _start(session)
    query.work()
    status = written.until(folder / "checkpoint", lambda one: one.micro_batch is not None)
    batch = status.micro_batch
    assert batch is not None
    assert (status.state, status.query, status.epoch, status.driver_is_gone) == (RUNNING, query.id, 1, False)
    assert (batch.progress, batch.counters, batch.why) == (query.progress(), query.counters(), query.why())
    assert main(["why", "checkpoint"]) == 0
    shown = capsys.readouterr().out
    assert str(query.why()[0]) in shown
    assert "3 rows in (" in shown
    query.stop()
    assert written.until(folder / "checkpoint", lambda one: one.state == STOPPED).micro_batch == batch
    assert main(["watch", "checkpoint"]) == 0
    assert "start 1: stopped " in capsys.readouterr().out
    again = _start(session)
    newest = written.until(folder / "checkpoint", lambda one: one.epoch == 2)
    assert (newest.state, newest.micro_batch) == (RUNNING, batch)
    again.stop()
    written.until(folder / "checkpoint", lambda one: one.state == STOPPED)


def test_a_query_that_fails_leaves_why(session: SparkSession, folder: Path, written: _Written) -> None:
    """In the words of the failure."""

    def fail(rows: Any, batch_id: int) -> None:  # noqa: ARG001 - whatever they are
        raise LookupError("no tide table has these")

    query = _start(session, main=fail)
    with pytest.raises(RunError):
        query.work()
    status = written.until(folder / "checkpoint", lambda one: one.state == FAILED)
    assert status.failure.splitlines()[0] == "step 'sink of main' failed"
    assert "no tide table has these" in status.failure


def test_a_status_that_cannot_be_written_stops_nobody(
    session: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query takes all there is, and the commands say that there is none."""
    replaced = LocalFiles.replace

    def full(files: LocalFiles, address: str, text: str) -> None:
        if address.endswith("status.json"):
            raise OSError(28, "No space left on device")
        replaced(files, address, text)

    monkeypatch.setattr(LocalFiles, "replace", full)
    query = _start(session, trigger={"availableNow": True}, at_end="flush")
    assert query.wait()
    assert pq.read_table("main", columns=["at"])["at"].to_pylist() == [3, 5, 14]
    assert main(["why", "checkpoint"]) == 2
    assert not list(folder.glob("checkpoint/_slackwater/*status*"))


def test_a_start_that_was_taken_over_writes_nothing_more(session: SparkSession, folder: Path) -> None:
    """The status is that of the newest."""
    query = _start(session)
    query.stop()
    record = json.loads(Path("checkpoint/_slackwater/query.json").read_text())
    place = Place.written(str((folder / "checkpoint").absolute()))
    run = SimpleNamespace(query=query.id, run="older", epoch=0, checkpoint=place, files=lambda *_: LocalFiles())
    before = _status(folder / "checkpoint")
    StatusWriter(session, run, "tides").follow("r")  # type: ignore[arg-type]
    assert _status(folder / "checkpoint") == before
    run.run = record["run"]
    StatusWriter(session, run, "tides").follow("r")  # type: ignore[arg-type]
    after = _status(folder / "checkpoint")
    assert after is not None
    assert after.epoch == 0


def test_no_listener_is_left_behind(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a query that has ended, nor of one that could not be started."""
    manager: Any = type(session.streams)
    added: list[Any] = []
    removed: queue.Queue[Any] = queue.Queue()
    adding, removing = manager.addListener, manager.removeListener

    def add(one: Any, listener: Any) -> None:
        added.append(listener)
        adding(one, listener)

    def remove(one: Any, listener: Any) -> None:
        removing(one, listener)
        removed.put(listener)

    monkeypatch.setattr(manager, "addListener", add)
    monkeypatch.setattr(manager, "removeListener", remove)
    _start(session).stop()
    (ours,) = added
    while removed.get(timeout=_PATIENT_SECONDS) is not ours:
        pass  # one of an earlier test
    run = SimpleNamespace(query="q", run="r", epoch=1)

    def refused() -> Any:
        raise LookupError

    with pytest.raises(LookupError):
        leaving_status(session, run, None, refused)  # type: ignore[arg-type]
    assert removed.get(timeout=_PATIENT_SECONDS) is added[1]


# ---- slackwater run --runner spark ----------------------------------------------------------------------------------


_TOML = """
[source]
path = "in"
time = "at"
origin = "who"
arrived = "landed"
[window]
tumbling = 10
[sort]
late = "drop"
bounds.in_order = true
bounds.lull = 100
[aggregates]
n = "count()"
[output]
main = "answers"
"""

_PYTHON = """
from pathlib import Path
import slackwater as sw

HERE = str(Path("in").absolute())

def pipeline(spark, patience):
    rows = sw.stream(sw.parquet_files(spark, HERE), time="at", name="tides")
    return {"rows": rows.sort(patience=int(patience)), "counts": rows.tumbling(10).sort(5).aggregate(n=sw.count())}
"""


def test_pipelines_from_files_run_on_spark(
    session: SparkSession, folder: Path, written: _Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into folders, to their end, and explained before; the session that there is stays."""
    Path("p.toml").write_text(_TOML)
    Path("p.py").write_text(_PYTHON)
    on = ["--runner", "spark", "--shards", "1"]
    assert main(["explain", "p.toml", *on]) == 0
    assert capsys.readouterr().out.startswith("shards     1")
    assert main(["run", "p.toml", *on, "--available-now", "--flush"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].endswith("runs, with its checkpoint in answers.checkpoint")
    assert err[1].startswith("slackwater: 3 rows in (")
    assert pq.read_table("answers", columns=["n"])["n"].to_pylist() == [2, 1]
    assert main(["run", "p.py", *on, "--available-now", "--output=out", "--late=late", "--quiet", "--", "100"]) == 0
    assert capsys.readouterr() == ("", "")
    assert sorted(one.name for one in Path("out").iterdir()) == ["counts", "rows"]
    assert sorted(one.name for one in Path("late").iterdir()) == ["tides", "tides#2"]
    written.until(folder / "out.checkpoint", lambda one: one.state == STOPPED)
    assert main(["why", "out.checkpoint"]) == 0
    assert "6 rows in" in capsys.readouterr().out  # both outputs read them
    assert session.range(1).count() == 1


def test_ctrl_c_stops_a_query_between_two_micro_batches(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command goes on; nothing is lost or doubled."""

    class Stopped(Stop):
        """As if Ctrl-C were pressed as soon as the query runs."""

        asked = property(lambda _: bool(session.streams.active), lambda *_: None)

    Path("p.toml").write_text(_TOML)
    command = ["run", "p.toml", "--runner=spark", "--shards=1"]
    with monkeypatch.context() as patch:
        patch.setattr(on_spark, "Stop", Stopped)
        assert main(command) == 130
    err = capsys.readouterr().err
    assert "stopping behind this micro-batch" in err
    assert "the same command goes on from here, by its checkpoint in answers.checkpoint" in err
    _bring(1, [(11, "a", 31), (11, "b", 33)])
    assert main([*command, "--available-now"]) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("slackwater: 5 rows in")
    assert main([*command, "--available-now"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "slackwater: done: there was nothing new"


_MISTAKES = {
    "no place": (["--output=-"], "a query on Spark writes to folders"),
    "two triggers": (["--available-now", "--every=1s"], "leave one of them out"),
    "a flush that never comes": (["--flush"], "say --available-now, too"),
    "a trigger that is none": (["--every=soon"], "soon"),
    "a scheme that is none": (["--output=nowhere://x/y"], 'for scheme "nowhere"'),
    "no shards": (["--shards=0"], "shards is a whole number above zero"),
    "late rows that are not there": (["--late=late"], "no step of this plan diverts late rows"),
    "a checkpoint in the output": (["--checkpoint=answers/c"], "lie inside each other"),
    "a file for a checkpoint": (["--checkpoint=p.toml"], "the checkpoint cannot be written"),
    "a file for a folder": (["--output=p.toml"], "p.toml"),
}


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_is_one_message(session: SparkSession, mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before Spark starts a query."""
    Path("p.toml").write_text(_TOML)
    options, part = _MISTAKES[mistake]
    assert main(["run", "p.toml", "--runner=spark", *options]) == 2
    err = capsys.readouterr().err
    assert part in err
    assert "Traceback" not in err
    assert not session.streams.active


def test_streams_of_the_other_runner_are_named(
    session: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do; and frames that end, which no query reads."""
    del session
    file = Path("p.py")
    head = "import slackwater as sw\ndef pipeline(spark=None):\n    "
    file.write_text(f"{head}return sw.stream('in', time='at')\n")
    assert main(["run", "p.py", "--runner=spark", "--output=out"]) == 2
    assert "say --runner in-process" in capsys.readouterr().err
    frame = f"spark.read.parquet('{folder}/in')"
    file.write_text(f"{head}return sw.stream({frame}, time='at')\n")
    assert main(["run", "p.py", "--runner=spark", "--output=out"]) == 2
    assert "reads streaming DataFrames" in capsys.readouterr().err
    file.write_text(
        "import slackwater as sw\nfrom pyspark.sql import SparkSession\ndef pipeline():\n"
        "    spark = SparkSession.getActiveSession()\n"
        f"    return sw.stream({frame}, time='at')\n"
    )
    assert main(["run", "p.py"]) == 2
    assert "say --runner spark" in capsys.readouterr().err


def test_toml_reads_folders_of_csv_and_json_on_spark(
    session: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the columns that are written, or those that the files have; a single file is refused."""
    rows = session.read.parquet(str(folder / "in"))
    rows.write.csv(str(folder / "csv"), header=True)
    rows.write.json(str(folder / "json"))
    for place in ("csv", "json"):
        columns = 'columns = "at long, landed long, who string"\n' if place == "json" else ""
        Path("p.toml").write_text(_TOML.replace('"in"', f'"{place}"').replace('time = "at"', f'{columns}time = "at"'))
        assert main(["explain", "p.toml", "--runner=spark"]) == 0
        assert f"source#1 {place} time=at" in capsys.readouterr().out
    Path("p.toml").write_text(_TOML.replace('"in"', '"in/0.parquet"'))
    assert main(["explain", "p.toml", "--runner=spark"]) == 2
    assert "on Spark a source is a folder" in capsys.readouterr().err
