"""How a query stands, in the text that Prometheus reads.

    # HELP slackwater_rows_in_total Rows that the sources gave.
    # TYPE slackwater_rows_in_total counter
    slackwater_rows_in_total{query="clicks"} 9

Format: Prometheus text-based exposition format 0.0.4. Rules that it leaves to us: a family stands together, its name
ends in its unit, seconds where there is one, and in _total where it only grows. Calendar times are seconds since 1970;
sequence numbers have no unit and families of their own. What is not known yet is left out.

Cost: a line for each figure; of a step that names sources, for each source that it names.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from slackwater.errors import PlanError, message
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from slackwater.operators.why import Why
    from slackwater.progress.instants import Instant
    from slackwater.runners.in_process.progress import Progress
    from slackwater.runners.result import Counters

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""What an HTTP server says that the text is."""

_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_OURS: Final = frozenset({"step", "source", "origin", "ground", "rule"})
"""Labels that distinguish the samples of a family."""

_LEFT_OUT: Final = {
    "duplicates": ("duplicate_rows_total", "Rows left out because another one stands for the same event."),
    "ignored": ("ignored_rows_total", "Rows left out because nobody is interested in their time."),
    "broken_bounds": ("broken_bounds_rows_total", "Rows that came though bounds ruled it out, late or not."),
    "late_by_estimate": ("late_by_estimate_rows_total", "Rows that came late by estimated bounds."),
    "contradicted": ("contradicted_rows_total", "Rows of replicas that the one that led lacked."),
    "passed_over": ("passed_over_rows_total", "Rows of replicas whose time the merged stream had passed."),
}
"""Which counter of steps, all of them together, is which family, and what it says."""


class _Family(NamedTuple):
    """A metric: all its samples, by their labels."""

    name: str
    kind: str
    says: str
    samples: Sequence[tuple[Mapping[str, str], str]]


def prometheus_text(
    progress: Progress,
    counters: Mapping[str, Counters],
    why: Iterable[Why],
    labels: Mapping[str, str],
    *,
    by_step: bool = True,
) -> str:
    """Write how a query stands; every sample has the labels. `by_step` says whether counters are of single steps."""
    _require_labels(labels)
    families = [*_of_query(progress, counters), *_of_reasons(list(why))]
    families += _of_steps(counters) if by_step else []
    return "".join(_text(family, labels) for family in families if family.samples)


def _of_query(progress: Progress, counters: Mapping[str, Counters]) -> Iterator[_Family]:
    yield _counter("rows_in_total", "Rows that the sources gave.", [({}, progress.total_in)])
    yield _counter("rows_out_total", "Rows that the outputs sent.", [({}, progress.total_out)])
    yield _counter("late_rows_total", "Rows that came too late.", [({}, progress.total_late)])
    for name, (family, says) in _LEFT_OUT.items():
        yield _counter(family, says, [({}, sum(getattr(one, name) for one in counters.values()))])
    held = "Rows, groups and partial results that wait."
    yield _gauge("held_rows", held, [({}, str(sum(progress.held.values())))])
    complete = "No later row of any output concerns time before this."
    yield _instant("complete_before", complete, progress.calendar, [({}, progress.complete_before)])
    newest = [({"source": source}, time) for source, time in progress.newest.items()]
    yield _instant("newest_row", "The greatest time of the rows of a source.", progress.calendar, newest)


def _of_reasons(why: list[Why]) -> Iterator[_Family]:
    """How far each step lets its stream be complete, and by what; where sources go by themselves, each of them."""
    for calendar in (True, False):
        steps = [one for one in why if one.calendar is calendar]
        complete = [({"step": one.step}, one.complete_before) for one in steps]
        yield _instant("step_complete_before", "Up to where a step has its input complete.", calendar, complete)
        newest = [({"step": one.step}, one.newest) for one in steps]
        yield _instant("step_newest_row", "The greatest time that has come to a step.", calendar, newest)
        origins = [
            ({"step": one.step, "origin": origin.origin}, origin.complete_before)
            for one in steps
            for origin in one.origins
        ]
        yield _instant("origin_complete_before", "Up to where one source is complete.", calendar, origins)
    held = [({"step": one.step, "origin": origin.origin}, str(origin.held)) for one in why for origin in one.origins]
    yield _gauge("origin_held_rows", "What waits for one source; of all sources the slowest are named.", held)
    waits = [
        ({"step": one.step, "ground": one.ground.name.lower(), "rule": one.rule, "source": one.source or ""}, "1")
        for one in why
    ]
    yield _gauge("step_waits_info", "By which bound a step is complete no further, and whom it waits for.", waits)


def _of_steps(counters: Mapping[str, Counters]) -> Iterator[_Family]:
    """What each source and step has done."""
    steps = [({"step": name}, one) for name, one in counters.items()]
    yield _counter("step_rows_in_total", "Rows that came to a step.", [(label, one.rows_in) for label, one in steps])
    yield _counter("step_rows_out_total", "Rows that a step sent.", [(label, one.rows_out) for label, one in steps])
    held = [(label, str(one.buffered)) for label, one in steps]
    yield _gauge("step_held_rows", "Rows, groups and partial results that wait in a step.", held)
    idle = [(label, _seconds(one.idle_waiting)) for label, one in steps]
    says = "For how long a step held something back because an input was silent."
    yield _Family("slackwater_step_idle_waiting_seconds_total", "counter", says, idle)


def _counter(name: str, says: str, samples: list[tuple[dict[str, str], int]]) -> _Family:
    return _Family(f"slackwater_{name}", "counter", says, [(labels, str(value)) for labels, value in samples])


def _gauge(name: str, says: str, samples: list[tuple[dict[str, str], str]]) -> _Family:
    return _Family(f"slackwater_{name}", "gauge", says, samples)


def _instant(name: str, says: str, calendar: bool, samples: list[tuple[dict[str, str], Instant]]) -> _Family:
    """A time: in seconds since 1970, or as the sequence number that it is; what has not begun has none."""
    unit, of = ("timestamp_seconds", "In seconds since 1970.") if calendar else ("sequence", "A sequence number.")
    known = [(labels, time) for labels, time in samples if time != BEGINNING]
    shown = [
        (labels, "+Inf" if time == FOREVER else _seconds(time) if calendar else str(time)) for labels, time in known
    ]
    return _gauge(f"{name}_{unit}", f"{says} {of}", shown)


def _seconds(microseconds: int) -> str:
    """Exactly, for Prometheus reads decimals.

    >>> _seconds(-1_500_000), _seconds(0), _seconds(1_763_000_000_000_001)
    ('-1.500000', '0.000000', '1763000000.000001')
    """
    return f"{Decimal(microseconds).scaleb(-6):.6f}"


def _text(family: _Family, labels: Mapping[str, str]) -> str:
    lines = [f"# HELP {family.name} {_escaped(family.says)}", f"# TYPE {family.name} {family.kind}"]
    for own, value in family.samples:
        named = ",".join(f'{name}="{_quoted(one)}"' for name, one in {**labels, **own}.items())
        lines.append(f"{family.name}{{{named}}} {value}" if named else f"{family.name} {value}")
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _require_labels(labels: Mapping[str, str]) -> None:
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or name in _OURS:
            facts = {"label": name, "taken": ", ".join(sorted(_OURS))}
            hint = "a name has letters, digits and _, begins with no digit and not with __, and is not one of these"
            raise PlanError(message("Prometheus does not take a label of this name", facts, hint))
        if not isinstance(value, str):
            raise PlanError(
                message("the value of a label is a text", {name: repr(value)}, f"write {name!r}: {str(value)!r}")
            )
