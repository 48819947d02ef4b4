"""How much memory the rows that wait in a shard may take, and where they go beyond that.

A Python worker has one shard in its hands at a time, and keeps what it had of others as long as there is room
(`segment_cache`). What it needs besides is the micro-batch, and a few blocks of what goes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message
from slackwater.runners.spark.wire.chunks import CHUNK_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.columns.spillway import Spillway

MOST_BY_DEFAULT: Final = 512 << 20
"""What waits in a shard may take so much, unless somebody says something else, or Spark limits its workers."""

_SHARE: Final = 16
"""The part of a worker's memory, one in so many, that is taken by default if Spark limits it.

It limits addresses, of which Python, its libraries and what Arrow reserves take most of 2 GiB before there is a row.
"""

_OF_WORKERS: Final = "spark.executor.pyspark.memory"
_CORES: Final = "spark.executor.cores"

_BLOCKS: Final = 64
"""What is spilled at once goes into so many blocks: so often may something have been spilled, and a block of each
be open, before these take as much memory as may be taken."""

_LEAST_BLOCK: Final = 1 << 14
"""Smaller blocks cost more than is in them."""

_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt]?)(?:i?b)?)", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class Spilling:
    """Where rows go, and from how many bytes on."""

    spillway: Spillway
    memory: int


def as_memory(memory: int | str | None, session: SparkSession | None = None) -> int:
    """Bytes, as a user says them, or as many as a session's workers can spare. Units are powers of 1,024, as Spark's.

    >>> as_memory("64MB"), as_memory("2 GiB"), as_memory(1_000), as_memory(None) >> 20
    (67108864, 2147483648, 1000, 512)
    """
    if memory is None:
        return min(MOST_BY_DEFAULT, _spared_by(session))
    size = memory if isinstance(memory, int) and not isinstance(memory, bool) else _parsed(memory)
    if size is None or size < 1:
        hint = 'give bytes, or a size such as "512MB"; leave memory= out for what workers can spare'
        raise PlanError(
            message("memory= says how much rows may take that wait in a shard", {"got": repr(memory)}, hint)
        )
    return size


def shown_memory(size: int) -> str:
    """Bytes in the largest unit in which they are whole.

    >>> shown_memory(512 << 20), shown_memory(1_000)
    ('512 MiB', '1000 bytes')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> power << power == size > 0:
            return f"{size >> power} {unit}"
    return f"{size} bytes"


def block_bytes(memory: int) -> int:
    """How large blocks should be, for so much memory: no larger than a chunk.

    >>> block_bytes(512 << 20) >> 20, block_bytes(64 << 20) >> 20, block_bytes(1)
    (4, 1, 16384)
    """
    return max(min(memory // _BLOCKS, CHUNK_BYTES), _LEAST_BLOCK)


def _parsed(memory: object) -> int | None:
    found = _SIZE.fullmatch(memory.strip()) if isinstance(memory, str) else None
    return None if found is None else int(found[1]) << _POWERS[found[2].lower()]


def _spared_by(session: SparkSession | None) -> int:
    """A part of what Spark gives to each worker, where it limits that."""
    limit = None if session is None else session.conf.get(_OF_WORKERS, None)
    if session is None or limit is None:
        return MOST_BY_DEFAULT
    of_all = _parsed(limit if limit[-1:].isalpha() else f"{limit}m")  # Spark counts in these, where there is no unit
    return MOST_BY_DEFAULT if of_all is None else of_all // int(session.conf.get(_CORES, None) or 1) // _SHARE
