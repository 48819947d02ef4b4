"""Mistakes in a pipeline, in its file or in a call are one message and exit code 2, before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pipeline_files import given, python_file, require_one_message, toml_file

from slackwater.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of rows and two pipelines, in which commands are given."""
    return given(tmp_path, monkeypatch)


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
    assert main(["run", toml_file(text)]) == 2
    require_one_message(capsys, part)
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
    assert main(["run", python_file(text)]) == 2
    err = require_one_message(capsys, part)
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
    require_one_message(capsys, part)


@pytest.mark.skipif(os.geteuid() == 0, reason="who may everything is refused nothing")
def test_a_file_that_may_not_be_read_or_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is the pipeline or its output."""
    Path("p.toml").chmod(0)
    assert main(["run", "p.toml"]) == 2
    require_one_message(capsys, "Permission denied")
    Path("closed").mkdir(0o500)
    assert main(["run", "p.py", "--output", "closed/x.csv"]) == 2
    require_one_message(capsys, "Permission denied")
