"""What users see of a query on Spark while it runs: in a listener, in metrics, for Prometheus and in Spark's UI."""

from __future__ import annotations

import json
import os
import queue
import runpy
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

import slackwater as sw
from slackwater.errors import StepFailed
from slackwater.operators.why import BrokenBounds
from slackwater.runners.spark.failures import failure_of, with_users_lines
from slackwater.runners.spark.output.job_names import jobs_named
from slackwater.runners.spark.shard.reasons import WHY_SPARK, _form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_query.py"))))
_FAILING = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("failing_functions.py"))))
_PATIENT_SECONDS = 300
_SCHEMA = "landed long, who string, at long"
_BATCHES = (
    [(10, "a", 5), (10, "b", 3), (10, "a", 14)],
    [(11, "a", 27), (11, "a", 31), (11, "a", 2)],
)


class _Watched(SimpleNamespace):
    """A query of two micro-batches that has come to its end, and what was seen of it."""


@pytest.fixture(scope="module")
def watched(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Watched]:
    """Counts of each source by its own heartbeat, with late rows, metrics, a listener and one that fails."""
    folder = tmp_path_factory.mktemp("seeing")
    seen: queue.Queue[sw.MicroBatch] = queue.Queue()
    complaints: queue.Queue[threading.ExceptHookArgs] = queue.Queue()

    def fail(batch: sw.MicroBatch) -> None:
        raise LookupError(f"nobody wants {batch}")

    listeners = [sw.QueryListener(fail), sw.QueryListener(seen.put)]
    for listener in listeners:
        session.streams.addListener(listener)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", complaints.put)
        for number, batch in enumerate(_BATCHES):
            columns = dict(zip(("landed", "who", "at"), map(list, zip(*batch, strict=True)), strict=True))
            (folder / "in").mkdir(exist_ok=True)
            pq.write_table(pa.table(columns), folder / f"in/{number}.parquet")
            os.utime(folder / f"in/{number}.parquet", (1_000 + number, 1_000 + number))  # by which Spark goes
        frame = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        rows = sw.stream(frame, time="at", origin="who", arrived="landed", name="readings").tumbling(10)
        each = (
            rows.sort_within_origins(bounds=sw.Bounds.in_order() & sw.Bounds.lull(100))
            .group_by("who")
            .aggregate(n=sw.count())
        )
        query = each.start(
            checkpoint=str(folder / "checkpoint"),
            main=str(folder / "counts"),
            late=_kept,
            metrics=str(folder / "metrics"),
            shards=2,
        )
        query.work()
        batches = [seen.get(timeout=_PATIENT_SECONDS) for _ in _BATCHES]
        failed = [complaints.get(timeout=_PATIENT_SECONDS) for _ in _BATCHES]
        yield _Watched(query=query, folder=folder, batches=batches, failed=failed, session=session)
    query.stop()
    for listener in listeners:
        session.streams.removeListener(listener)


def _kept(rows: Any, batch_id: int) -> None:  # noqa: ARG001 - whatever the number is
    rows.collect()


def test_a_listener_gets_each_micro_batch_as_the_query_shows_it(watched: _Watched) -> None:
    """In their order, with the figures of each, and with how the query stood behind it, sources by themselves."""
    first, last = watched.batches
    assert [(one.batch_id, one.rows_in) for one in watched.batches] == [(0, 3), (1, 3)]
    assert (first.query, first.name) == (watched.query.id, f"readings-{watched.query.id[:8]}")
    assert last.progress == watched.query.progress()
    assert last.counters == watched.query.counters()
    assert last.why == watched.query.why()
    assert first.late + last.late == last.counters["all shards"].late
    assert (first.progress.total_in, last.progress.total_in) == (3, 6)
    assert first.rows_out + last.rows_out == last.progress.total_out
    assert {origin.origin for origin in first.why[0].origins} == {"a", "b"}
    assert watched.query.last_micro_batch()["seconds"] == last.seconds


def test_a_listener_that_fails_hurts_nobody(watched: _Watched) -> None:
    """Neither the query nor the listener behind it: its failure is shown as that of a thread is."""
    assert [type(one.exc_value) for one in watched.failed] == [LookupError] * 2
    assert str(watched.failed[0].exc_value) == f"nobody wants {watched.batches[0]}"
    assert watched.query.active


def test_queries_of_others_are_no_matter_of_a_listener(session: SparkSession) -> None:
    """They have no metrics of ours, and Spark's own are not taken for them."""
    seen: list[sw.MicroBatch] = []
    listener = sw.QueryListener(seen.append)
    (row,) = session.range(1).selectExpr("1L AS shards").collect()
    for observed in ({}, {"theirs": row}):
        progress = SimpleNamespace(observedMetrics=observed, name="theirs", batchId=0, batchDuration=1)
        listener.onQueryProgress(SimpleNamespace(progress=progress))  # type: ignore[arg-type]
    assert seen == []


def test_metrics_say_in_columns_why_each_shard_is_complete_no_further(watched: _Watched) -> None:
    """So that SQL can ask for it: for each step, and where sources go by themselves, for each of them."""
    found = watched.session.read.parquet(str(watched.folder / "metrics"))
    origins = found.selectExpr("batch_id", "explode(why) AS step").selectExpr(
        "batch_id", "explode(step.origins) AS one"
    )
    rows = origins.where("batch_id = 0").selectExpr("one.origin", "one.complete_before", "one.held").collect()
    expected = {(one.origin, one.complete_before, one.held) for one in watched.batches[0].why[0].origins}
    assert {tuple(row) for row in rows} == expected
    assert {row.ground for row in found.selectExpr("explode(why) AS w").selectExpr("w.ground").collect()} == {
        reason.ground.name for one in watched.batches for reason in one.why
    }


def test_reasons_lose_nothing_on_the_way_to_columns(session: SparkSession) -> None:
    """Everything that travels as text has its column."""
    loss = sw.ObservedLoss(10, 1, 0.1, taken_back=True, times_taken_back=2)
    origin = sw.OriginWhy("b", 5, 2, sw.Grounds.PROVEN, "in order", "a", 9)
    times, held = (4, 6, 7), {"sort#1": 3}
    ground = sw.Grounds.ESTIMATED
    why = sw.Why("heartbeats#1", 5, 8, ground, "rule", "b", "a", *times, {}, held, loss, (origin,), 1, calendar=False)
    text = json.dumps([_form(why, {"a": BrokenBounds(1, 4, "4", "in order")})])
    ((found,),) = (
        session.createDataFrame([(text,)], "w string").selectExpr(f"from_json(w, '{WHY_SPARK}') AS w").collect()
    )
    assert [row.asDict(recursive=True) for row in found] == json.loads(text)


def test_prometheus_reads_the_same(watched: _Watched) -> None:
    """Of the query, and of each micro-batch in a listener; the query is named in every sample."""
    text = watched.query.prometheus({"region": "north"})
    assert watched.batches[-1].prometheus({"region": "north"}) == text
    families = {one.name: one for one in text_string_to_metric_families(text)}
    named = {"query": f"readings-{watched.query.id[:8]}", "region": "north"}
    assert all(sample.labels.items() >= named.items() for one in families.values() for sample in one.samples)
    assert [sample.value for sample in families["slackwater_rows_in"].samples] == [6]
    held = {sample.labels["origin"]: sample.value for sample in families["slackwater_origin_held_rows"].samples}
    assert held == {origin.origin: origin.held for origin in watched.query.why()[0].origins}
    assert "slackwater_step_rows_in" not in families


def test_jobs_say_what_they_are_for(watched: _Watched) -> None:
    """Of each micro-batch, by the name of the query; nothing of it is left behind in jobs of others."""
    store = watched.session._jsc.sc().statusStore()
    name = f"readings-{watched.query.id[:8]}"
    jobs = store.jobsList(None)
    described = [
        str(jobs.apply(n).description().get()) for n in range(jobs.size()) if jobs.apply(n).description().isDefined()
    ]
    metrics = (watched.folder / "metrics").as_uri()
    for number in range(2):
        for what in ("computing and taking results", f"writing metrics to {metrics}", "writing late readings to _kept"):
            expected = f"{name}: micro-batch {number}, {what}"
            assert expected in described or what.endswith("_kept"), described


def test_names_of_jobs_are_put_back(session: SparkSession) -> None:
    """What the thread had set, and what it had not, also when the work fails."""
    java = session._jsc
    java.setLocalProperty("spark.job.description", "mine")

    def work() -> None:
        with jobs_named(session, "q", 3, "writing"):
            assert java.getLocalProperty("spark.job.description") == "q: micro-batch 3, writing"
            _FAILING.look_up(3)

    with pytest.raises(LookupError):
        work()
    assert java.getLocalProperty("spark.job.description") == "mine"
    java.setLocalProperty("spark.job.description", None)


# ---- failures of users' functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["rows", "window", "sink"])
def test_a_function_that_fails_is_shown_with_its_row_and_its_lines(
    session: SparkSession, tmp_path: Path, function: str
) -> None:
    """One message, without what Spark and Java say: the step, the row and its values; and the user's own lines."""
    _SMALL.bring(tmp_path, [0])
    frame = session.readStream.schema(_SMALL.COLUMNS).parquet(str(tmp_path / "in"))
    stream = sw.stream(frame, time="at", name="tides")
    ordered = {
        "rows": lambda: stream.where(_FAILING.by_rows).sort(5, late=sw.Late.drop()),
        "window": lambda: (
            stream.sort(5, late=sw.Late.drop())
            .tumbling(10)
            .map_windows(_FAILING.by_window, schema=pa.schema({"x": pa.int64()}))
        ),
        "sink": lambda: stream.sort(5, late=sw.Late.drop()),
    }[function]()
    query = ordered.start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=_FAILING.by_sink if function == "sink" else str(tmp_path / "out"),
        trigger={"availableNow": True},
        shards=1,
    )
    with pytest.raises(StepFailed) as failure:
        query.wait(_PATIENT_SECONDS)
    assert (
        str(failure.value).splitlines()
        == {
            "rows": [
                "step \"where of source 'tides'\" failed",
                "    row     7 of the batch, counted from 0",
                "    values  {'at': 7, 'n': 7}",
                "    cause   LookupError: no tide table has 7",
            ],
            "window": [
                "step 'map_windows#1' failed",
                "    window  [0, 10)",
                "    rows    11, the first {'window_start': 0, 'window_end': 10, 'at': 0, 'n': 0}",
                "    cause   LookupError: no tide table has 11",
            ],
            "sink": [
                "step 'sink of main' failed",
                "    micro-batch  0",
                "    cause        LookupError: no tide table has 0",
            ],
        }[function]
    )
    (note,) = failure.value.__notes__
    title, *lines = note.splitlines()
    assert title == "The function's own lines, the most recent call last:"
    assert [line.rpartition(", in ")[2] for line in lines] == [
        {
            "rows": "by_rows: look_up(7)",
            "window": "by_window: look_up(rows.num_rows)",
            "sink": "by_sink: look_up(batch_id)",
        }[function],
        'look_up: raise LookupError(f"no tide table has {value}")',
    ]
    assert failure.value.__suppress_context__
    assert failure.value.__cause__ is None


def test_lines_of_a_deep_recursion_are_the_last_ones() -> None:
    """A note is no wall; a failure that no function of a user led to has none."""

    def deeper(left: int) -> None:
        if not left:
            raise LookupError
        deeper(left - 1)

    def fail(cause: Exception | None) -> None:
        with with_users_lines():
            raise StepFailed("step failed") from cause

    try:
        deeper(100)
    except LookupError as error:
        with pytest.raises(StepFailed) as failure:
            fail(error)
    _, more, *lines = failure.value.__notes__[0].splitlines()
    assert more == "  ... 82 calls before"
    assert len(lines) == 20
    with pytest.raises(StepFailed) as failure:
        fail(None)
    assert not hasattr(failure.value, "__notes__")


def test_own_lines_are_taken_out_of_what_spark_says() -> None:
    """However many lines the message has, and whatever follows."""
    text = (
        "[STREAM_FAILED] ...\nslackwater.errors.StepFailed: step 'where#1' failed\n    cause   KeyError: at\n\nall\n"
        "The function's own lines, the most recent call last:\n"
        '  File "a.py", line 3, in f: at = rows[at]\n\n\tat org.apache.spark.api.python.Runner\n'
    )
    failure = failure_of(RuntimeError(text))
    assert str(failure) == "step 'where#1' failed\n    cause   KeyError: at\n\nall"
    assert failure.__notes__[0].splitlines()[1:] == ['  File "a.py", line 3, in f: at = rows[at]']


def test_a_query_is_complete_as_far_as_all_its_outputs_are(session: SparkSession, tmp_path: Path) -> None:
    """Bands come further the less patient they are: the last one counts, as in process, and a restart forgets none."""

    def bands(source: Any) -> sw.PatienceBands:
        return sw.stream(source, time="at").tumbling(10).in_bands(5, 40, every=sw.Every.batch(), n=sw.count())

    def start() -> sw.SparkQuery:
        files = session.readStream.schema("at long").parquet(str(tmp_path / "in"))
        folders: Any = {name: str(tmp_path / name) for name in ("main", "late", "checkpoint")}
        return bands(files).start(**folders, shards=2)

    (tmp_path / "in").mkdir()
    source = sw.PushSource(pa.schema({"at": pa.int64()}))
    in_process = bands(source).open(lambda _: None, clock=sw.ManualClock(), on_late=print)
    found, expected = [], []
    query = start()
    for number, times in enumerate(([1, 12, 38], [61, 40], [62], [100, 1])):
        rows = pa.table({"at": times})
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet")
        query.work()
        source.push(rows)
        in_process.work()
        found.append(query.progress().complete_before)
        expected.append(in_process.progress().complete_before)
        if number == 1:
            query.stop()
            query = start()
    query.stop()
    in_process.close()
    assert found == expected
    assert expected[1:] == [20, 20, 60]
