"""Where Spark is asked for and cannot be had, one message says what is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from slackwater.cli.main import main
from slackwater.cli.session import spark_in_one_message
from slackwater.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path

_PIPELINE = "def pipeline(spark):\n    return None\n"


@pytest.fixture(autouse=True)
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that takes a session, where there is none."""
    from slackwater.runners.spark import session

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(session, "active_session", lambda: None)
    (tmp_path / "p.py").write_text(_PIPELINE)


@pytest.mark.parametrize("command", ["run", "explain"])
def test_no_java_is_one_message(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the path, or where JAVA_HOME says."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([command, "p.py", "--runner", "spark"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("slackwater: Spark needs Java 17 or newer, and there is none\n")
    assert "apt install openjdk-17-jre-headless" in err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main([command, "p.py", "--runner", "spark"]) == 2
    assert f"JAVA_HOME    {tmp_path}" in capsys.readouterr().err


def test_no_pyspark_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With how to install it."""
    for name in [name for name in sys.modules if name.startswith("slackwater.runners.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("slackwater.runners.spark")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["run", "p.py", "--runner", "spark"]) == 2
    assert "pip install 'slackwater[spark]'" in capsys.readouterr().err
    assert main(["why", "checkpoint"]) == 2
    assert "pip install 'slackwater[spark]'" in capsys.readouterr().err


def test_what_spark_raises_is_one_message() -> None:
    """Its first line; what others raise is theirs."""
    from pyspark.errors import AnalysisException

    with (
        pytest.raises(RunError, match=r"Spark could not do this\n +Spark says  no such table\n"),
        spark_in_one_message(),
    ):
        raise AnalysisException("no such table\nand much more", messageParameters={})
    with pytest.raises(LookupError), spark_in_one_message():
        raise LookupError
