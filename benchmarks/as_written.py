"""Runs pipelines without one of the rewrites of their plans, to compare with what a rewrite saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from slackwater.plan.rewrites import optimizer as rewrites

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def as_written(rewrite: str, work: Callable[[], T]) -> T:
    """Do the work while this rewrite leaves all plans as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrites, rewrite, lambda *roots: list(roots))
        return work()
