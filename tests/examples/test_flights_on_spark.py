"""The demonstration on Spark, as far as it needs no Spark: no flight gets lost, and a wrong sum is an error."""

from __future__ import annotations

import importlib.util
import shutil
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_SCHEMA = pa.schema({
    "departed": pa.timestamp("us", "UTC"), "landed": pa.timestamp("us", "UTC"),
    "carrier": pa.string(), "origin": pa.string(), "dest": pa.string(),
})  # fmt: skip


def _loaded() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "flights_on_spark.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = _loaded()


def _made_up_flights(seed: int, days: int = 20) -> pd.DataFrame:
    """Flights at all hours, in the air for up to twelve of them, in order of landing."""
    random = np.random.default_rng(seed)
    rows = 100 * days
    departed = pd.Timestamp("2013-01-01", tz="UTC") + pd.to_timedelta(
        random.integers(0, days * 24 * 60, rows), unit="min"
    )
    flights = pd.DataFrame({
        "departed": departed,
        "landed": departed + pd.to_timedelta(random.integers(20, 720, rows), unit="min"),
        "carrier": random.choice(["AA", "B6", "HA"], rows),
        "origin": random.choice(list(example.AIRPORTS), rows),
        "dest": random.choice(["BOS", "HNL"], rows),
    })  # fmt: skip
    times = dict.fromkeys(("departed", "landed"), "datetime64[us, UTC]")
    return flights.astype(times).sort_values("landed", kind="stable", ignore_index=True)


def _run_in_process(folder: Path) -> None:
    """Do what the query on Spark does with the files of a folder; its end is not known, as that of a stream."""
    sources = [sw.PushSource(_SCHEMA, name=name) for name in example.AIRPORTS]
    airports = [sw.stream(source, time="departed") for source in sources]
    counts = example.hourly_counts(airports)
    late: list[pa.RecordBatch] = []
    emitted: list[list[pa.RecordBatch]] = [[] for _ in counts]
    taken = [(stream, batches.append) for stream, batches in zip(counts, emitted, strict=True)]
    with sw.Query(taken, clock=sw.ManualClock(), on_late=late.append) as query:
        for number in range(example.FILES):
            for source, name in zip(sources, example.AIRPORTS, strict=True):
                source.push(pq.read_table(folder / name / f"{number:02}.parquet").cast(_SCHEMA).combine_chunks())
            query.work()
        for batches, patience in zip(emitted, example.PATIENCES, strict=True):
            _write(folder / f"counts {patience}", batches)
        _write(folder / "late", late)


def _write(folder: Path, batches: list[pa.RecordBatch]) -> None:
    folder.mkdir()
    half = len(batches) // 2
    for number, part in enumerate((batches[:half], batches[half:])):
        pq.write_table(pa.Table.from_batches(part), folder / f"{number}.parquet")


def test_flights_come_in_order_of_landing_and_none_is_lost() -> None:
    """Those that did not leave or land are counted."""
    flights, left_out = example.landed_flights()
    assert len(flights) + left_out == 336_776
    assert flights["landed"].is_monotonic_increasing
    assert not flights["departed"].is_monotonic_increasing
    assert (flights["landed"] > flights["departed"]).all()
    assert set(flights["origin"]) == set(example.AIRPORTS)
    assert not flights.isna().any(axis=None)


def test_files_hold_each_flight_once_in_order_of_landing(tmp_path: Path) -> None:
    """File by file, those of one number are of the same time for all airports."""
    flights = _made_up_flights(1)
    example.write_files(flights, tmp_path)
    in_files = [
        pd.concat([pd.read_parquet(tmp_path / name / f"{number:02}.parquet") for name in example.AIRPORTS])
        for number in range(example.FILES)
    ]
    for earlier, later in pairwise(in_files):
        assert earlier["landed"].max() <= later["landed"].min()
    columns = flights.columns.tolist()
    found = pd.concat(in_files).sort_values(columns, ignore_index=True)
    assert found.equals(flights.sort_values(columns, ignore_index=True))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    """Flights, and the folder in which the same plan has counted them in process."""
    flights, folder = _made_up_flights(2), tmp_path_factory.mktemp("flights")
    example.write_files(flights, folder)
    _run_in_process(folder)
    return flights, folder


def test_every_flight_is_counted_or_late_or_in_an_open_hour(
    finished: tuple[pd.DataFrame, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The example finds that out by itself."""
    flights, folder = finished
    example.compare(flights, folder)
    assert f"= {len(flights):,} of {len(flights):,} flights" in capsys.readouterr().out


def _forget(file: Path) -> None:
    file.unlink()


def _say_twice(file: Path) -> None:
    shutil.copy(file, file.with_name("again.parquet"))


def _one_more(file: Path) -> None:
    _change(file, [1])


def _mixed_up(file: Path) -> None:
    _change(file, [1, -1])


def _change(file: Path, by: list[int]) -> None:
    rows = pq.read_table(file)
    counts = rows["flights"].to_numpy().copy()
    counts[: len(by)] += by
    pq.write_table(rows.set_column(rows.column_names.index("flights"), "flights", pa.array(counts)), file)


@pytest.mark.parametrize(
    ("spoil", "file"),
    [
        (_forget, "counts 6h/0.parquet"),
        (_forget, "late/0.parquet"),
        (_say_twice, "counts 6h/1.parquet"),
        (_say_twice, "late/1.parquet"),
        (_one_more, "counts 6h/0.parquet"),
        (_mixed_up, "counts 6h/0.parquet"),
    ],
)
def test_a_wrong_sum_is_an_error(
    finished: tuple[pd.DataFrame, Path], tmp_path: Path, spoil: Callable[[Path], Any], file: str
) -> None:
    """What agreed does not agree any more once something was forgotten, emitted twice or changed."""
    flights, folder = finished
    spoilt = shutil.copytree(folder, tmp_path / "spoilt")
    spoil(spoilt / file)
    with pytest.raises(SystemExit) as ending:
        example.compare(flights, spoilt)
    assert isinstance(ending.value.code, str)  # words instead of a number: Python says them and ends with 1
