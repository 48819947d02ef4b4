"""Rows of a kilobyte on a session as it comes: what is moved and stored at once fits into a JVM of 1 GiB."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_DRIVER = Path(__file__).with_name("drive_wide.py")
_ROWS, _FILES = 70_000, 4
_PATIENCE = 100_000
_PATIENT_SECONDS = 500


def _write(folder: Path) -> None:
    """Rows of a kilobyte that nobody can compress, a little out of order."""
    (folder / "in").mkdir()
    for number in range(_FILES):
        random = np.random.default_rng(number)
        at = np.arange(number * _ROWS, (number + 1) * _ROWS) - random.integers(0, 1_000, _ROWS)
        letters = b64encode(random.bytes(768 * _ROWS)).decode()
        texts = [letters[first : first + 1_024] for first in range(0, 1_024 * _ROWS, 1_024)]
        place = folder / f"in/{number}.parquet"
        pq.write_table(pa.table({"at": at, "text": texts}), place, compression="none")
        os.utime(place, (1_000 + number, 1_000 + number))


@pytest.mark.long
def test_wide_rows_pass_in_a_small_jvm(tmp_path: Path, surroundings: Callable[[Path], dict[str, str]]) -> None:
    """Seventy megabytes for each micro-batch, as many held; all that is complete comes out, in order."""
    _write(tmp_path)
    command = [sys.executable, str(_DRIVER), str(tmp_path)]
    env = {**os.environ, **surroundings(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    try:
        assert driver.wait(_PATIENT_SECONDS) == 0, (tmp_path / "log").read_text()[-5_000:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    found = [pq.read_table(tmp_path / f"main/batch_id={number}", partitioning=None) for number in range(_FILES)]
    times = pa.concat_tables(found).column("at").to_numpy()
    assert (np.diff(times) >= 0).all()
    newest = max(pq.read_table(file, columns=["at"])["at"].to_numpy().max() for file in (tmp_path / "in").iterdir())
    every = [pq.read_table(file, columns=["at"])["at"].to_numpy() for file in (tmp_path / "in").iterdir()]
    assert len(times) == sum(int((times_of < newest - _PATIENCE).sum()) for times_of in every)
