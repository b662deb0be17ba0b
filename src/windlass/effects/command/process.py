"""Runs a shell command as a process group, reads its output line by line in bounded memory, and ends it with everything
it started.

Signals go to the whole group. A process that leaves the group (`setsid`) is out of reach and may keep the pipes open.
So end-of-file is not awaited: after the command has ended, the rest of its output is read without blocking.
"""

import asyncio
import codecs
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from windlass.core.jobs.job import MAX_LINES
from windlass.core.json_value import plain
from windlass.effects.command.guard import SHELL, Guard

MAX_LINE = 8192  # bytes of a line that are stored
CHUNK = 65_536
MAX_REST = 1_048_576  # maximum size of a pipe: anything beyond was written after the command ended
KILLED_WITHIN = 2.0  # seconds; only a process stuck in the kernel takes longer
LOOK_AFTER = 0.005  # seconds between polls, doubled each time: there is no event for an empty group
LOOK_EVERY = 0.1
PROCESSES = Path("/proc")
INHERITED: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}

Keep = Callable[[str, str], None]  # level, line


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the worker's environment that commands may see: no secrets, no database URLs."""
    home = {"HOME": environ["HOME"]} if environ.get("HOME") else {}
    return home | {name: environ.get(name) or usual for name, usual in INHERITED.items()}


class Lines:
    """Splits an output stream into lines. Keeps at most `room` bytes of a line; `last` is the last non-blank line."""

    def __init__(self, level: str, keep: Keep, *, room: int = MAX_LINE) -> None:
        self.last = b""
        self.last_is_cut = False
        self._level = level
        self._keep = keep
        self._room = room
        self._line = bytearray()
        self._size = 0  # of the line, including bytes beyond `room`
        self._kept = 0

    def feed(self, data: bytes) -> None:
        if self._kept > MAX_LINES:
            data = self._only_the_end(data)
        *ended, begun = data.split(b"\n")
        for part in ended:
            self._add(part)
            self._end()
        self._add(begun)

    def finish(self) -> None:
        """End the stream; emit the last line if it has no newline."""
        if self._size:
            self._end()

    def _add(self, part: bytes) -> None:
        self._line += part[: self._room - len(self._line)]
        self._size += len(part)

    def _end(self) -> None:
        line, is_cut = bytes(self._line).rstrip(b"\r"), self._size > self._room
        self._forget()
        if line.strip():
            self.last, self.last_is_cut = line, is_cut
        if self._kept <= MAX_LINES:  # one more than is stored, so that `Context.keep` can note that there were more
            self._kept += 1
            self._keep(self._level, readable(line))

    def _only_the_end(self, data: bytes) -> bytes:
        """Return the part of `data` from its last non-blank line on. Lines beyond MAX_LINES are not emitted, so they
        are skipped without being split: there may be millions."""
        content = data.rstrip()
        data = content + b"\n" if b"\n" in data[len(content) :] else data
        start = data.rfind(b"\n", 0, len(content))
        if start >= 0:
            self._forget()
        return data[start + 1 :]

    def _forget(self) -> None:
        self._line.clear()
        self._size = 0


def readable(line: bytes) -> str:
    """Return a line as a string that can be stored, without a partial character where it was cut."""
    text, _ = codecs.utf_8_decode(line[:MAX_LINE], "replace", len(line) < MAX_LINE)
    return plain(text)[:MAX_LINE]


class Process:
    """A running command. A guarded one does not outlive this process, however this process ends."""

    def __init__(
        self, command: str, *, cwd: Path, env: Mapping[str, str], out: Lines, err: Lines, is_guarded: bool = False
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._guard = Guard() if is_guarded else None
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - the command comes from a definition by design
                [SHELL, "-c", "--", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except BaseException:
            self._release()
            raise
        if self._guard is not None:
            self._guard.watch(self._popen.pid)
        self._group = Group(self._popen.pid)
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._pipes = (Pipe(self._popen.stdout, out), Pipe(self._popen.stderr, err))
        self._watch()

    async def exited(self) -> int:
        """Wait for the shell and return its exit code; other processes of its group may still run."""
        await self._exited.wait()
        return int(self._popen.returncode)

    async def end(self, grace: float) -> None:
        """Send SIGTERM to the rest of the group, then SIGKILL after `grace` seconds, or immediately if cancelled."""
        try:
            if self._group.signal(signal.SIGTERM) and not await self._dead(grace):
                self._group.signal(signal.SIGKILL)
                await self._dead(KILLED_WITHIN)
        finally:
            self._group.signal(signal.SIGKILL)
            for pipe in self._pipes:
                pipe.finish()
            self._release()

    async def _dead(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                await self._exited.wait()
                await self._group.dead()
        except TimeoutError:
            return False
        return True

    def _watch(self) -> None:
        try:
            threading.Thread(target=self._wait, name=f"windlass-command-{self._popen.pid}", daemon=True).start()
        except RuntimeError:  # no more threads
            self._group.signal(signal.SIGKILL)
            self._popen.wait()
            for pipe in self._pipes:
                pipe.finish()
            self._release()
            raise

    def _release(self) -> None:
        if self._guard is not None:
            self._guard.release()

    def _wait(self) -> None:
        self._popen.wait()
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._exited.set)


class Pipe:
    """The read end of an output stream, read whenever data is available."""

    def __init__(self, file: IO[bytes], lines: Lines) -> None:
        self._file = file
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        os.set_blocking(file.fileno(), False)
        self._loop.add_reader(file.fileno(), self._take)

    def finish(self) -> None:
        """Read what is available without waiting, and close the pipe."""
        taken = 0
        while taken < MAX_REST and (size := self._take()):
            taken += size
        self._close()
        self._lines.finish()

    def _take(self) -> int:
        if self._file.closed:
            return 0
        try:
            data = os.read(self._file.fileno(), CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self._close()
        self._lines.feed(data)
        return len(data)

    def _close(self) -> None:
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())
            self._file.close()


class Group:
    """A process group. Its id, the pid of its first process, is not reused while the group has members."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_gone = False

    def signal(self, number: int) -> bool:
        """Send a signal to the group; return False if it has no members. After that the id may be reused, so nothing
        is sent to it again."""
        if not self._is_gone:
            try:
                os.killpg(self._number, number)
            except ProcessLookupError:
                self._is_gone = True
            except PermissionError:
                pass  # a process exists, but under another user
        return not self._is_gone

    async def dead(self) -> None:
        """Wait until no process of the group is alive. The first process must have been reaped already."""
        pause = LOOK_AFTER
        while self.signal(0) and _is_alive(self._number):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_EVERY)
        self._reap()

    def _reap(self) -> None:
        """Reap dead processes of the group: in a container this process may be pid 1, which inherits orphans."""
        with suppress(ChildProcessError):
            while os.waitpid(-self._number, os.WNOHANG)[0]:
                pass


def _is_alive(group: int) -> bool:
    """Return whether the group has a process that is not a zombie: not every pid 1 reaps orphans, or not at once."""
    if not PROCESSES.is_dir():
        return True
    return any(_is_alive_in(group, path) for path in PROCESSES.glob("[0-9]*/stat"))


def _is_alive_in(group: int, path: Path) -> bool:
    try:
        state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):  # the process ended in the meantime
        return False
    return int(its_group) == group and state not in (b"Z", b"X")
