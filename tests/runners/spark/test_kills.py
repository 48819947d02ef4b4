"""Queries whose drivers, executors and workers are killed at any moment: nothing is lost, nothing is doubled.

200 kills over the ten plans of `killed_plans.py`, which have every source and every sink. In the end each output has
what the plan gives in process, where timers decide in a shard that is fed by hand, and the counters add up.

    KILLS=4 SEED=7 pytest -m long -k "kills and join"

is a part of it: so many kills of each plan (20), drawn by another seed (19). A plan takes 5 to 10 minutes on a machine
of two cores with much else to do, nearly all of it for Spark to start anew.
"""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING

import drive_kills
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from killed_lives import Lives, lives_of
from killed_outputs import assert_counters_add_up, assert_nothing_lost_or_doubled, expected
from killed_plans import PLANS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from killed_plans import Plan
    from nats_server import NatsServer

_SEED = os.environ.get("SEED", "19")
_KILLS = int(os.environ.get("KILLS", "20"))
_FILES_PER_KILL = 2


def _bring(folder: Path, plan: Plan, tables: Sequence[Sequence[pa.Table]], nats: NatsServer) -> None:
    """Everything that is to be read: Spark goes by the times of files."""
    for source, (kind, of_source) in enumerate(zip(plan.sources, tables, strict=True)):
        place = folder / f"in{source}"
        place.mkdir(parents=True)
        if kind == "jetstream":
            nats.add_stream(drive_kills.stream_of(folder, source), f"in.{folder.name}.{source}")
        for number, table in enumerate(of_source):
            if kind == "delta":
                write_deltalake(place, table, mode="append")
            elif kind == "jetstream":
                nats.publish(f"in.{folder.name}.{source}", *(json.dumps(row).encode() for row in table.to_pylist()))
            else:
                file = place / f"{number:04}.parquet"
                pq.write_table(table, file)
                os.utime(file, (1_000 + number, 1_000 + number))


@pytest.mark.long
@pytest.mark.parametrize("name", list(PLANS))
def test_what_was_killed_at_any_moment_loses_and_doubles_nothing(
    name: str, tmp_path: Path, nats: NatsServer, postgres: str, surroundings_of_killed: Callable[[Path], dict[str, str]]
) -> None:
    """One that has come to its end before all kills are spent starts anew in another folder."""
    plan, left, compared, within, attempt = PLANS[name], _KILLS, 0, 0, 0
    print(f"plan {name}, {_KILLS} kills, seed {_SEED}")  # noqa: T201 - shown where it fails
    while left:
        folder, random = tmp_path / f"{name}{attempt}", Random(f"{_SEED} {name} {attempt}")
        tables = plan.tables(f"{_SEED} {name}", max(6, _FILES_PER_KILL * left))
        _bring(folder, plan, tables, nats)
        with Lives(folder, name, (nats.url, postgres), surroundings_of_killed(folder)) as lives:
            for life in lives_of(random, left):
                if lives.live(life, random):
                    break
        left, within, attempt = left - len(lives.killed), within + lives.within, attempt + 1
        failures = lives.failures()
        for text in failures:
            print("failed:", text)  # noqa: T201 - shown where it fails
        assert len([text for text in failures if "did not start in time" not in text]) <= len(lives.killed)
        compared += assert_nothing_lost_or_doubled(plan, folder, tables, postgres)
        assert_counters_add_up(plan, folder, tables, expected(plan, folder, tables), lives.counters())
    assert compared > 100
    assert within, "no kill came within a micro-batch"
