"""Pipelines from files, in process: rows go where they are asked to, mistakes are one message, Ctrl-C stops cleanly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pipeline_files import ROWS, given, python_file, require_one_message, toml_file

import slackwater as sw
from slackwater.cli.main import main
from slackwater.cli.row_files import json_lines
from slackwater.progress.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of rows and two pipelines, in which commands are given."""
    return given(tmp_path, monkeypatch)


def _expected(*, late: sw.Late) -> sw.Result:
    rows = sw.stream("rows.parquet", time="at").tumbling(10).sort(patience=5, late=late)
    return rows.group_by("who").aggregate(n=sw.count()).run()


# ---- rows -----------------------------------------------------------------------------------------------------------


def test_a_pipeline_in_toml_prints_what_its_stream_gives(capsys: pytest.CaptureFixture[str]) -> None:
    """As lines of JSON, and what it did beside them."""
    assert main(["run", "p.toml"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == _expected(late=sw.Late.drop()).table.to_pylist()
    assert err.startswith("slackwater: 8 rows in, 5 out, 0 held, 0 late in ")


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_rows_go_to_files_by_their_ending(ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same rows in each; late ones in a file of their own. Nothing is shown if nothing shall be."""
    assert main(["run", "p.py", "--output", f"out.{ending}", "--late", f"late.{ending}", "--quiet", "--", "3"]) == 0
    assert capsys.readouterr() == ("", "")
    expected = sw.stream("rows.parquet", time="at").sort(patience=3).run()
    assert sw.stream(f"out.{ending}", time="at").run().table.to_pylist() == expected.table.to_pylist()
    assert sw.stream(f"late.{ending}", time="at").run().table.to_pylist() == expected.late.to_pylist()
    assert expected.late.num_rows == 1
    assert sorted([file.name for file in Path().iterdir()]) == sorted(
        [f"out.{ending}", f"late.{ending}", "p.py", "p.toml", "rows.parquet"]
    )


def test_words_go_to_the_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    """In order, or by the name of a parameter; as many as it takes."""
    for words in (["100"], ["patience=100"]):
        assert main(["run", "p.py", "--late=late.csv", "--", *words]) == 0
        assert [json.loads(line)["at"] for line in capsys.readouterr().out.splitlines()] == sorted(
            at for at, *_ in ROWS
        )
    assert main(["run", "p.py", "--", "1", "2"]) == 2
    assert "takes  pipeline(patience=5, spark=None)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("returned", "files"),
    [
        ("{'rows': ordered, 'counts': counts}", {"out/rows.parquet": 8, "out/counts.parquet": 3}),
        ("ordered, counts", {"out/main.parquet": 8, "out/main-2.parquet": 3}),
        ("[ordered, ordered.where(lambda rows: [False] * rows.num_rows)]", {"out": 8}),
        ("rows.in_bands(5, 100, late=sw.Late.drop())", {"out": 15}),
        ("{'rows': (ordered, 'mine.csv'), 'counts': counts}", {"out": 3, "mine.csv": 8}),
        ("(ordered, 'mine.csv')", {"mine.csv": 8}),
        (
            "(lambda s: {'main': s, 'late': s.late})(rows.sort(patience=1))",
            {"out/main.parquet": 5, "out/late.parquet": 3},
        ),
    ],
)
def test_several_outputs_share_a_place_or_get_one_each(returned: str, files: dict[str, int]) -> None:
    """One file where columns are the same; else a folder with a file for each; or where the pipeline itself says."""
    file = python_file(f"""
        def pipeline():
            rows = sw.stream(ROWS, time="at")
            ordered = rows.sort()
            counts = ordered.tumbling(20).aggregate(n=sw.count())
            return {returned}
        """)
    output = ["--output", "out"] if any(name.startswith("out") for name in files) else []
    assert main(["run", file, "--format=csv" if files == {"mine.csv": 8} else "--format=parquet", *output]) == 0
    found = {name: pq.read_table(name).num_rows for name in files if not name.endswith(".csv")}
    text = {name: Path(name).read_bytes() for name in files if name.endswith(".csv")}
    assert found == {name: rows for name, rows in files.items() if name in found}
    assert all(text.values())


def test_late_rows_of_several_sources_get_a_file_each() -> None:
    """By the names of the sources; refused where nobody takes them."""
    file = python_file("""
        def pipeline():
            a, b = (sw.stream(ROWS, time="at", name=name).sort(patience=1) for name in "ab")
            return a.join(b.select("at", w="v"), on=[], within=1)
        """)
    assert main(["run", file, "--output=out.parquet"]) == 2
    assert main(["run", file, "--output=out.parquet", "--late=late"]) == 0
    assert sorted([file.name for file in Path("late").iterdir()]) == ["a.parquet", "b.parquet"]


def test_a_function_takes_rows_where_the_pipeline_gives_one(capsys: pytest.CaptureFixture[str]) -> None:
    """In the process that runs it."""
    file = python_file("""
        def pipeline():
            return sw.stream(ROWS, time="at").sort(), lambda rows: print(rows.num_rows)
        """)
    assert main(["run", file]) == 0
    assert capsys.readouterr().out == "8\n"


def test_toml_says_all_that_its_table_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Each key does what its method does; the plans are the same."""
    cases: dict[str, Callable[[sw.DisorderedStream], object]] = {
        'name = "r"\n[sort]\npatience = 5\nahead = 9\n[sort.bounds]\nuniform = 3\n': lambda rows: rows.sort(
            patience=5, ahead=9, bounds=sw.Bounds.uniform(3)
        ),
        '[sort]\n[sort.bounds]\nin_order = true\nonly = ["a", "b"]\n': lambda rows: rows.sort(
            bounds=sw.Bounds.in_order().only("a", "b")
        ),
        "[sort]\npatience = 9\n[sort.bounds]\ndisorder = 2\nlull = 30\nonce_seen = true\nin_order = false\n": (
            lambda rows: rows.sort(patience=9, bounds=(sw.Bounds.disorder(2) & sw.Bounds.lull(30)).once_seen())
        ),
        "[bands]\npatiences = [5, 20]\n": lambda rows: rows.in_bands(5, 20),
        '[bands]\npatiences = [5, 20]\nlate = "drop"\n[window]\ntumbling = 10\noffset = 3\n[aggregates]\n'
        'n = "count(v)"\n': lambda rows: rows.tumbling(10, offset=3).in_bands(
            5, 20, late=sw.Late.drop(), n=sw.count("v")
        ),
        '[sort]\n[window]\nhopping = 10\nhop = 5\n[aggregates]\nt = "top_k(v, 2)"\nm = " mean( v ) "\n': lambda rows: (
            rows.sort().hopping(10, 5).aggregate(t=sw.top_k("v", 2), m=sw.mean("v"))
        ),
        '[window]\nsliding = 4\n[sort]\npatience = 2\nlate = "raise"\n[aggregates]\nn = "count_distinct(who)"\n': (
            lambda rows: (
                rows.sort(patience=2, late=sw.Late.raise_error()).sliding(4).aggregate(n=sw.count_distinct("who"))
            )
        ),
        "": lambda rows: rows,
    }
    for text, build in cases.items():
        name = "r" if text.startswith("name") else "rows.parquet"
        file = toml_file(f'[source]\npath = "rows.parquet"\ntime = "at"\norigin = "who"\narrived = "came"\n{text}')
        assert main(["explain", file]) == 0
        built: object = build(sw.stream("rows.parquet", time="at", origin="who", arrived="came", name=name))
        assert capsys.readouterr().out == f"{built.explain()}\n"  # type: ignore[attr-defined]
    ordered = '[source]\npath = "rows.parquet"\ntime = "v"\nordered = true\nuntil = "v"\nuntimed_is_late = false\n'
    assert main(["explain", toml_file(ordered)]) == 2


def test_paths_in_toml_are_seen_from_the_file() -> None:
    """Wherever the command is given; what the command line says goes first."""
    Path("below").mkdir()
    text = '[source]\npath = "../rows.parquet"\ntime = "at"\n[output]\nmain = "out.csv"\nformat = "csv"\n'
    Path("below/q.toml").write_text(text)
    assert main(["run", "below/q.toml"]) == 0
    assert main(["run", "below/q.toml", "--output", "out.csv"]) == 0
    assert Path("below/out.csv").read_bytes() == Path("out.csv").read_bytes()
    Path("below/q.toml").write_text(text.replace("out.csv", "-"))
    assert main(["run", "below/q.toml"]) == 0


def test_explain_shows_the_plan_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """As the runner would run it; no rows are read."""
    file = python_file("""
        def rows():
            raise AssertionError("nobody reads")
            yield
        def pipeline():
            return sw.stream(rows(), time="at", schema={"at": "int64"}).sort()
        """)
    assert main(["explain", file]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("sort#1 ")
    assert main(["explain", file, "--shards=2"]) == 2


def test_rows_before_a_failure_stay_beside_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    """What was asked for is whole, or as it was."""
    Path("out.csv").write_text("as it was")
    file = python_file("""
        def rows():
            yield from [{"at": at} for at in range(2_000)]
            raise OSError("the line is dead")
        def pipeline():
            return sw.stream(rows(), time="at").assume_ordered()
        """)
    assert main(["run", file, "--output", "out.csv"]) == 2
    err = require_one_message(capsys, "the line is dead")
    assert "the rows before it are in out.csv.partial" in err
    assert Path("out.csv").read_text() == "as it was"
    assert Path("out.csv.partial").read_text().startswith('"at"\n0\n1\n')


# ---- how it comes along ---------------------------------------------------------------------------------------------

_LIVE = """
import threading
import pyarrow as pa
import slackwater as sw

def pipeline():
    source = sw.PushSource({"at": pa.int64()}, name="live")
    source.push([{"at": at} for at in (1, 5, 3, 9)])
    return sw.stream(source, time="at").sort(patience=3, late=sw.Late.drop())
"""


@pytest.mark.parametrize("output", ["-", "out.jsonl"])
def test_ctrl_c_stops_a_run_between_two_steps(output: str, folder: Path) -> None:
    """What has come out is out; what is held is counted, and how to go on is written. The exit code is the shell's."""
    Path("live.py").write_text(_LIVE)
    command = [str(Path(sys.executable).with_name("slackwater")), "run", "live.py", "--output", output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as process:  # noqa: S603
        assert process.stdout is not None
        if output == "-":
            assert [json.loads(process.stdout.readline())["at"] for _ in range(3)] == [1, 3, 5]
        else:
            partial = Path(f"{output}.partial")
            patience = Deadline(60)
            while not partial.exists() or partial.stat().st_size == 0:
                assert process.poll() is None
                assert not patience.has_come
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert out == ""
    assert err.splitlines()[0].startswith("slackwater: stopped: 4 rows in, 3 out, 1 held, 0 late; complete before 6")
    assert "run it again from the start" in err
    assert ("the rows until then are in out.jsonl.partial" in err) == (output != "-")
    assert "Traceback" not in err


def test_it_is_known_how_many_rows_parquet_and_tables_have() -> None:
    """Of CSV nobody knows before it is read."""
    pa.csv.write_csv(pq.read_table("rows.parquet"), "rows.csv")
    sources = ["rows.parquet", pq.read_table("rows.parquet"), [{"at": 1}], "rows.csv", iter([{"at": 1}])]
    feeds = [sw.stream(source, time="at").node.feed for source in sources]  # type: ignore[attr-defined]
    assert [feed.rows_if_known() for feed in feeds] == [8, 8, 1, None, None]


def test_lines_of_json_can_be_read_by_anybody() -> None:
    """Times as texts, what JSON has no number for as null, bytes and the rest as texts."""
    rows = pa.record_batch(
        {
            "at": pa.array([1_500_000], pa.timestamp("us", "UTC")),
            "far": pa.array([2**60], pa.timestamp("ns")),
            "day": pa.array([1], pa.date32()),
            "x": pa.array([float("inf")]),
            "b": pa.array([b"\xffa"]),
            "l": pa.array([[1, None]]),
            "s": pa.array(["ä"]),
        }
    )
    (line,) = json_lines(rows)
    assert json.loads(line) == {
        "at": "1970-01-01T00:00:01.500000Z",
        "far": "2006-07-14T23:58:24.606846976",
        "day": "1970-01-02",
        "x": None,
        "b": "\\xffa",
        "l": [1, None],
        "s": "ä",
    }
