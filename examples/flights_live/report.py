"""What the run has found, as lines for the terminal and as sections of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from outcomes import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from comparison import Proof
    from outcomes import Outcome

    from slackwater import StreamProfile


_HOUR: Final = 3_600_000_000
"""In microseconds."""


def lines_of_proof(proof: Proof) -> list[str]:
    """What became of all flights, and the verdict."""
    parts = f"{proof.once:,} in the final answers + {proof.late:,} only in the late tables + {proof.still_open:,}"
    closing = f"in hours still open (from {proof.complete_before:%b %d %H:%M} on)"
    lines = [f"{proof.flights:,} flights published = {parts} {closing}"]
    if proof.holds:
        lines.append(f"all {proof.answers:,} final counts agree with the list itself: every flight exactly once")
    else:
        faults = ", ".join(f"{name}: {number:,}" for name, number in proof.faults.items() if number)
        lines.append(f"THE QUERY AND THE LIST DO NOT AGREE: {faults or 'the sum is another'}")
    return lines


def lines_of_outcomes(outcomes: Sequence[Outcome]) -> list[str]:
    """The table in the end."""
    head = f"{'':<20}{'patience':>9}{'missing':>10}{'wrong hour':>12}{'complete':>11}{'an answer waits':>17}{'99 %':>8}"
    return [head] + [
        f"{one.who:<20}{one.patience:>9}{one.missing:>10,}{one.misplaced:>12,}"
        f"{complete(one):>11.3%}{f'{one.median:.1f} h':>17}{f'{one.most:.1f} h':>8}"
        for one in outcomes
    ]


def notes_of(closed: datetime, hours: float, profile: StreamProfile) -> list[str]:
    """How these figures were taken; `hours` of flights are in a micro-batch."""
    at_pace = [part for patience, part in profile.curve if patience <= _HOUR][-1]
    before = f"Flights that left before {closed:%B %d %H:%M}, for which all have answered."
    waits = "An answer waits from the end of its hour to the end of the micro-batch that has it, by the feed's clock."
    fast = (
        f"The feed runs so fast that a micro-batch, the same ones for all, has {hours:.0f} hours of flights. Within one"
    )
    slow = f"no flight is late: at its own pace 1h would have {at_pace:.0%} of the messages in time, by the sample."
    return [f"{before} {waits}", f"{fast} {slow}"]


def complete(one: Outcome) -> float:
    """The part of the flights that was counted where it belongs."""
    return 1 - one.missing / one.flights


def sections(
    proof: Proof,
    outcomes: Sequence[Outcome],
    missing: Iterable[dict[str, Any]],
    story: Sequence[tuple[datetime, str]],
    notes: Sequence[str],
) -> dict[str, list[Any]]:
    """What comes first on the page."""
    fates = [
        {"flights": "in the final answers, once", "number": proof.once},
        {"flights": "in the late tables, and in no answer", "number": proof.late},
        {
            "flights": f"in hours from {proof.complete_before:%B %d %H:%M} on, still open",
            "number": proof.still_open,
        },
        {"flights": "published", "number": proof.flights},
    ]
    table = [
        {
            "": one.who,
            "patience": one.patience,
            "missing": one.missing,
            "in a wrong hour": one.misplaced,
            "complete": f"{complete(one):.3%}",
            "half of the answers come after": f"{one.median:.1f} h",
            "99 %": f"{one.most:.1f} h",
        }
        for one in outcomes
    ]
    told = [
        {"by the clock of the feed": f"{when:%B %d, %H:%M}", "what happened": what.rstrip(":")} for when, what in story
    ]
    return {
        "Every flight exactly once" if proof.holds else "The query and the list do not agree": [
            *lines_of_proof(proof)[1:],
            fates,
        ],
        "What native watermarks make of the same feed": [*notes, table, picture(missing)],
        "What happened": [told],
    }


def picture(missing: Iterable[dict[str, Any]]) -> Any:
    """Flights that are in no answer, by day."""
    import altair as alt

    data: Any = alt.Data  # Altair has no types for it
    chart = alt.Chart(data(values=list(missing))).mark_bar()
    return chart.encode(
        x=alt.X("day:T", timeUnit="utcyearmonthdate", title=None),
        y=alt.Y("missing:Q", title="flights in no final answer"),
        xOffset="who:N",
        color=alt.Color("who:N", title=None, scale=alt.Scale(domain=list(WAYS), range=["#2a6f97", "#c1121f"])),
    ).properties(width=640, height=200)
