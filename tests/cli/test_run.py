"""Pipelines from files, in process: rows go where they are asked to, mistakes are one message, Ctrl-C stops cleanly."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import slackwater as sw
from slackwater.cli.display import Display
from slackwater.cli.main import main
from slackwater.cli.row_files import json_lines
from slackwater.cli.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = [(at, "ab"[at % 2], at / 2) for at in (1, 4, 2, 13, 11, 3, 25, 40)]
_COUNTS = [{"window_start": 0, "window_end": 10, "who": who, "n": n} for who, n in (("a", 2), ("b", 1))]
_TOML = """
group_by = ["who"]
[source]
path = "rows.parquet"
time = "at"
[window]
tumbling = 10
[sort]
patience = 5
late = "drop"
[aggregates]
n = "count()"
"""
_PYTHON = """
import slackwater as sw

def pipeline(patience=5, spark=None):
    rows = sw.stream("rows.parquet", time="at")
    return rows.sort(patience=int(patience))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of rows, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    columns = dict(zip(("at", "who", "v"), map(list, zip(*_ROWS, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "came": [at + 1 for at in columns["at"]]}), "rows.parquet")
    Path("p.toml").write_text(_TOML)
    Path("p.py").write_text(_PYTHON)
    return tmp_path


def _python(body: str) -> str:
    """A file with a pipeline of these lines; its name."""
    text = f"import slackwater as sw\nROWS = 'rows.parquet'\n{textwrap.dedent(body)}"
    Path("q.py").write_text(text)
    return "q.py"


def _toml(text: str) -> str:
    Path("q.toml").write_text(text)
    return "q.toml"


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
            at for at, *_ in _ROWS
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
    file = _python(f"""
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
    file = _python("""
        def pipeline():
            a, b = (sw.stream(ROWS, time="at", name=name).sort(patience=1) for name in "ab")
            return a.join(b.select("at", w="v"), on=[], within=1)
        """)
    assert main(["run", file, "--output=out.parquet"]) == 2
    assert main(["run", file, "--output=out.parquet", "--late=late"]) == 0
    assert sorted([file.name for file in Path("late").iterdir()]) == ["a.parquet", "b.parquet"]


def test_a_function_takes_rows_where_the_pipeline_gives_one(capsys: pytest.CaptureFixture[str]) -> None:
    """In the process that runs it."""
    file = _python("""
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
        file = _toml(f'[source]\npath = "rows.parquet"\ntime = "at"\norigin = "who"\narrived = "came"\n{text}')
        assert main(["explain", file]) == 0
        built: object = build(sw.stream("rows.parquet", time="at", origin="who", arrived="came", name=name))
        assert capsys.readouterr().out == f"{built.explain()}\n"  # type: ignore[attr-defined]
    ordered = '[source]\npath = "rows.parquet"\ntime = "v"\nordered = true\nuntil = "v"\nuntimed_is_late = false\n'
    assert main(["explain", _toml(ordered)]) == 2


def test_explain_shows_the_plan_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """As the runner would run it; no rows are read."""
    file = _python("""
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


# ---- mistakes -------------------------------------------------------------------------------------------------------

_SOURCE = '[source]\npath = "rows.parquet"\ntime = "at"\n'
_TOML_MISTAKES = {
    "no TOML": ("[source\n", "a pipeline is no TOML"),
    "an unknown key": (f"{_SOURCE}[sort]\npatiense = 5\n", "did you mean patience?"),
    "an unknown table": (f"{_SOURCE}[sorted]\npatience = 5\n", "did you mean sort?"),
    "a key of another table": (f"{_SOURCE}[sort]\ntumbling = 5\n", "it belongs to [window]"),
    "a key that is nowhere": (f"{_SOURCE}[sort]\nxyz = 5\n", "there is no such key"),
    "a key for a table": (f"{_SOURCE}sort = 5\n", "[source] sort"),
    "a table that is none": (f"sort = 5\n{_SOURCE}", "[sort] is a table"),
    "an unknown bound": (f"{_SOURCE}[sort.bounds]\ndisorderd = 5\n", "did you mean disorder?"),
    "no source": ('group_by = ["who"]\n', "[source] names its path"),
    "no time": ('[source]\npath = "rows.parquet"\n', "[source] names its time"),
    "a number for a text": ('[source]\npath = 3\ntime = "at"\n', "[source] path is a text"),
    "an empty text": ('[source]\npath = ""\ntime = "at"\n', "[source] path is a text"),
    "a text for a flag": (f'{_SOURCE}ordered = "yes"\n', "ordered is true or false"),
    "a flag for a length": (f"{_SOURCE}[sort]\npatience = true\n", "patience is a length of time"),
    "no list of lengths": (f"{_SOURCE}[bands]\npatiences = 5\n", "patiences is a list of lengths"),
    "an empty list": (f"{_SOURCE}[bands]\npatiences = []\n", "patiences is a list of lengths"),
    "no patiences": (f"{_SOURCE}[bands]\n", "[bands] names its patiences"),
    "a length of another kind": (f'{_SOURCE}[sort]\npatience = "5s"\n', "5s"),
    "a length that is none": (f'{_SOURCE}[sort]\npatience = "five"\n', "five"),
    "two ways to wait": (f"{_SOURCE}[sort]\npatience = 5\n[bands]\npatiences = [5]\n", "one way to wait"),
    "late without a patience": (f'{_SOURCE}[sort]\nlate = "drop"\n', "no patience by which rows could be late"),
    "an unknown policy": (f'{_SOURCE}[sort]\npatience = 5\nlate = "drap"\n', "what becomes of late rows"),
    "groups of nothing": (f'group_by = ["who"]\n{_SOURCE}[sort]\n', "group_by is for aggregates"),
    "aggregates without order": (f'{_SOURCE}[aggregates]\nn = "count()"\n', "when a window is complete"),
    "an aggregate that is none": (f'{_SOURCE}[sort]\n[aggregates]\nn = "averge(v)"\n', "aggregates] n is no aggregate"),
    "an aggregate without a column": (f'{_SOURCE}[sort]\n[aggregates]\nn = "mean()"\n', "is not complete"),
    "a top without a number": (f'{_SOURCE}[sort]\n[aggregates]\nn = "top_k(v)"\n', "is not complete"),
    "a column that is not there": (f'{_SOURCE}[sort]\n[aggregates]\nn = "mean(w)"\n', "a column that is not there"),
    "two kinds of windows": (f"{_SOURCE}[window]\ntumbling = 5\nsliding = 5\n", "one kind of windows"),
    "hopping without a hop": (f"{_SOURCE}[window]\nhopping = 5\n", "hopping and hop go together"),
    "sliding by an offset": (f"{_SOURCE}[window]\nsliding = 5\noffset = 1\n", "sliding windows have no offset"),
    "no bounds": (f'{_SOURCE}[sort.bounds]\nonly = ["a"]\n', "what is known of sources"),
    "no such file": ('[source]\npath = "none.csv"\ntime = "at"\n', "there is no such file"),
    "texts as times": ('[source]\npath = "rows.parquet"\ntime = "who"\n', "the type of a column"),
    "an unknown ending": (f'{_SOURCE}[output]\nmain = "rows.xlsx"\n', "does not say how it is written"),
}


@pytest.mark.parametrize("mistake", _TOML_MISTAKES)
def test_a_mistake_in_toml_is_one_message(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, what came, what to do; nothing is written."""
    text, part = _TOML_MISTAKES[mistake]
    assert main(["run", _toml(text)]) == 2
    _require_one_message(capsys, part)
    assert sorted([file.name for file in Path().iterdir()]) == ["p.py", "p.toml", "q.toml", "rows.parquet"]


_PYTHON_MISTAKES = {
    "no Python": ("def pipeline(:\n", "a pipeline is no Python"),
    "no function": ("def pipelin():\n    pass\n", "a pipeline has a function pipeline()"),
    "a file that fails": ("1 / 0\n", "q.py could not be loaded"),
    "a function that fails": ("def pipeline():\n    return {}['x']\n", "pipeline() of q.py failed"),
    "a function that ends the program": ("def pipeline():\n    raise SystemExit(3)\n", "it ended the program"),
    "nothing": ("def pipeline():\n    pass\n", "pipeline() returned no stream"),
    "no outputs": ("def pipeline():\n    return {}\n", "pipeline() returned no stream"),
    "a result": ("def pipeline():\n    return sw.stream(ROWS, time='at').run()\n", "pipeline() returned no stream"),
    "a list with a text": ("def pipeline():\n    return [sw.stream(ROWS, time='at'), 'x']\n", "returned no stream"),
    "a bad call": ("def pipeline():\n    return sw.stream(ROWS, time='when')\n", "in  q.py:4, in pipeline:"),
    "a session in process": ("def pipeline(spark):\n    pass\n", "say --runner spark"),
    "a missing argument": ("def pipeline(day):\n    pass\n", "other arguments than it takes"),
    "late rows": ("def pipeline():\n    return sw.stream(ROWS, time='at').sort(5)\n", "say --late PLACE"),
    "two columns on one output": (
        "def pipeline():\n    s = sw.stream(ROWS, time='at').sort()\n    return s, s.select('at')\n",
        "say --output FOLDER",
    ),
    "a name that is no file's": (
        "def pipeline():\n    s = sw.stream(ROWS, time='at').sort()\n    return {'a/b': s, 'c': s.select('at')}\n",
        "an output cannot be called so",
    ),
    "a sink of Spark": (
        "def pipeline():\n    return sw.stream(ROWS, time='at'), sw.FolderSink('x')\n",
        "this sink is for streams of Spark",
    ),
    "a function that fails at work": (
        """
def bad(rows):
    if rows.num_rows == 8:
        raise LookupError("no tide table has these")
    return [True] * rows.num_rows
def pipeline():
    return sw.stream(ROWS, time="at").where(bad)
""",
        "cause  LookupError: no tide table has these",
    ),
}


@pytest.mark.parametrize("mistake", _PYTHON_MISTAKES)
def test_a_mistake_in_python_is_one_message_with_the_users_lines(
    mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of this library's own."""
    text, part = _PYTHON_MISTAKES[mistake]
    assert main(["run", _python(text)]) == 2
    err = _require_one_message(capsys, part)
    assert "slackwater/cli" not in err
    if "fails" in mistake:
        assert "q.py:" in err


_CALLS = {
    "no such pipeline": (["run", "none.toml"], "a pipeline could not be read"),
    "a folder": (["run", "folder.py"], "a pipeline could not be read"),
    "another ending": (["run", "rows.parquet"], "this is no pipeline by its name"),
    "no text": (["run", "binary.py"], "a pipeline is a text in UTF-8"),
    "no pipeline": (["run"], "PIPELINE"),
    "an unknown option": (["run", "p.toml", "--outptu", "x"], "Did you mean --output?"),
    "an unknown runner": (["run", "p.toml", "--runner", "flink"], "in-process"),
    "an unknown command": (["runn", "p.toml"], 'Did you mean "run"?'),
    "words for TOML": (["run", "p.toml", "--", "x"], "a TOML file takes no arguments"),
    "an option of Spark": (["run", "p.toml", "--checkpoint", "c"], "these options are for queries on Spark"),
    "no such folder": (["run", "p.toml", "--output", "none/x.csv"], "rows cannot be written"),
    "a file as a folder": (["run", "p.toml", "--output", "rows.parquet/x.csv"], "rows cannot be written"),
    "a folder as a file": (["run", "p.toml", "--output", "folder.csv"], "rows cannot be written"),
    "Parquet on the standard output": (["run", "p.toml", "--format", "parquet"], "Parquet is for files"),
    "late rows that are not there": (["run", "p.toml", "--late", "x.csv"], "no step of this pipeline diverts"),
    "late rows among the others": (["run", "p.py", "--late", "-"], "rows of different columns"),
}


@pytest.mark.parametrize("call", _CALLS)
def test_a_call_that_is_wrong_is_one_message(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is read."""
    Path("folder.py").mkdir()
    Path("folder.csv").mkdir()
    Path("binary.py").write_bytes(b"\xff\xfe")
    arguments, part = _CALLS[call]
    assert main(arguments) == 2
    _require_one_message(capsys, part)


@pytest.mark.skipif(os.geteuid() == 0, reason="who may everything is refused nothing")
def test_a_file_that_may_not_be_read_or_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is the pipeline or its output."""
    Path("p.toml").chmod(0)
    assert main(["run", "p.toml"]) == 2
    _require_one_message(capsys, "Permission denied")
    Path("closed").mkdir(0o500)
    assert main(["run", "p.py", "--output", "closed/x.csv"]) == 2
    _require_one_message(capsys, "Permission denied")


def _require_one_message(capsys: pytest.CaptureFixture[str], part: str) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("slackwater: ")
    assert err.count("slackwater: ") == 1
    assert part in err
    assert "Traceback" not in err
    return err


def test_rows_before_a_failure_stay_beside_what_was_there(capsys: pytest.CaptureFixture[str]) -> None:
    """What was asked for is whole, or as it was."""
    Path("out.csv").write_text("as it was")
    file = _python("""
        def rows():
            yield from [{"at": at} for at in range(2_000)]
            raise OSError("the line is dead")
        def pipeline():
            return sw.stream(rows(), time="at").assume_ordered()
        """)
    assert main(["run", file, "--output", "out.csv"]) == 2
    err = _require_one_message(capsys, "the line is dead")
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
            while not partial.exists() or partial.stat().st_size == 0:
                assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert out == ""
    assert err.splitlines()[0].startswith("slackwater: stopped: 4 rows in, 3 out, 1 held, 0 late; complete before 6")
    assert "run it again from the start" in err
    assert ("the rows until then are in out.jsonl.partial" in err) == (output != "-")
    assert "Traceback" not in err


def _standing(rows: int) -> Standing:
    query = sw.stream([{"at": 1}, {"at": 7}], time="at", name="tides").sort(patience=3).open([].append, on_late=print)
    query.step()
    return Standing(query.progress(), query.why(), float(rows))


def test_a_terminal_shows_a_bar_and_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the share of rows that are read, where it is known how many there are."""
    monkeypatch.setenv("TERM", "xterm")
    for rows, bar in ((4, "50%"), (None, "running")):
        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=100, color_system=None)
        with Display(rows, quiet=False, console=console) as display:
            assert display.wanted
            display.show(_standing(9))
            assert not display.wanted
        shown = text.getvalue()
        assert bar in shown
        assert "2 rows in (9/s), 1 out, 1 held, 0 late" in shown
        assert "source#1  read up to 7" in shown
        assert "punctuate#1  complete before 4, the newest row is at 7" in shown


def test_elsewhere_it_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Every few seconds; none at once, and none where nobody wants any."""
    with Display(None, quiet=False) as display:
        assert not display.wanted
        display.show(_standing(9))
    assert capsys.readouterr().err == ("slackwater: 2 rows in (9/s), 1 out, 1 held, 0 late; complete before 4\n")
    with Display(None, quiet=True) as display:
        assert not display.wanted


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
