"""The command line: what is asked for on the standard output, mistakes in one message, and the exit code says which."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.cli import profile_command
from slackwater.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

_READINGS = pa.table(
    {"at": [1, 5, 3, 8], "came": [2, 6, 7, 9], "by": ["a", "a", "b", "b"], "half": [0.5, 1.5, 2.5, 3.5]}
)


@pytest.fixture
def readings(tmp_path: Path) -> str:
    """A file of four rows."""
    file = tmp_path / "readings.parquet"
    pq.write_table(_READINGS, file)
    return str(file)


def test_a_profile_is_printed_as_its_value_is(readings: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns by their options, or the other names of these."""
    assert main(["profile", readings, "--time", "at", "--arrival", "came", "--by", "by"]) == 0
    out, err = capsys.readouterr()
    assert out == str(sw.profile(readings, time="at", arrived="came", origin="by")) + "\n"
    assert err == ""


def test_numbers_are_printed_as_json(readings: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, and nothing else."""
    assert main(["profile", readings, "--time=at", "--json", "--no-copies", "--first=1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(sw.profile(readings, time="at", copies=False, first=1).to_dict()))
    assert (found["rows"], found["copies"]) == (4, None)


def test_a_table_of_a_file_is_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, where a file has several."""
    assert main(["profile", _duckdb("t", "u")(tmp_path), "--time=at", "--table=u"]) == 0
    assert capsys.readouterr().out.startswith("u: 3 rows, 0 to 2")


def test_whole_numbers_may_be_time_since_1970(readings: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the unit that is named."""
    assert main(["profile", readings, "--time", "at", "--epoch", "s"]) == 0
    assert "1970-01-01T00:00:01.000000Z to 1970-01-01T00:00:08.000000Z" in capsys.readouterr().out


def _written(table: pa.Table) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        pq.write_table(table, folder / "t.parquet")
        return str(folder / "t.parquet")

    return write


def _holding(name: str, content: bytes) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / name).write_bytes(content)
        return str(folder / name)

    return write


def _two_formats(folder: Path) -> str:
    _holding("a.csv", b"at\n1\n")(folder)
    _holding("b.jsonl", b'{"at": 1}\n')(folder)
    return str(folder)


def _duckdb(*tables: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        with closing(duckdb.connect(folder / "t.duckdb")) as connection:
            for table in tables:
                connection.execute(f'CREATE TABLE {table} AS SELECT range AS "at" FROM range(3)')
        return str(folder / "t.duckdb")

    return write


def _no_delta_table(folder: Path) -> str:
    (folder / "_delta_log").mkdir()
    return str(folder)


def _two_schemas(folder: Path) -> str:
    _holding("a.csv", b"at\n1\n")(folder)
    _holding("b.csv", b"at,k\n1,2\n")(folder)
    return str(folder)


_ROWS = _written(_READINGS)
_STAMPED = _written(pa.table({"at": pa.array([1, 2], pa.timestamp("us", "UTC"))}))
_MISTAKES: dict[str, tuple[Callable[[Path], str], list[str], str]] = {
    "no such file": (lambda folder: f"{folder}/none.parquet", ["--time=at"], "there is no such file"),
    "an empty folder": (str, ["--time=at"], "there is no such file, or nothing readable in this folder"),
    "another format": (_holding("t.xlsx", b"x"), ["--time=at"], "does not name a known format"),
    "two formats": (_two_formats, ["--time=at"], "does not name a known format"),
    "two schemas": (_two_schemas, ["--time=at"], "t"),
    "an empty file": (_holding("t.parquet", b""), ["--time=at"], "a source could not be read"),
    "a damaged file": (
        _holding("t.parquet", b"PAR1 and nothing else PAR1"),
        ["--time=at"],
        "a source could not be read",
    ),
    "empty CSV": (_holding("t.csv", b""), ["--time=at"], "a source could not be read"),
    "CSV with a short line": (_holding("t.csv", b"at,k\n1,2\n3\n"), ["--time=at"], "a source could not be read"),
    "broken JSON": (_holding("t.jsonl", b'{"at": 1}\n{"at": \n'), ["--time=at"], "a source could not be read"),
    "JSON of two types": (
        _holding("t.jsonl", b'{"at": 1}\n{"at": "x"}\n'),
        ["--time=at"],
        "a source could not be read",
    ),
    "no rows": (_written(_READINGS.slice(0, 0)), ["--time=at"], "there is no row with a time to profile"),
    "nulls only": (_written(pa.table({"at": pa.nulls(2, pa.int64())})), ["--time=at"], "there is no row with a time"),
    "no such column": (_ROWS, ["--time=when"], "profile names a column that is not there"),
    "no such arrivals": (_ROWS, ["--time=at", "--arrived=landed"], "profile names a column that is not there"),
    "no such origin": (_ROWS, ["--time=at", "--origin=who"], "profile names a column that is not there"),
    "texts as times": (_ROWS, ["--time=by"], "profile cannot use the type of a column"),
    "halves as times": (_ROWS, ["--time=half"], "profile cannot use the type of a column"),
    "texts as arrivals": (_ROWS, ["--time=at", "--arrived=by"], "profile cannot use the type of a column"),
    "no arrival": (
        _written(pa.table({"at": [1], "came": pa.nulls(1, pa.int64())})),
        ["--time=at", "--arrived=came"],
        "some rows do not say",
    ),
    "arrivals of two ages": (
        _written(pa.table({"at": [1, 2], "came": [-(2**62), 2**62]})),
        ["--time=at", "--arrived=came"],
        "too far apart",
    ),
    "an epoch for timestamps": (_STAMPED, ["--time=at", "--epoch=s"], "epoch= is for whole numbers"),
    "an epoch past the calendar": (
        _written(pa.table({"at": [2**62]})),
        ["--time=at", "--epoch=s"],
        "times of a column do not fit",
    ),
    "an unknown unit": (_ROWS, ["--time=at", "--epoch=h"], "epoch"),
    "no part": (_ROWS, ["--time=at", "--first=0"], "this is no part of a recording"),
    "too large a part": (_ROWS, ["--time=at", "--first=1.5"], "this is no part of a recording"),
    "a part in words": (_ROWS, ["--time=at", "--first=most"], "--first"),
    "no time": (_ROWS, [], "--time"),
    "a typing error": (_ROWS, ["--time=at", "--arived=came"], "--arived"),
    "an unknown table": (_duckdb("t"), ["--time=at", "--table=u"], "a DuckDB file has no such table"),
    "one of two tables": (_duckdb("t", "u"), ["--time=at"], "a DuckDB file has no such table, or several"),
    "a table of a file": (_ROWS, ["--time=at", "--table=t"], "table= is for files of DuckDB"),
    "no Delta table": (_no_delta_table, ["--time=at"], "a source could not be read"),
    "two paths": (_ROWS, ["another", "--time=at"], "another"),
}


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong comes first; no traceback, nothing on the standard output."""
    make, options, headline = _MISTAKES[mistake]
    assert main(["profile", make(tmp_path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert headline in err.splitlines()[0]
    assert err.startswith("slackwater: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [(["profil"], "profil"), (["warm-up", "--jobs=0"], "jobs is a whole number"), (["warm-up", "--jobs=x"], "--jobs")],
)
def test_other_mistakes_are_as_clear(arguments: list[str], headline: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that is not there, numbers that are none."""
    assert main(arguments) == 2
    assert headline in capsys.readouterr().err


def test_an_interruption_ends_with_130(readings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shell has it, and in silence."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile_command, "profile", interrupted)
    assert main(["profile", readings, "--time=at"]) == 128 + signal.SIGINT


def test_the_command_is_installed_and_stops_when_nobody_reads_on(readings: str) -> None:
    """`slackwater profile ... | head -1` is no error."""
    command = Path(sys.executable).with_name("slackwater")
    piped = f"'{command}' profile '{readings}' --time at --origin by | head -c 1 >&2; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, env=os.environ.copy())  # noqa: S603, S607, PLW1510
    assert (found.returncode, found.stderr) == (0, "r")


def test_a_bar_knows_how_many_rows_there_are(tmp_path: Path) -> None:
    """Of Parquet files; of others nobody knows before they are read."""
    for number in range(2):
        pq.write_table(_READINGS, tmp_path / f"{number}.parquet")
    assert profile_command._rows_of(tmp_path) == 8
    (tmp_path / "t.csv").write_text("at\n1\n")
    assert profile_command._rows_of(tmp_path / "t.csv") is None
