"""The demonstration: what collectors send, that the proof finds every fault, and a short run of all of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import comparison
import hearing
import live_query
import outcomes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import run_tables
from broker import SUBJECT
from browser import needs_chromium, shown
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from flight_list import BEGIN, landed_flights, schema_of
from mishaps import AHEAD_BY, Mishaps

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLE = Path(__file__).parents[2] / "examples" / "flights_live" / "demonstration.py"
_DAYS = 3
_MISHAPS = Mishaps.in_days(_DAYS)
_PARTS = 9


def _sent(collector: str) -> list[dict[str, Any]]:
    messages = hearing.heard_by(collector, landed_flights(_DAYS).to_pylist(), _MISHAPS)
    sent = [json.loads(message.data) for message in messages]
    for one, message in zip(sent, messages, strict=True):
        one.update({name: datetime.fromisoformat(one[name]) for name in ("departed", "heard")})
        assert one["heard"] == message.heard
    return sent


# ---- what the collectors send ----------------------------------------------------------------------------------------


def test_flights_come_in_order_of_landing() -> None:
    """Those that landed in the first days, each by a number of its own, and long ones hours after they left."""
    flights = landed_flights(_DAYS).to_pylist()
    assert len(flights) == len({one["number"] for one in flights}) > 2_000
    assert all(one["landed"] <= other["landed"] for one, other in pairwise(flights))
    assert any(one["departed"] > other["departed"] for one, other in pairwise(flights))
    assert all(BEGIN <= one["departed"] < one["landed"] < BEGIN + timedelta(days=_DAYS) for one in flights)


def test_every_flight_is_reported_by_a_collector_within_the_bound_unless_its_line_was_down() -> None:
    """Green reports all; blue misses some, and those of its backlog alone break the bound that the query goes by."""
    flights = {one["number"]: one for one in landed_flights(_DAYS).to_pylist()}
    blue, green = _sent(hearing.BLUE), _sent(hearing.GREEN)
    assert [one["number"] for one in blue] != [one["number"] for one in green][: len(blue)]
    assert {one["number"] for one in green} == set(flights) > {one["number"] for one in blue}
    for one in (*blue, *green):
        assert one["heard"] >= flights[one["number"]]["landed"]
        delay = one["heard"] - flights[one["number"]]["departed"]
        assert delay <= hearing.NEVER_LATER or one["heard"] == _MISHAPS.back
    assert sum(one["heard"] == _MISHAPS.back for one in blue) > 100
    assert not any(_MISHAPS.quiet <= one["heard"] < _MISHAPS.back for one in blue)


def test_a_clock_that_is_ahead_is_so_for_hours_and_for_departures_alone() -> None:
    """Of green, and never of blue."""
    flights = {one["number"]: one for one in landed_flights(_DAYS).to_pylist()}
    for collector in (hearing.BLUE, hearing.GREEN):
        for one in _sent(collector):
            wrong = collector == hearing.GREEN and _MISHAPS.wrong <= one["heard"] < _MISHAPS.right
            assert one["departed"] - flights[one["number"]]["departed"] == (AHEAD_BY if wrong else timedelta())


# ---- the proof -------------------------------------------------------------------------------------------------------


class _Table:
    """A Delta table that gets what has come since the last part, and the number of the part with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[pa.RecordBatch] = []

    def __call__(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)

    def write(self, number: int) -> None:
        """Write it."""
        for rows in self._waiting:
            of_delta = rows.drop_columns([name for name in ("late_by", "ahead_by") if name in rows.schema.names])
            numbered = CommitProperties(app_transactions=[Transaction("query", number)])
            write_deltalake(self._path, of_delta, mode="append", commit_properties=numbered)
        self._waiting.clear()


def _run_in_process(folder: Path) -> None:
    """Leave in a folder what a run leaves there: the same plan in process, in parts, with an end that nobody knows."""
    flights = landed_flights(_DAYS)
    pq.write_table(flights, folder / "flights.parquet")
    sent = [{**one, "subject": f"{SUBJECT}.{name}"} for name in (hearing.BLUE, hearing.GREEN) for one in _sent(name)]
    sent = sorted((one for one in sent if one["heard"] < _MISHAPS.end), key=lambda one: one["heard"])
    schema = pa.schema([*schema_of("departed", "heard"), ("subject", pa.string()), ("sequence", pa.int64())])
    feed = pa.Table.from_pylist([{**one, "sequence": place + 1} for place, one in enumerate(sent)], schema)
    (folder / "feed").mkdir()
    pq.write_table(feed, folder / "feed" / "0.parquet")
    offsets = folder / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)

    source = sw.PushSource(schema, name="feed")
    bands = live_query.flights_at_three_patiences(source)
    answers, flights_once, ahead, late = (_Table(folder / name) for name in ("answers", "flights", "ahead", "late"))
    outputs = [*((live_query.per_hour(one), answers) for one in bands), (bands.streams[-1], flights_once)]

    def on_late(rows: pa.RecordBatch) -> None:
        (ahead if "ahead_by" in rows.schema.names else late)(rows)

    query = sw.Query(outputs, clock=sw.ManualClock(), on_late=on_late)
    for number in range(_PARTS):
        first, stop = (feed.num_rows * edge // _PARTS for edge in (number, number + 1))
        source.push(feed.slice(first, stop - first))
        query.work()
        for table in (answers, flights_once, ahead, late):
            table.write(number)
        (offsets / str(number)).write_text(f"v1\n{{}}\n{json.dumps({'at': {'sequence': stop}})}")
    (folder / "standing.json").write_text(json.dumps({"complete_before": query.why()[0].complete_before}))
    query.close()  # what that gives out nobody sees


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run in process."""
    folder = tmp_path_factory.mktemp("flights")
    _run_in_process(folder)
    return folder


def _proof(folder: Path) -> comparison.Proof:
    with run_tables.opened(folder) as base:
        return comparison.proof_of(base, folder, _MISHAPS.end)


def test_every_flight_is_in_the_answers_or_late_or_in_an_open_hour(finished: Path) -> None:
    """And there are some of each kind: green alone has reported the late ones, while its clock was wrong."""
    proof = _proof(finished)
    assert proof.holds, proof.faults
    assert proof.once > 1_000
    assert proof.late > 0
    assert proof.still_open > 0
    assert proof.flights == proof.once + proof.late + proof.still_open
    assert proof.answers > 300


def _change(table: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rows = DeltaTable(table).to_pyarrow_table()
    shutil.rmtree(table)
    numbered = CommitProperties(app_transactions=[Transaction("query", 0)])
    write_deltalake(table, change(rows), commit_properties=numbered)


def _with_column(rows: pa.Table, name: str, values: Any) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def _one_more(rows: pa.Table) -> pa.Table:
    counts = rows["flights"].to_pylist()
    place = rows["band"].to_pylist().index(2)
    return _with_column(rows, "flights", pa.array([n + (i == place) for i, n in enumerate(counts)]))


def _another_hour(rows: pa.Table) -> pa.Table:
    times = rows["departed"].to_pylist()
    return _with_column(rows, "departed", pa.array([times[0] - timedelta(hours=1), *times[1:]], rows["departed"].type))


def _other_number(rows: pa.Table) -> pa.Table:
    return _with_column(rows, "number", pa.array([999_999, *rows["number"].to_pylist()[1:]], pa.int64()))


@pytest.mark.parametrize(
    ("table", "change", "fault"),
    [
        ("flights", lambda rows: rows.slice(0, len(rows) - 1), "lost"),
        ("flights", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), "counted twice"),
        ("flights", _another_hour, "changed"),
        ("flights", _other_number, "invented"),
        ("ahead", lambda rows: rows.slice(0, 0), "lost"),
        ("answers", lambda rows: rows.filter(pa.compute.less(rows["band"], 2)), "wrong counts"),
        ("answers", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), "answers given twice"),
        ("answers", _one_more, "wrong counts"),
    ],
)
def test_the_proof_finds_every_fault(
    finished: Path, tmp_path: Path, table: str, change: Callable[[pa.Table], pa.Table], fault: str
) -> None:
    """Something that was forgotten, written twice, changed or made up, of flights or of answers."""
    spoilt = shutil.copytree(finished, tmp_path / "spoilt")
    _change(spoilt / table, change)
    proof = _proof(spoilt)
    assert not proof.holds
    assert proof.faults[fault] > 0


def test_what_is_final_too_soon_or_never_published_is_a_fault(finished: Path, tmp_path: Path) -> None:
    """An end that the query had not reached, and a feed that lacks flights."""
    spoilt = shutil.copytree(finished, tmp_path / "spoilt")
    early = {"complete_before": int(BEGIN.timestamp() * 1e6)}
    (spoilt / "standing.json").write_text(json.dumps(early))
    assert _proof(spoilt).faults["final too soon"] > 1_000
    feed = pq.read_table(spoilt / "feed")
    pq.write_table(feed.filter(pa.compute.greater(feed["number"], 100)), spoilt / "feed" / "0.parquet")
    assert _proof(spoilt).faults["never published"] > 50


def test_what_native_watermarks_miss_misplace_and_delay_is_found(finished: Path, tmp_path: Path) -> None:
    """Answers as the list has them, but for three flights that are missing and two that are in a wrong hour."""
    folder = shutil.copytree(finished, tmp_path / "run")
    with run_tables.opened(folder) as base:
        proof = comparison.proof_of(base, folder, _MISHAPS.end)
        closed = outcomes.closed_by_all(proof.complete_before, _MISHAPS.end)
        rows = base.execute(
            "SELECT date_trunc('hour', departed), carrier, count(*) FROM account"
            " WHERE departed < $closed GROUP BY ALL ORDER BY ALL DESC",
            {"closed": closed},
        ).fetchall()
        rows.sort(key=lambda row: -row[2])
        listed = pa.table(dict(zip(("window_start", "carrier", "flights"), zip(*rows, strict=True), strict=True)))
        flights = listed["flights"].to_pylist()
        assert flights[0] >= 3
        flights[0], flights[1] = flights[0] - 3, flights[1] + 2
        for patience in live_query.PATIENCES:
            answers = _with_column(listed, "flights", pa.array(flights))
            for name, value in (("patience", patience), ("batch", 1)):
                answers = answers.append_column(name, pa.array([value] * len(answers)))
            last = base.execute("SELECT max(sequence), max(clock) FROM message").fetchone()
            read = pa.table({"patience": [patience], "batch": [1], "messages": [last[0]]})
            for name, rows in (("answers", answers), ("read", read)):
                (folder / "native" / name).mkdir(parents=True, exist_ok=True)
                pq.write_table(rows, folder / "native" / name / f"{patience}.parquet")
        outcomes.prepare(base, folder, live_query.PATIENCES, closed)
        found = outcomes.outcomes(base, live_query.PATIENCES)
        missing = outcomes.missing_by_day(base, live_query.PATIENCES)
    assert [(one.who, one.patience) for one in found] == [(w, p) for w in outcomes.WAYS for p in live_query.PATIENCES]
    assert {(one.missing, one.misplaced) for one in found[3:]} == {(3, 2)}
    assert {one.flights for one in found} == {sum(listed["flights"].to_pylist())}
    starts = sorted(listed["window_start"].to_pylist())
    assert found[5].most <= (last[1] - starts[0]) / timedelta(hours=1) - 1
    assert found[5].median == pytest.approx((last[1] - starts[len(starts) // 2]) / timedelta(hours=1) - 1, abs=1)
    assert found[2].missing == found[2].misplaced == 0  # those that are late alone left later
    assert sum(day["missing"] for day in missing if day["who"] == outcomes.WAYS[1]) == 3


# ---- all of it -------------------------------------------------------------------------------------------------------


def _processes_of(folder: Path) -> list[str]:
    """The processes that have this folder in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if str(folder) in words:
            found.append(words)
    return found


def _demonstration(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", str(_EXAMPLE), "--days", str(_DAYS), "--days-per-second", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.Popen(  # noqa: S603 - our own words
        [*command, "--folder", str(folder)],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a short run of everything, and what it printed."""
    folder = tmp_path_factory.mktemp("demonstration") / "output"
    run = _demonstration(folder)
    printed, _ = run.communicate()
    assert run.returncode == 0, printed
    return folder, printed


def test_a_short_run_ends_with_every_flight_exactly_once(demonstrated: tuple[Path, str]) -> None:
    """Though a collector falls silent and dies, the clock of the other is wrong, and the query is killed."""
    folder, printed = demonstrated
    assert "every flight exactly once" in printed
    assert "with its Java and its workers; started again" in printed
    assert printed.splitlines()[-1].endswith(str(folder / "report.html"))
    assert len([line for line in printed.splitlines() if line.strip().startswith("native watermarks")]) == 3
    assert _processes_of(folder) == []


@needs_chromium
def test_the_page_of_a_run_opens_without_errors(demonstrated: tuple[Path, str], tmp_path: Path) -> None:
    """The tables stand there, and all pictures are drawn: that of missing flights, and those of the profile."""
    folder, _ = demonstrated
    page = shown(folder / "report.html", tmp_path / "browser")
    assert "<title>Flights of two collectors" in page
    assert "<h2>Every flight exactly once</h2>" in page
    assert "flights in no final answer" in page
    assert page.count('class="marks"') == (folder / "report.html").read_text(encoding="utf-8").count(
        '<div id="picture-'
    )


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    """Neither the server nor collectors nor the query, which has just been started."""
    folder = tmp_path / "output"
    run = _demonstration(folder)
    assert run.stdout is not None
    for line in run.stdout:
        if "are recorded as a sample" in line:
            break
    assert len(_processes_of(folder)) >= 4
    run.send_signal(signal.SIGINT)
    printed = run.communicate()[0]
    assert run.returncode == 1
    assert printed.splitlines()[-1] == "interrupted: the server and all processes are gone"
    assert _processes_of(folder) == []
