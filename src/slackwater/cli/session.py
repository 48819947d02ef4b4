"""The session of Spark that a command needs: made when somebody asks, and stopped if it was made here."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.cli.stopping import keeping_ctrl_c
from slackwater.errors import RunError, message
from slackwater.streams.on_spark import loaded_from_spark

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Session:
    """One session, or none yet."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._made: Any = None

    def get(self) -> Any:
        """The session that there is, or a new one."""
        loaded_from_spark("SparkQuery")  # refused in one message where there is no PySpark
        from slackwater.runners.spark.session import active_session, new_session

        found = active_session()
        if found is None:
            with keeping_ctrl_c():  # PySpark takes it, and cancels all jobs
                found = self._made = new_session(f"slackwater {self._file.name}", self._file.absolute().parent)
        return found

    def stop(self) -> None:
        """Stop it, if it was made here."""
        if self._made is not None:
            self._made.stop()


@contextmanager
def the_session(file: str) -> Iterator[_Session]:
    """A session for a pipeline of this file, for as long as it is needed."""
    session = _Session(file)
    try:
        with spark_in_one_message():
            yield session
    finally:
        session.stop()


@contextmanager
def spark_in_one_message() -> Iterator[None]:
    """Make one message of what Spark raises by itself, such as that it knows no such file system."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        java = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.toString())
        first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
        hint = "see whether names and places are written as Spark has them, and whether you may use them"
        raise RunError(message("Spark could not do this", {"Spark says": first}, hint)) from error
