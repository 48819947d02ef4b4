"""Control records: what may be asked, how it is written down, and what is remembered of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slackwater.errors import BadDuration, PlanError
from slackwater.runners.control_records import Controllable, ControlRecord, PatienceOf, cause_of
from slackwater.runners.steering import SteeringState

_PLAN = Controllable(
    sources={"orders": "", "log": "it is a log"},
    steps={
        "punctuate#1": PatienceOf(calendar=True),
        "punctuate#2": PatienceOf(calendar=False),
        "punctuate#3": PatienceOf(calendar=True, fixed="bounds decide"),
        "punctuate#4": PatienceOf(calendar=True, ticks=1_000_000),
    },
)


def test_a_record_is_read_as_it_was_written() -> None:
    """Whatever it asks."""
    for record in (
        _PLAN.about_source("pause", "orders"),
        _PLAN.about_patience("1m30s", "punctuate#1"),
        _PLAN.about_patience(7, "punctuate#2"),
        _PLAN.about_flush(),
    ):
        numbered = record.numbered(4)
        assert ControlRecord.of_text(numbered.as_text()) == numbered
        assert numbered.number == 4


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "JSONDecodeError"),
        ("[]", "TypeError"),
        ("7", "AttributeError"),
        ('{"format": 1, "number": 1}', "KeyError: 'action'"),
        ('{"format": 2, "number": 1, "action": "flush"}', "format 2, and this library reads 1"),
        ('{"format": 1, "number": 0, "action": "flush"}', "its number is 0"),
        ('{"format": 1, "number": true, "action": "flush"}', "its number is True"),
        ('{"format": 1, "number": 1, "action": "stop"}', "nobody can be asked to 'stop'"),
        ('{"format": 1, "number": 1, "action": "flush", "source": "a"}', "flush says nothing"),
        ('{"format": 1, "number": 1, "action": "patience", "step": "a"}', "patience says step, patience"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(text: str, cause: str) -> None:
    """Anybody may write into the folder."""
    with pytest.raises(PlanError, match="this is no control record") as refusal:
        ControlRecord.of_text(text)
    assert cause in str(refusal.value)


def test_a_patience_is_written_in_the_units_of_its_step() -> None:
    """And refused in others, as where the plan is written."""
    assert _PLAN.about_patience(timedelta(seconds=90), "punctuate#1")["patience"] == "1m30s"
    assert _PLAN.about_patience(0, "punctuate#2")["patience"] == 0
    assert _PLAN.about_patience("2s", "punctuate#4")["patience"] == "2s"
    with pytest.raises(BadDuration, match="does not fit a stream of calendar time"):
        _PLAN.about_patience(7, "punctuate#1")
    with pytest.raises(BadDuration, match="does not fit a stream of sequence numbers"):
        _PLAN.about_patience("7s", "punctuate#2")
    with pytest.raises(BadDuration, match="negative"):
        _PLAN.about_patience(-1, "punctuate#2")
    with pytest.raises(PlanError, match="finer than the time column"):
        _PLAN.about_patience("1500ms", "punctuate#4")


def test_what_the_plan_rules_out_is_refused_by_name() -> None:
    """A source, a step, or a flush."""
    with pytest.raises(PlanError, match=r"(?s)no such source.*refunds.*there are +orders, log"):
        _PLAN.about_source("pause", "refunds")
    with pytest.raises(PlanError, match=r"(?s)cannot be asked to retire.*because +it is a log"):
        _PLAN.about_source("retire", "log")
    with pytest.raises(PlanError, match="a source is called by its name"):
        _PLAN.about_source("retire", 7)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"(?s)no step of that name.*sort#1.*there are"):
        _PLAN.about_patience("1s", "sort#1")
    with pytest.raises(PlanError, match=r"(?s)cannot be changed while the query runs.*bounds decide"):
        _PLAN.about_patience("1s", "punctuate#3")
    with pytest.raises(PlanError, match=r"(?s)several steps have a patience.*step='punctuate#1'"):
        _PLAN.about_patience("1s", None)
    with pytest.raises(PlanError, match=r"(?s)cannot be flushed while it runs.*because +rows may last"):
        Controllable(fixed="rows may last for ever").about_flush()


def test_the_only_step_with_a_patience_needs_no_name() -> None:
    """Steps whose patience is fixed do not count; where there is no other, they are named."""
    one = Controllable(steps={"punctuate#1": PatienceOf(True, fixed="bands"), "punctuate#2": PatienceOf(False)})
    assert one.about_patience(3, None)["step"] == "punctuate#2"
    with pytest.raises(PlanError, match=r"(?s)no step of this query has a patience.*punctuate#1 +bands"):
        Controllable(steps={"punctuate#1": PatienceOf(True, fixed="bands")}).about_patience(3, None)


def test_where_a_column_names_sources_others_may_be_asked_for() -> None:
    """Which there are nobody knows but the running query."""
    assert Controllable(sources={"readings": ""}, origins=True).about_source("pause", "buoy 7")["source"] == "buoy 7"


def test_what_a_plan_lets_users_ask_is_stored_in_plain_values() -> None:
    """A checkpoint of a later version may say more."""
    assert Controllable.stored({**_PLAN.notes(), "later": 1}) == _PLAN


def test_numbers_that_come_out_of_turn_are_known_when_they_come_again() -> None:
    """And the memory of them shrinks when the gap is closed."""
    state = SteeringState()
    for number in (2, 5, 1):
        assert not state.has_read(number)
        state = state.after(number)
        assert state.has_read(number)
    assert (state.read_to, state.also_read) == (2, (5,))
    state = state.after(4).after(3, "no such source")
    assert (state.read_to, state.also_read, state.left_alone) == (5, (), 1)


def test_only_the_last_outcomes_are_remembered() -> None:
    """State does not grow with what was asked."""
    state = SteeringState()
    for number in range(1, 100):
        state = state.after(number, "x" * (number % 2))
    assert len(state.outcomes) == 20
    assert state.outcomes[-1] == (99, "x")
    assert state.left_alone == 50


def test_a_cause_is_one_line() -> None:
    """It is shown beside the record."""
    with pytest.raises(PlanError) as refusal:
        _PLAN.about_source("pause", "refunds")
    cause = cause_of(refusal.value)
    assert cause.startswith("this query has no such source: source refunds; there are orders, log; ")
    assert "\n" not in cause
