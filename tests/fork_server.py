"""Starts processes of the command line by forking one that has imported Windlass already.

An interpreter that imports Windlass takes a second of CPU time, a fork a few milliseconds. The child is a process like
any other: it has its own pid, folder, environment and streams, can be signalled, and ends through the interpreter.
Tests of the start itself, and of terminals, execute the program instead.

A request is one message on a socket, with the descriptors of the streams. A process forked for each request waits for
the child and reports two lines: the pid and the exit code.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELOADED = ("windlass.cli.main", "windlass.cli.backend.remote", "windlass.web.server")
LARGEST_REQUEST = 128 * 1024  # bytes; arguments and environment


class ForkedProcess:
    """A forked process, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, report: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = _number(self._report)
            os.close(self._report)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    module: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
) -> ForkedProcess:
    """Run `python -m module` with these descriptors as its streams."""
    request = {"module": module, "arguments": [*arguments], "cwd": str(cwd), "env": dict(env)}
    ours, theirs = os.pipe()
    try:
        socket.send_fds(_server(), [json.dumps(request).encode()], [stdin, stdout, stderr, theirs])
    finally:
        os.close(theirs)
    return ForkedProcess(_number(ours), ours)


@functools.cache
def _server() -> socket.socket:
    """Start the fork server of this process; return its connection, whose end ends the server."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = (sys.executable, "-m", "tests.fork_server", str(theirs.fileno()))
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()

    def close() -> None:
        ours.close()
        process.wait()

    atexit.register(close)
    return ours


def _number(report: int) -> int:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(report, 1)
        if not part:
            raise ChildProcessError("the fork server has ended")
        line += part
    return int(line)


def _serve(control: socket.socket) -> dict[str, object]:
    """Fork for each request; return the request in the child that executes it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the processes that wait for children are not waited for
    while True:
        message, streams, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _attend(json.loads(message), streams)
        for descriptor in streams:
            os.close(descriptor)


def _attend(request: dict[str, object], streams: list[int]) -> dict[str, object]:
    *standard, report = streams
    pid = os.fork()
    if pid == 0:
        os.close(report)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return request
    for descriptor in standard:
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(report, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _carry_out(request: dict[str, object]) -> None:
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]  # strings by name
    sys.path[0] = str(request["cwd"])
    sys.argv[1:] = request["arguments"]  # type: ignore[call-overload]  # strings
    importlib.invalidate_caches()
    random.seed()
    runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    _carry_out(_serve(socket.socket(fileno=int(sys.argv[1]))))
