"""Keys for shards that Spark sends to different partitions: consecutive numbers would leave some of them empty.

Spark sends a key to the partition that its hash says: Murmur3, 32 bits, seed 42, of the key's two halves. Keys are
tried until every partition has one.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Final

_SEED: Final = 42
_FIRST: Final = 0xCC9E2D51
_SECOND: Final = 0x1B873593
_WORD: Final = 0xFFFFFFFF
_BYTES_OF_A_LONG: Final = 8


@cache
def shard_keys(shards: int) -> tuple[int, ...]:
    """One key for each of as many shards, each of which falls into a partition of its own.

    >>> shard_keys(1), len(set(shard_keys(5)))
    ((0,), 5)
    """
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(partition_of(key, shards), key)
        if len(found) == shards:
            return tuple(found[partition] for partition in range(shards))
    raise AssertionError("there are keys for all partitions")


def partition_of(key: int, partitions: int) -> int:
    """The partition that Spark sends a key to."""
    hashed = _SEED
    for half in (key & _WORD, (key >> 32) & _WORD):
        hashed ^= _rotated(half * _FIRST & _WORD, 15) * _SECOND & _WORD
        hashed = (_rotated(hashed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= _BYTES_OF_A_LONG
    hashed = (hashed ^ (hashed >> 16)) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ (hashed >> 13)) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return signed % partitions


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD
