"""What becomes of late rows: four choices, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import PlanError
from slackwater.policies.late import Late, LateAction


def test_each_choice_has_a_word_for_explain() -> None:
    """It follows "late rows"."""
    choices = [Late.divert(), Late.drop(), Late.adjust(), Late.raise_error()]
    assert [str(choice) for choice in choices] == ["diverted", "dropped", "adjusted", "refused"]
    assert {choice.action for choice in choices} == set(LateAction)


@pytest.mark.parametrize("action", ["drop", None, 3])
def test_another_choice_is_refused_with_those_there_are(action: Any) -> None:
    """One clear message."""
    with pytest.raises(PlanError, match=r"late= takes a Late policy[\s\S]*Late\.divert\(\), Late\.drop\(\)"):
        Late(action)


def test_choices_are_equal_by_value() -> None:
    """Frozen values, usable as keys."""
    assert len({Late.drop(), Late.drop(), Late.adjust()}) == 2
