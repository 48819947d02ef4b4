"""A driver of its own for tests: profiles a frame over Spark Connect, and writes what is exact of it.

    python drive_profile.py FOLDER

The folder holds `in.parquet`; `found` is made in it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from connected import connected_session

import slackwater as sw


def what_is_exact(profile: sw.StreamProfile) -> list[Any]:
    """What Spark measures exactly, of few rows; sources in order of their names."""
    shown = profile.to_dict()
    sources = sorted(shown["sources"], key=lambda one: one["name"])
    return [*(shown[name] for name in ("rows", "copies", "bounds", "wrong_clocks")), sources]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    session = connected_session()
    found = sw.profile(session.read.parquet(str(place / "in.parquet")), time="at", arrived="came", origin="who")
    (place / "found").write_text(str(what_is_exact(found)))
    session.stop()
