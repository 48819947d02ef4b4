"""Writes docs/runners.md: which feature runs where, in how many shards, and why not where it does not.

    python tools/runners/write_page.py

Each feature is asked for as a user would ask: a stream is made, planned by each runner, and not run. What a runner
refuses, it refuses here with the same words.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from features import LOG, OF_CHANGES, OF_ROWS, ROWS

import slackwater as sw
from slackwater.errors import SlackwaterError
from slackwater.plan.node import SideOutput, SourceNode, walk
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.runners.spark.runner import plan_of, refuse_coming_and_going, refuse_lost_rows
from slackwater.runners.spark.shard.idle_sources import IdleTimeout
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from features import Make

    from slackwater.plan.node import Node
    from slackwater.runners.spark.planning.shard_plan import ShardPlan

PAGE = Path(__file__).parents[2] / "docs" / "runners.md"

_SHARDS = 8
_SECOND = 1_000_000

_HEAD = """\
# What runs where

Made by `make runners` of what plan nodes and runners answer, from the streams in `tools/runners/features.py`; a test
checks that it is current. *Streaming* is `start()` on streaming DataFrames, *ends* is `to_spark()` of DataFrames that
end: both run the same plan in the same shards, and both run over Spark Connect as on a classic session, as the equality
tests show. Shards are as many as asked for where columns decide which of them a row goes to, and one where none do.
What a stream that is revised sends is written as changes, with a `sequence` that puts them in order
(docs/decisions/0057). *Control* is what `query.control` can be asked for while it runs, in process and on Spark
(`start(control=True)`; docs/decisions/0058). Only in process: live sources (`PushSource`), a `Query` that is driven by
hand, and snapshots of it.

| feature | steps | in process | Spark, streaming | Spark, ends | with `timeout=` | control | shards |
|---|---|---|---|---|---|---|---|
"""


class Answer(NamedTuple):
    """What the runners say of one feature."""

    feature: str
    steps: str
    in_process: str | None
    streaming: str | None
    ends: str | None
    timeout: str | None
    """Why not; None where it runs."""

    control: str
    """What it can be asked for while it runs on Spark."""

    shards: str


def answers() -> Iterator[Answer]:
    """Ask for every feature."""
    for features, schema in ((OF_ROWS, ROWS), (OF_CHANGES, LOG)):
        for name, make in features.items():
            yield _answer(name, make, schema)


def nodes() -> set[type[Node]]:
    """The kinds of nodes that the features have, as they are written."""
    found: set[type[Node]] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for features, schema in ((OF_ROWS, ROWS), (OF_CHANGES, LOG)):
            for make in features.values():
                found |= {type(node) for node in walk(*_roots_of_either(make, schema))}
    return found


def page() -> str:
    """The whole page. What plans warn of, they warn of where somebody runs them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _page()


def _page() -> str:
    reasons: dict[str, int] = {}

    def cell(why_not: str | None) -> str:
        return "yes" if why_not is None else f"no [{reasons.setdefault(why_not, len(reasons) + 1)}]"

    lines = [
        f"| {one.feature} | {one.steps} | {cell(one.in_process)} | {cell(one.streaming)} | {cell(one.ends)} "
        f"| {cell(one.timeout) if one.streaming is None else ''} | {one.control} | {one.shards} |\n"
        for one in answers()
    ]
    notes = [f"{number}. {reason}\n" for reason, number in reasons.items()]
    return f"{_HEAD}{''.join(lines)}\n## Why not\n\n{''.join(notes)}"


def _answer(name: str, make: Make, schema: pa.Schema) -> Answer:
    def live() -> list[Node]:
        return _roots(make(*_live(schema)))

    def ending() -> list[Node]:
        return _roots(make(*_tables(schema)))

    in_process = _why_not(lambda: optimized_in_process(*live()))
    in_process = in_process and _why_not(lambda: optimized_in_process(*ending()))
    streaming = _why_not(lambda: plan_of(live(), _SHARDS))
    return Answer(
        name,
        _steps(_roots_of_either(make, schema)),
        in_process,
        streaming,
        _why_not(lambda: _refuse_ending(plan_of(ending()[:1], _SHARDS))),
        None if streaming else _why_not(lambda: IdleTimeout.in_plan(plan_of(live(), _SHARDS), _SECOND)),
        "" if streaming else _control(live()),
        "" if streaming else _shards(live()),
    )


def _refuse_ending(plan: ShardPlan) -> None:
    """Refuse what to_spark() would."""
    refuse_lost_rows(plan, streaming=False)
    refuse_coming_and_going(plan, "start() it with control=True, or let all replicas take part")


def _live(schema: pa.Schema) -> list[sw.PushSource]:
    return [sw.PushSource(schema, name=name) for name in "ab"]


def _tables(schema: pa.Schema) -> list[pa.Table]:
    return [schema.empty_table()] * 2


def _roots(streams: Any) -> list[Node]:
    return [streams.node] if isinstance(streams, sw.Stream) else [stream.node for stream in streams]


def _roots_of_either(make: Make, schema: pa.Schema) -> list[Node]:
    """The plan over live sources, or, where that is refused when it is written, over such that end."""
    try:
        return _roots(make(*_live(schema)))
    except SlackwaterError:
        return _roots(make(*_tables(schema)))


def _steps(roots: list[Node]) -> str:
    """The kinds of steps, as explain() calls them."""
    steps = [node for node in walk(*roots) if not isinstance(node, SourceNode | SideOutput)]
    return ", ".join(dict.fromkeys(node.verb for node in steps))


def _shards(roots: list[Node]) -> str:
    plan = plan_of(roots, _SHARDS)
    if plan.columns is None:
        return f"one: {plan.why_one}"
    return "by " + ", ".join(dict.fromkeys(", ".join(columns) for columns in plan.columns.values()))


def _control(roots: list[Node]) -> str:
    """What may be asked of one of its sources, steps or replicas at least."""
    asked = Shard(plan_of(roots, _SHARDS)).steering.controllable()
    can = {
        "pause": asked.origins or "" in asked.sources.values(),
        "patience": any(not step.fixed for step in asked.steps.values()),
        "flush": not asked.fixed,
        "attach": any(not replica.fixed for replica in asked.replicas.values()),
    }
    return ", ".join(word for word, may_be in can.items() if may_be)


def _why_not(ask: Callable[[], object]) -> str | None:
    """What a runner says that refuses: the first line, and what to do."""
    try:
        ask()
    except SlackwaterError as refused:
        first, *facts = str(refused).splitlines()
        hints = [fact.strip().removeprefix("hint: ") for fact in facts if fact.strip().startswith("hint: ")]
        return "; ".join([first, *hints])
    return None


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(PAGE.parents[1])}\n")
