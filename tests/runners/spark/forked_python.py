"""What Spark starts as Python in these tests: has a fork of `fork_server.py` do the work, and lives as long as it.

    python -SE forked_python.py SERVER [ARGUMENTS OF PYTHON]

Whatever is no `-m MODULE`, and everything if no server answers, is done by the real Python. Nothing but the standard
library is imported: this takes 30 ms.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main(server: str, arguments: list[str]) -> None:
    """Ask for a fork, and wait for its end; whoever ends this one before there is a fork, ends the fork."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            child = _forked(connection, server, arguments)
        except OSError:
            child = 0
        if not child:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - our own interpreter
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        while connection.recv(1):
            pass


def _forked(connection: socket.socket, server: str, arguments: list[str]) -> int:
    """The process that was forked; 0 if there is none."""
    if arguments[:1] != ["-m"]:
        return 0
    connection.connect(server)
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to import as all of this
    asked = {"arguments": arguments[1:], "environment": dict(os.environ), "folder": folder}
    text = json.dumps(asked).encode()
    sent = socket.send_fds(connection, [text], [0, 1, 2])
    connection.sendall(text[sent:])
    connection.shutdown(socket.SHUT_WR)
    return int.from_bytes(connection.recv(4), "big")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
