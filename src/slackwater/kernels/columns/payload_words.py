"""Payloads as words of eight bytes: hashed, compared and copied inside of other loops.

Numba does not see that a kernel calls these when it looks for its machine code on disk: after a change in this file
save the kernels that call it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

LONG: Final = 8
"""Words: payloads that are longer are hashed four words at a time, and compared as many as the processor can."""

_SPREAD: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: neighbours end up far from each other
_SPREAD_AGAIN: Final = 0xD6E8FEB86659FD93

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel("uint64(uint64)", inlined=True)
def _rotated(bits: Any) -> Any:
    """Bring the upper bits down, for a product carries only upward."""
    return (bits << uint64(29)) | (bits >> uint64(35))


@kernel(f"int64(int64, {_READ}, int64, int64)", inlined=True)
def hash_event(start: int, words: Column, begin: int, length: int) -> Any:
    """Mix a start and a payload; never negative."""
    mixed = uint64(start) * uint64(_SPREAD)
    i, stop = begin, begin + length
    if length > LONG:
        # Four chains that do not wait for each other: a long payload is read as fast as it comes from memory.
        a, b, c, d = mixed, ~mixed, mixed ^ uint64(_SPREAD), mixed ^ uint64(_SPREAD_AGAIN)
        while i + 4 <= stop:
            a = _rotated((a ^ uint64(words[i])) * uint64(_SPREAD))
            b = _rotated((b ^ uint64(words[i + 1])) * uint64(_SPREAD))
            c = _rotated((c ^ uint64(words[i + 2])) * uint64(_SPREAD))
            d = _rotated((d ^ uint64(words[i + 3])) * uint64(_SPREAD))
            i += 4
        mixed = ((_rotated(a ^ b) * uint64(_SPREAD_AGAIN)) ^ c) * uint64(_SPREAD) ^ d
    while i < stop:
        mixed = mixed_with(mixed, uint64(words[i]))
        i += 1
    return hash_of(mixed)


@kernel("uint64(uint64, uint64)", inlined=True)
def mixed_with(mixed: Any, word: Any) -> Any:
    """Mix the next word of a payload that is not long into what is mixed of the start, here 0, and those before."""
    mixed = (mixed ^ word) * uint64(_SPREAD_AGAIN)
    return mixed ^ (mixed >> uint64(32))


@kernel("int64(uint64)", inlined=True)
def hash_of(mixed: Any) -> Any:
    """The hash that hash_event makes of what all words were mixed into; never negative."""
    return int64((mixed * uint64(_SPREAD)) >> uint64(1))


@kernel(f"void({_READ}, int64, int64[::1], int64, int64)", inlined=True)
def copy_words(words: Column, begin: int, held: Column, at: int, length: int) -> None:
    """Copy a payload."""
    source, target = words[begin : begin + length], held[at : at + length]
    for i in range(length):
        target[i] = source[i]


@kernel(f"boolean({_READ}, int64, {_READ}, int64, int64)", inlined=True)
def same_words(held: Column, at: int, words: Column, begin: int, length: int) -> bool:
    """Whether a payload that is held has the same words, and as many."""
    if length > LONG:
        # Without a way out, and through slices, many words are compared at once. Hashes agree, so all will, as a rule.
        ours, theirs, different = held[at : at + length], words[begin : begin + length], int64(0)
        for i in range(length):
            different |= ours[i] ^ theirs[i]
        return different == 0
    for i in range(length):  # noqa: SIM110 - the compiler knows loops, not generators
        if held[at + i] != words[begin + i]:
            return False
    return True
