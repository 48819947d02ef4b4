"""Punctuations: what exactly they rule out, and that they are plain values."""

from __future__ import annotations

import dataclasses

import pytest

from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.punctuation import END, Ground, Punctuation


def test_an_event_exactly_at_the_bound_may_still_come() -> None:
    """complete_before = t closes everything before t, and not t."""
    assert Punctuation(10).rules_out(9)
    assert not Punctuation(10).rules_out(10)
    assert not Punctuation(10).rules_out(11)


def test_the_first_guarantee_rules_out_nothing_and_the_last_everything() -> None:
    """BEGINNING guarantees nothing; the END of a stream closes all times that events can have."""
    assert not Punctuation(BEGINNING).rules_out(BEGINNING)
    assert END.rules_out(FOREVER - 1)
    assert END.ground is Ground.END


def test_a_punctuation_is_a_frozen_value() -> None:
    """Equal by content, never changed."""
    assert Punctuation(3) == Punctuation(3, Ground.SOURCE)
    assert Punctuation(3) != Punctuation(3, Ground.DEMAND)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Punctuation(3).complete_before = 4  # type: ignore[misc]


def test_grounds_are_the_words_of_the_glossary() -> None:
    """Heartbeats and on-demand time-stamps are grounds, not rival kinds of marker."""
    assert [str(ground) for ground in Ground] == ["source", "heartbeat", "demand", "merge", "end"]
