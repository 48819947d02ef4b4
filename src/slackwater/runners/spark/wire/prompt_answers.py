"""Answers Java at once, in Python workers that talk to it over TCP.

Java sends a worker first what to do, and then rows. Over TCP it keeps a small packet back until the one before is
acknowledged, and Linux puts that off for 40 ms, for there may soon be something to say: of each pass of a small batch
through Python that is the larger part. Unix domain sockets have no such rule, but whether Spark uses them is for users
to say, when they make the session. A worker may acknowledge what has come whenever it likes. So it does when it knows
what to do.

Cost: a tenth of a millisecond for each task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def answering() -> Callable[[], None]:
    """What acknowledges all that has come to this process; it travels written out, and names nothing of this library.

    >>> answering()()
    """

    def answer_at_once() -> None:
        import os
        import socket
        from contextlib import suppress
        from pathlib import Path

        at_once, opened = getattr(socket, "TCP_QUICKACK", None), Path("/proc/self/fd")  # which only Linux has
        if at_once is None or not opened.is_dir():
            return
        limit = socket.getdefaulttimeout()
        socket.setdefaulttimeout(None)  # or Python lets what it looks at no longer wait for what comes
        try:
            for file in [one for one in opened.iterdir() if one.is_socket()]:
                with suppress(OSError), socket.socket(fileno=os.dup(int(file.name))) as one:
                    if one.family in {socket.AF_INET, socket.AF_INET6} and one.type == socket.SOCK_STREAM:
                        one.setsockopt(socket.IPPROTO_TCP, at_once, 1)
        finally:
            socket.setdefaulttimeout(limit)

    return answer_at_once


answer_at_once = answering()
"""The same, for whoever has this library anyway."""
