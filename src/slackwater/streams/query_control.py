"""What can be asked of a query in process, between two steps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.runners.control import Control, standing_of

if TYPE_CHECKING:
    from slackwater.runners.control import AskedRecord
    from slackwater.runners.control_records import Controllable, ControlRecord
    from slackwater.runners.in_process.runner import InProcessRunner


class QueryControl(Control):
    """Applies records at once; those that cannot be are refused, and have no number."""

    def __init__(self, runner: InProcessRunner) -> None:
        self._runner = runner
        self._asked: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<control of a query, {len(self._asked)} records>"

    def _controllable(self) -> Controllable:
        return self._runner.controllable()

    def _ask(self, record: ControlRecord) -> int:
        number = self._runner.steering.read_to + 1
        self._runner.apply(record.numbered(number))
        self._asked[number] = str(record)
        return number

    def records(self) -> list[AskedRecord]:
        """What has been asked since the query was opened."""
        return [standing_of(number, asked, self._runner.steering) for number, asked in self._asked.items()]
