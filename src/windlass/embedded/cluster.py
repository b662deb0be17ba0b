"""Creates, starts, probes and stops the server of one data directory, and the file locks that show which processes are
alive. The caller holds the start lock.

Invariants
  * A data directory appears complete or not at all: initdb writes to a draft folder, which is then renamed.
  * Every process of the server inherits the lock on the file `alive`. A free lock proves that the postmaster and all
    its backends are gone; no server is started before that.
  * Durability settings are passed on the command line, where neither postgresql.conf nor ALTER SYSTEM overrides them.
Failure policy: a failed start raises `Unavailable` with the end of the server's log.
"""

import hashlib
import os
import shlex
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from windlass.embedded.binaries import Binaries, ServerUser
from windlass.errors import Unavailable

if sys.platform != "win32":
    import fcntl

NAME = "windlass"  # of the superuser and of the database
SOCKETS = Path("/tmp")  # noqa: S108 - short, and the same for all processes whatever TMPDIR is; ownership is verified
SOCKET_NAME = ".s.PGSQL.5432"
START_SECONDS, STOP_SECONDS = 60, 60
POLL_SECONDS = 0.02
DEFAULTS = {
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
FLEETING = {"fsync": "off", "full_page_writes": "off"}  # survives a crash of the server, but not of the machine
FIXED = DURABLE | {"listen_addresses": "", "port": "5432", "unix_socket_permissions": "0700"}
CREATE_IF_MISSING = r"""
select format('create database %I', :'name') where not exists (select from pg_database where datname = :'name') \gexec
"""


class FileLock:
    """An advisory lock (flock) that tracks live processes: the kernel releases it when its process ends for any reason.

    Each object is one holder, so two objects in one process are two holders. Programs that this process starts do not
    inherit the lock (O_CLOEXEC) unless its `fd` is passed explicitly; forked children close it. The file is created if
    missing and never removed: a new file would be a second, independent lock. Unix only.
    """

    _open: ClassVar[set["FileLock"]] = set()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        FileLock._open.add(self)
        _hand_over(self.fd, path.parent)

    @property
    def closed(self) -> bool:
        return self.fd < 0

    def share(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def seize(self) -> bool:
        """Try to get the exclusive lock without waiting; return False if there are other holders. A failed attempt
        also gives up a shared lock held before."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close this descriptor. A program that inherited the `fd` keeps the lock until it ends."""
        if not self.closed:
            fd, self.fd = self.fd, -1
            FileLock._open.discard(self)
            os.close(fd)

    @classmethod
    def forget_inherited(cls) -> None:
        """Close the copies in a forked child, which would otherwise keep its parent's locks after the parent ended."""
        for lock in list(cls._open):
            lock.close()


def is_unlocked(path: Path) -> bool:
    """Return whether the lock has no holder at this moment."""
    lock = FileLock(path)
    try:
        return lock.seize()
    finally:
        lock.close()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(POLL_SECONDS)
    return True


def _hand_over(fd: int, folder: Path) -> None:
    """Give a lock file that root created in a user's folder to that user, who could not open it otherwise."""
    file, owner = os.fstat(fd), folder.stat()
    if os.geteuid() == file.st_uid == 0 != owner.st_uid and file.st_nlink == 1 and file.st_size == 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=FileLock.forget_inherited)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    place: Path
    user: ServerUser

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def log(self) -> Path:
        return self.place / "server.log"

    @property
    def alive(self) -> Path:
        return self.place / "alive"

    @property
    def socket(self) -> Path:
        return SOCKETS / f"windlass-{hashlib.sha256(str(self.place).encode()).hexdigest()[:12]}"

    @property
    def url(self) -> str:
        return f"postgresql://{NAME}@/{NAME}?host={self.socket}"

    def pid(self) -> int | None:
        """Return the pid of the running postmaster, or None. The pid file alone is no proof: the process may be a
        zombie, or the pid reused by another program."""
        pid = _first_number(self.data / "postmaster.pid")
        return pid if pid and _works_in(pid, self.data) else None

    def died(self) -> bool:
        """Return whether the last postmaster crashed or was killed: one that is stopped removes its pid file."""
        return (self.data / "postmaster.pid").exists() and self.pid() is None

    def ready(self, binaries: Binaries) -> bool:
        """Return whether the server of this data directory accepts connections."""
        if self.pid() is None:
            return False
        probe = self.user.run(binaries.program("pg_isready"), "-q", "-h", self.socket, "-U", NAME, "-d", "postgres")
        return probe.returncode == 0

    def ensure_running(self, binaries: Binaries, settings: Mapping[str, str]) -> None:
        """Use the running server, or start one after all processes of an earlier one are gone."""
        settled = wait_until(lambda: self.ready(binaries) or self._gone(), START_SECONDS)
        if not settled:
            raise Unavailable(
                f"a server of {self.data} has processes that neither answer in {self.socket} nor end: it may be "
                f"recovering, finishing a long query, or running in another container; try again when it is done. "
                f"The end of its log:\n{self._tail(0)}"
            )
        if self._gone():
            if not self.data.exists():
                self._make(binaries)
            self._boot(binaries, settings)
        self._ensure_database(binaries)

    def halt(self, binaries: Binaries) -> bool:
        """Stop the server (fast mode: clients are disconnected, data is flushed) and wait; return False if none ran."""
        if self.pid() is None:
            return False
        command = (binaries.program("pg_ctl"), "stop", "-D", self.data, "-m", "fast", "-w", "-t", str(STOP_SECONDS))
        stopped = self.user.run(*command, timeout=STOP_SECONDS + 30)
        if not wait_until(self._gone, 10):
            raise Unavailable(f"the server of {self.data} did not stop: {stopped.stdout}{self._tail(0)}")
        self._leave_socket()
        return True

    def _gone(self) -> bool:
        # A server started manually does not hold the lock, so its pid is checked as well.
        return self.pid() is None and is_unlocked(self.alive)

    def _make(self, binaries: Binaries) -> None:
        draft = Path(tempfile.mkdtemp(prefix="initdb-", dir=self.place))
        self.user.take(draft)
        how = ("-A", "trust", "--locale=C", "-E", "UTF8", "-U", NAME)
        initdb = self.user.run(binaries.program("initdb"), "-D", draft, *how, timeout=START_SECONDS)
        if initdb.returncode != 0:
            raise Unavailable(f"initdb could not create a database in {self.place}:\n{initdb.stdout}")
        draft.rename(self.data)
        _sync(self.place)

    def _boot(self, binaries: Binaries, settings: Mapping[str, str]) -> None:
        self._prepare_socket()
        self._remove_stale()
        logged = self.log.stat().st_size if self.log.exists() else 0
        alive = FileLock(self.alive)
        try:
            alive.seize()
            start = (binaries.program("pg_ctl"), "start", "-W", "-D", self.data, "-l", self.log)
            started = self.user.run(*start, "-o", self._options(settings), pass_fds=(alive.fd,))
        finally:
            alive.close()
        wait_until(lambda: self.ready(binaries) or is_unlocked(self.alive), START_SECONDS)
        if not self.ready(binaries):
            self._leave_socket()
            raise Unavailable(
                f"the server of {self.data} did not start ({started.stdout.strip()}). The end of {self.log}:\n"
                f"{self._tail(logged)}"
            )

    def _options(self, settings: Mapping[str, str]) -> str:
        chosen = DEFAULTS | FIXED | dict(settings) | {"unix_socket_directories": str(self.socket)}
        return " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in chosen.items())

    def _ensure_database(self, binaries: Binaries) -> None:
        psql = (binaries.program("psql"), "-XtA", "-h", self.socket, "-U", NAME, "-d", "postgres")
        variables = ("-v", "ON_ERROR_STOP=1", "-v", f"name={NAME}")
        created = self.user.run(*psql, *variables, stdin=CREATE_IF_MISSING)
        if created.returncode != 0:
            raise Unavailable(f"the server in {self.socket} has no usable database:\n{created.stdout}")

    def _prepare_socket(self) -> None:
        """Create the socket folder, which only the server's user can enter. Its parent is world-writable, so another
        user may have created it first: that is refused."""
        try:
            self.socket.mkdir(mode=0o700)
            self.user.take(self.socket)
        except FileExistsError:
            folder = self.socket.lstat()
            trusted = (self.user.uid, 0) if self.user.lent else (self.user.uid,)
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid not in trusted or folder.st_mode & 0o077:
                raise Unavailable(
                    f"{self.socket} must be a folder that only user {self.user.name} can enter, but another user owns "
                    "it or can enter it: find out who created it, remove it, and start again"
                ) from None
            if folder.st_uid != self.user.uid:
                self.user.take(self.socket)  # an earlier start died between mkdir and chown

    def _leave_socket(self) -> None:
        with suppress(OSError):  # not empty: a server is running, or was killed, and the next start cleans up
            self.socket.rmdir()

    def _remove_stale(self) -> None:
        """Remove files left by a killed postmaster or initdb. Postgres itself refuses to start if the pid in its file
        belongs to a zombie or to another process."""
        for draft in self.place.glob("initdb-*"):
            shutil.rmtree(draft, ignore_errors=True)
        for left in (self.data / "postmaster.pid", self.socket / f"{SOCKET_NAME}.lock"):
            pid = _first_number(left)
            if pid is None or not _works_in(pid, self.data):
                left.unlink(missing_ok=True)

    def _tail(self, offset: int) -> str:
        if not self.log.exists():
            return "(no log was written)"
        with self.log.open(errors="replace") as log:
            log.seek(max(offset, self.log.stat().st_size - 4000))
            return "\n".join(log.read().splitlines()[-20:])


def _first_number(path: Path) -> int | None:
    try:
        return abs(int(path.read_text().split("\n", 1)[0]))  # a single-user server writes it negative
    except (FileNotFoundError, ValueError):
        return None


def _works_in(pid: int, data: Path) -> bool:
    """Return whether a live process has the data as its working directory, as every postmaster does; a zombie has
    none."""
    process = Path("/proc") / str(pid)
    if not Path("/proc/self/cwd").exists():
        return "postgres" in ServerUser.of().run("/bin/ps", "-o", "command=", "-p", str(pid)).stdout
    with suppress(FileNotFoundError, ProcessLookupError):
        try:
            # The link may end in "(deleted)": a server whose data was removed still owns its socket.
            return os.readlink(process / "cwd").startswith(str(data))
        except PermissionError:  # root in a container may not read another user's cwd link, only its command line
            return str(data) in (process / "cmdline").read_text()
    return False


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
