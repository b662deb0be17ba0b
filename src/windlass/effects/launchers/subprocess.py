"""The launcher of local processes, which outlive the process that started them.

Each job has a lock file, whose lock its process inherits and holds until it ends: a name cannot be started twice, and
a launcher that is opened later finds which jobs run. The file holds the pid once the job was started.

A job that is killed may leave processes behind. They are found by the variable WINDLASS_LAUNCH in their environment
(where /proc exists) and killed.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from windlass.core.launches import LOCK_VARIABLE, Cause, Phase, RemoteJob
from windlass.effects.command.process import inherited
from windlass.effects.launchers import LaunchRequest, PoolOptions
from windlass.errors import Invalid, Unavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module or None

GRACE = 8.0  # seconds between SIGTERM and SIGKILL
LOG_TAIL = 4096  # bytes
STARTS, START_AGAIN = 50, 0.01  # tries to take the lock, and the seconds between them
NO_CHILD = -1000  # in place of the exit code of a process that another launcher has started
PROCESSES = Path("/proc")
PASSED_ON = ("PYTHONPATH", "VIRTUAL_ENV")  # to import the same modules as this process


def open_launcher(pool: PoolOptions) -> "SubprocessLauncher":
    options = dict(pool.options)
    folder, command = options.pop("folder", None), options.pop("command", None)
    if options:
        raise Invalid(f"pool {pool.name} has the unknown option {min(options)!r}", field=min(options))
    if not folder:
        raise Invalid(f"pool {pool.name} has no folder for its lock files", field="folder")
    return SubprocessLauncher(pool, Path(folder), command or [sys.executable, "-m", "windlass.exec"])


class SubprocessLauncher:
    list_every = 1.0

    def __init__(self, pool: PoolOptions, folder: Path, command: Sequence[str]) -> None:
        if fcntl is None:
            raise Unavailable("the subprocess launcher requires Unix")
        self.hint = asyncio.Event()
        self._env = pool.env
        self._folder = folder
        self._command = command
        self._children: dict[int, int | None] = {}  # pid -> exit code, None while it runs
        self._removed: set[int] = set()  # pids of removed jobs, whose exit codes are no longer needed
        self._watched: dict[str, int] = {}  # name -> descriptor that becomes readable when the process ends
        self._stopping: dict[str, float] = {}  # name -> time of the first stop
        self._swept: set[str] = set()  # ended jobs whose leftover processes were killed

    async def start(self, request: LaunchRequest) -> None:
        pid = await asyncio.to_thread(self._start, request)
        if pid is not None:
            self._watch(request.name, pid)

    async def list(self) -> Sequence[RemoteJob]:
        jobs = await asyncio.to_thread(self._jobs)
        for job, pid in jobs:
            if job.phase is Phase.RUNNING and pid is not None:
                self._watch(job.name, pid)
        return [job for job, _ in jobs]

    async def stop(self, name: str) -> None:
        since = self._stopping.setdefault(name, time.monotonic())
        await asyncio.to_thread(self._kill, name, time.monotonic() - since >= GRACE)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self._remove, name)
        self._stopping.pop(name, None)
        self._swept.discard(name)

    async def logs(self, name: str) -> str:
        return await asyncio.to_thread(self._tail, name)

    async def check(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{self._folder} cannot be created: {error.strerror}") from None
        if not os.access(self._folder, os.W_OK):
            raise Unavailable(f"{self._folder} cannot be written")

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        for descriptor in self._watched.values():
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()

    # Run in a thread: starting a process and reading many files may block

    def _start(self, request: LaunchRequest) -> int | None:
        """Start a process and return its pid; return None if a job with this name exists."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._lock_file(request.name), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _seize_to_start(lock) or os.pread(lock, 1, 0):
                return None  # it runs, or has ended
            env = inherited(os.environ) | {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            env |= {**self._env, **request.env, **request.secret_env}
            env |= {"WINDLASS_LAUNCH": request.name, LOCK_VARIABLE: str(lock)}
            with self._log_file(request.name).open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - the command comes from a definition by design
                    self._command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            process.returncode = 0  # suppresses the warning that it outlives this object; see `_reap`
            os.pwrite(lock, str(process.pid).encode(), 0)
            self._children[process.pid] = None
            return process.pid
        except OSError as error:
            raise Unavailable(f"the process cannot be started: {error.strerror}") from error
        finally:
            os.close(lock)

    def _jobs(self) -> Sequence[tuple[RemoteJob, int | None]]:
        self._reap()
        jobs = []
        for path in self._folder.glob("*.lock"):
            name = path.stem
            with suppress(OSError):
                lock = os.open(path, os.O_RDWR)
                try:
                    runs, pid = not _seize(lock), _pid(lock)
                finally:
                    os.close(lock)
                code = None if pid is None else self._children.get(pid, NO_CHILD)
                if runs or (pid is not None and code is None):  # the file is unlocked before the exit code is known
                    jobs.append((RemoteJob(name, Phase.RUNNING), pid))
                elif pid is not None:
                    jobs.append((self._ended(name, None if code == NO_CHILD else code), pid))
        return jobs

    def _reap(self) -> None:
        """Collect the exit codes of children that have ended; jobs that another process started are not children."""
        for pid in [pid for pid, code in self._children.items() if code is None]:
            with suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self._children[pid] = os.waitstatus_to_exitcode(status)
        for pid in [pid for pid in self._removed if self._children.get(pid) is not None]:
            del self._children[pid]
            self._removed.discard(pid)

    def _ended(self, name: str, code: int | None) -> RemoteJob:
        if code not in (0, 1) and name not in self._swept:  # windlass.exec exits with 0 or 1 after its cleanup
            self._swept.add(name)
            _kill_leftovers(name)
        if code is None or code >= 0:
            return RemoteJob(name, Phase.ENDED, Cause.EXITED, "" if code is None else f"exit code {code}", code)
        detail = f"killed by {_signal_name(-code)}"
        return RemoteJob(name, Phase.ENDED, Cause.EXITED, detail, code)

    def _kill(self, name: str, hard: bool) -> None:
        with suppress(FileNotFoundError):
            lock = os.open(self._lock_file(name), os.O_RDWR)
            try:
                if _seize(lock):
                    return  # it has ended
                pid = _pid(lock)
            finally:
                os.close(lock)
            if pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL if hard else signal.SIGTERM)
            if hard or pid is None:
                _kill_leftovers(name)

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            lock = os.open(self._lock_file(name), os.O_RDONLY)
            try:
                pid = _pid(lock)
            finally:
                os.close(lock)
            if pid in self._children:
                self._removed.add(pid)
        for path in (self._lock_file(name), self._log_file(name)):
            path.unlink(missing_ok=True)

    def _tail(self, name: str) -> str:
        try:
            with self._log_file(name).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _lock_file(self, name: str) -> Path:
        return self._folder / f"{name}.lock"

    def _log_file(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _watch(self, name: str, pid: int) -> None:
        """Set `hint` when a process ends, if the system has pidfds; otherwise the next list detects the end."""
        if name in self._watched or not hasattr(os, "pidfd_open"):
            return
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            self._watched[name] = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._exited, name)

    def _exited(self, name: str) -> None:
        descriptor = self._watched.pop(name)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self.hint.set()


def _seize(lock: int) -> bool:
    """Take the lock of an open file; return False if another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _seize_to_start(lock: int) -> bool:
    """Take the lock to start a job. Tries repeatedly while the file has no pid: `list` may hold the lock briefly."""
    for _ in range(STARTS):
        if _seize(lock):
            return True
        if os.pread(lock, 1, 0):
            return False
        threading.Event().wait(START_AGAIN)
    return False


def _pid(lock: int) -> int | None:
    text = os.pread(lock, 20, 0)
    return int(text) if text.isdigit() else None


def _kill_leftovers(name: str) -> None:
    marker = f"WINDLASS_LAUNCH={name}".encode()
    for path in PROCESSES.glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if marker in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
