"""slackwater warm-up: compile all loops ahead, for images and clusters."""

from __future__ import annotations

from slackwater.errors import PlanError, RunError, message
from slackwater.kernels.warm_up import main as warm_up
from slackwater.kernels.warm_up import where_kept


def warm_up_command(*, jobs: int = 2) -> None:
    """Compile all loops ahead, so that no query waits for it, and say where they are kept.

    Parameters
    ----------
    jobs
        So many processes share the work.
    """
    if jobs < 1:
        raise PlanError(message("jobs is a whole number above zero", {"got": jobs}))
    if failed := warm_up(jobs):
        raise RunError(message("not all loops could be compiled", {"processes that failed": failed}, "see above"))
    print(where_kept())  # noqa: T201 - what a command says
