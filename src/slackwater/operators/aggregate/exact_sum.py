"""Adds floats exactly, so that a sum does not depend on how its parts were cut and merged.

A float64 is a whole number of 53 bits times a power of two. It is written here in base 2**32: a few digits, each at a
fixed place. Digits of one place are plain integers, so adding them is exact and in any order the same. Only the final
sum is rounded to a float, once, to nearest even: the result is that of math.fsum.

Limits: 2**31 rows per group. Infinities and NaN have places of their own: inf - inf is NaN, as IEEE 754 has it.
Cost: up to three digits per row; a group holds one digit per place in use, three for numbers of like size, at most 67.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_BITS = 32
_DIGIT = 2**_BITS - 1
_MANTISSA = 53

_PLUS_INFINITY = 1_000
_MINUS_INFINITY = 1_001
# Both infinities together stand for NaN. Places of finite digits are between -36 and 32.

_PADDING = 3
"""Zero digits below the least place, so that the digits after the leading one are always there."""


def digits_of(values: Floats) -> tuple[Integers, Integers, Integers]:
    """Write floats as digits: for every digit the number of its value, its place, and the digit with its sign.

    >>> value, place, digit = digits_of(np.array([3.0, 2.0**32]))
    >>> value.tolist(), place.tolist(), digit.tolist()
    ([0, 1], [0, 1], [3, 1])
    """
    finite = np.isfinite(values)
    fraction, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = np.ldexp(np.abs(fraction), _MANTISSA).astype(np.uint64)
    place, shift = np.divmod(exponent.astype(np.int64) - _MANTISSA, _BITS)
    shifts = shift.astype(np.uint64)
    low = whole << shifts  # the bits that fall out on the left are those of the third digit
    digits = np.stack([low & np.uint64(_DIGIT), low >> np.uint64(_BITS), (whole >> np.uint64(32)) >> (32 - shifts)])
    signed = digits.astype(np.int64) * np.where(fraction < 0, -1, 1)
    places = place + np.arange(3)[:, np.newaxis]
    number = np.broadcast_to(np.arange(len(values)), signed.shape)
    used = signed != 0
    used[0] |= values == 0.0  # a sum of zeros is zero, not nothing
    return _with_specials(values, number[used], places[used], signed[used])


def _with_specials(
    values: Floats, number: Integers, place: Integers, digit: Integers
) -> tuple[Integers, Integers, Integers]:
    plus = np.flatnonzero((values == np.inf) | np.isnan(values))
    minus = np.flatnonzero((values == -np.inf) | np.isnan(values))
    if not len(plus) and not len(minus):
        return number, place, digit
    return (
        np.concatenate([number, plus, minus]),
        np.concatenate([place, np.full(len(plus), _PLUS_INFINITY), np.full(len(minus), _MINUS_INFINITY)]),
        np.concatenate([digit, np.ones(len(plus) + len(minus), dtype=np.int64)]),
    )


def sums_of(group: Integers, place: Integers, digit: Integers, groups: int) -> Floats:
    """Round the sum of each group's digits to the nearest float. Digits of one group and place are added already.

    >>> sums_of(*digits_of(np.array([1.5, -2.0])), groups=2).tolist()
    [1.5, -2.0]
    """
    finite = place < _PLUS_INFINITY
    sums = _finite_sums(group[finite], place[finite], digit[finite], groups)
    plus, minus = np.zeros(groups, dtype=bool), np.zeros(groups, dtype=bool)
    plus[group[place == _PLUS_INFINITY]] = True
    minus[group[place == _MINUS_INFINITY]] = True
    sums[plus] = np.inf
    sums[minus] = -np.inf
    sums[plus & minus] = np.nan
    return sums


def _finite_sums(group: Integers, place: Integers, digit: Integers, groups: int) -> Floats:
    if not len(group):
        return np.zeros(groups)
    least = int(place.min()) - _PADDING
    # Two places above the greatest: one for the carry, one for its sign.
    digits = np.zeros((groups, int(place.max()) - least + 3), dtype=np.int64)
    digits[group, place - least] = digit
    _carry(digits)
    negative = digits[:, -1] < 0
    digits[negative] *= -1
    _carry(digits)
    return np.where(negative, -1.0, 1.0) * _rounded(digits, least)


def _carry(digits: Integers) -> None:
    """Bring all digits but the greatest into 0 to 2**32 - 1, in place."""
    for place in range(digits.shape[1] - 1):
        digits[:, place + 1] += digits[:, place] >> _BITS
        digits[:, place] &= _DIGIT


def _rounded(digits: Integers, least: int) -> Floats:
    """Round non-negative numbers in base 2**32 to the nearest float, ties to even."""
    rows = np.arange(len(digits))
    used = digits != 0
    lead = np.maximum(digits.shape[1] - 1 - np.argmax(used[:, ::-1], axis=1), _PADDING)
    first, second, third = (digits[rows, lead - i].astype(np.uint64) for i in range(3))
    below = np.cumsum(used, axis=1)[rows, lead - _PADDING] > 0
    # 64 bits from the leading one on; whatever is below them only matters as "more than that", in the last bit.
    shift = (_BITS - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
    kept = (((first << np.uint64(_BITS)) | second) << shift) | (third >> (np.uint64(_BITS) - shift))
    rest = third & ((np.uint64(1) << (np.uint64(_BITS) - shift)) - np.uint64(1))
    kept |= (below | (rest != 0)).astype(np.uint64)
    exponent = _BITS * (lead + least - 1) - shift.astype(np.int64)
    with np.errstate(over="ignore"):  # a sum beyond float64 is infinite
        return np.ldexp(kept.astype(np.float64), exponent)
