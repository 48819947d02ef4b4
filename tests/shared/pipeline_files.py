"""Pipelines in files, and the rows that they read, for tests of commands."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import pytest

ROWS = [(at, "ab"[at % 2], at / 2) for at in (1, 4, 2, 13, 11, 3, 25, 40)]

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


def given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder, with a file of rows and two pipelines."""
    monkeypatch.chdir(folder)
    columns = dict(zip(("at", "who", "v"), map(list, zip(*ROWS, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "came": [at + 1 for at in columns["at"]]}), "rows.parquet")
    Path("p.toml").write_text(_TOML)
    Path("p.py").write_text(_PYTHON)
    return folder


def python_file(body: str) -> str:
    """A file with a pipeline of these lines; its name."""
    text = f"import slackwater as sw\nROWS = 'rows.parquet'\n{textwrap.dedent(body)}"
    Path("q.py").write_text(text)
    return "q.py"


def toml_file(text: str) -> str:
    """A file of these lines; its name."""
    Path("q.toml").write_text(text)
    return "q.toml"


def require_one_message(capsys: pytest.CaptureFixture[str], part: str) -> str:
    """Nothing was printed but one message, which has this part."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("slackwater: ")
    assert err.count("slackwater: ") == 1
    assert part in err
    assert "Traceback" not in err
    return err
