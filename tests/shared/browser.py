"""A page as a browser shows it: headless Chromium, without a network."""

from __future__ import annotations

import html
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = ("--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update")

needs_chromium = pytest.mark.skipif(
    _CHROMIUM is None, reason="there is no Chromium: install it, on Debian the package chromium"
)

_WATCHED = """<script>
window.onerror = (what) => { document.title = "failed: " + what; };
window.onunhandledrejection = (event) => { document.title = "failed: " + event.reason; };
</script></head>"""


def shown(page: Path, folder: Path, then: str = "") -> str:
    """What a browser makes of a page after some seconds of its own time; `then` is a script that runs after two.

    An error in a script of the page becomes its title, which begins with "failed".
    """
    assert _CHROMIUM is not None
    later = f"<script>setTimeout(() => {{ {then} }}, 2000);</script></head>"
    text = page.read_text(encoding="utf-8").replace("</head>", _WATCHED, 1).replace("</head>", later, 1)
    folder.mkdir()
    watched = folder / "watched.html"
    watched.write_text(text, encoding="utf-8")
    command = [_CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *_QUIET, "--disable-sync"]
    command += [f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    command += ["--virtual-time-budget=6000", "--dump-dom", watched.as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603 - a browser
    return html.unescape(found.stdout)
