"""Forks the Pythons that Spark asks for from one that has imported everything, instead of starting them anew.

    python fork_server.py LISTENING_SOCKET

Spark starts a process of Python whenever a query starts, besides a daemon for each session. As it comes each imports
this library, which takes 2.5 s of processor time, and has ten seconds to answer Spark: on a busy machine some do not.
`forked_python.py` is what Spark starts instead; it sends its command line, surroundings and open files here.

A fork is a child of this process: whoever kills all processes of a session does not find it. Tests that do so start a
real Python, with `warm_daemon.py`.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress

_STANDARD_FILES = 3


def main(listening: int) -> None:
    """Import everything, then fork for whoever asks; end when the process that started this one does."""
    from warm_daemon import load_loops  # which imports what workers need

    with suppress(ImportError):
        import pyspark.sql.connect.session  # noqa: F401 - functions of foreachBatch over Connect do
    load_loops()
    sys.path.pop(0)  # the folder of this file, which no other worker finds
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    started_by = os.getppid()
    with socket.socket(fileno=listening) as server:
        server.settimeout(1)
        while os.getppid() == started_by:
            with suppress(TimeoutError):
                connection, _ = server.accept()
                with connection:
                    _serve(connection, server)


def _serve(connection: socket.socket, server: socket.socket) -> None:
    connection.setblocking(True)
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, _STANDARD_FILES)
    while more := connection.recv(1 << 20):
        text += more
    if len(files) == _STANDARD_FILES:
        child = os.fork()
        if not child:
            server.close()
            _become(json.loads(text), files)
        with suppress(BrokenPipeError):
            connection.sendall(child.to_bytes(4, "big"))
    for file in files:
        os.close(file)


def _become(asked: dict[str, object], files: list[int]) -> None:
    """Run a module as Python would that was started anew; its end closes the connection, which says so."""
    code = 1
    try:
        for signal_number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signal_number, signal.SIG_DFL)
        for standard, file in enumerate(files):
            os.dup2(file, standard)
            os.close(file)
        environment, folder, arguments = asked["environment"], asked["folder"], asked["arguments"]
        assert isinstance(environment, dict)
        assert isinstance(folder, str)
        assert isinstance(arguments, list)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        time.tzset()
        sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
        sys.argv = arguments
        sys.modules.pop(arguments[0], None)  # it is to be run, not the one that was imported
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself does with whatever nobody has caught
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
