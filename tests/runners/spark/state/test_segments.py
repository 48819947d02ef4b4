"""Segments come back as they were written, or are refused: cut short, damaged, or of another version."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.errors import RunError
from slackwater.events.gather import no_columns
from slackwater.runners.spark.state.segments import VERSION, seal, unseal

_ROWS = pa.record_batch({"n": list(range(100)), "word": [None, "tide"] * 50})


@pytest.mark.parametrize("rows", [_ROWS, _ROWS.slice(3, 7), _ROWS.slice(0, 0), no_columns(5)], ids=str)
def test_rows_come_back_as_they_were(rows: pa.RecordBatch) -> None:
    """Slices, no rows, and rows of no columns too."""
    again = unseal(seal(rows), "example")
    assert again.equals(rows)
    assert again.num_rows == rows.num_rows


def test_only_what_a_slice_shows_is_stored() -> None:
    """The rest of its memory stays behind."""
    assert len(seal(_ROWS.slice(0, 1))) < len(seal(_ROWS)) / 2


def test_columns_are_used_where_they_lie() -> None:
    """Kernels take aligned columns only, and nothing is copied to make them so."""
    segment = seal(_ROWS)
    column = unseal(segment, "example").column(0).to_numpy()
    assert column.flags.aligned
    assert not column.flags.owndata


@pytest.mark.parametrize("left", [0, 1, 15, 16, 17, 400, -1])
def test_a_segment_that_was_cut_short_is_refused(left: int) -> None:
    """Wherever it was cut; the message names it."""
    with pytest.raises(RunError, match=r"(?s)stored state is truncated or damaged.*segment +7.*hint"):
        unseal(seal(_ROWS)[:left], 7)


def test_a_segment_with_one_other_bit_is_refused() -> None:
    """In the header or in the rows."""
    sound = seal(_ROWS)
    for place in range(1, len(sound), 5):
        if place in {1, 2, 3}:
            continue  # these bytes only align the rest
        damaged = bytearray(sound)
        damaged[place] ^= 4
        with pytest.raises(RunError, match="truncated or damaged"):
            unseal(bytes(damaged), "example")


def test_a_segment_of_another_version_is_refused() -> None:
    """With both versions."""
    other = bytes([VERSION + 1]) + seal(_ROWS)[1:]
    with pytest.raises(RunError, match=rf"(?s)cannot read.*version +{VERSION + 1}.*library reads +{VERSION}"):
        unseal(other, "head")
