"""Kills a command when the process that runs it is killed, so that its next attempt does not run beside it.

The guard is a shell in a session of its own that reads from a pipe. An end of file before the guard is released means
that the process at the other end has died. The kernel's signal for a parent's death (PR_SET_PDEATHSIG) would reach only
the first process of the command.
"""

import subprocess
from contextlib import suppress

SHELL = "/bin/sh"
SCRIPT = 'read -r group || exit 0; read -r released || kill -s KILL -- "-$group"'


class Guard:
    def __init__(self) -> None:
        self._popen = subprocess.Popen(  # noqa: S603 - a script of ours
            [SHELL, "-c", SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """Kill this process group as soon as the current process has died."""
        self._write(f"{group}\n")

    def release(self) -> None:
        """End the guard without killing the group."""
        self._write("released\n")
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()
        self._popen.wait()

    def _write(self, line: str) -> None:
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):  # the guard was killed: nothing depends on it but this protection
            self._popen.stdin.write(line.encode())
            self._popen.stdin.flush()
