"""The embedded Postgres server, used if no database URL is configured, and shared by all processes of one home.

Each process holds a shared flock (`postgres.share`) until it closes or ends. The process that can lock it exclusively
when it closes is the last one and stops the server. Starting and stopping happen under a second, exclusive lock
(`postgres.start`). The kernel releases the share of a killed process; the server that it leaves running is used by the
next start and stopped by the next last close.

`home` contains `postgres/data`, `postgres/server.log` and the two lock files. If root starts the server in a home that
the server's user cannot enter (for example below /root), `home/postgres` is a symbolic link to a folder in
/var/lib/windlass; removing the home then leaves the data there.

Failure policy: if the state of the data is in doubt, raise and do not touch it.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from windlass.embedded.binaries import Binaries, ServerUser, data_version, find_binaries
from windlass.embedded.cluster import (
    FIXED,
    FLEETING,
    START_SECONDS,
    STOP_SECONDS,
    Cluster,
    FileLock,
    is_unlocked,
    wait_until,
)
from windlass.errors import Invalid, Unavailable

__all__ = ["Embedded", "EmbeddedOptions", "Status", "find_binaries", "status", "stop"]

ELSEWHERE = Path("/var/lib/windlass")


@dataclass(frozen=True, kw_only=True)
class EmbeddedOptions:
    home: Path
    pg_bin: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # for the start; no effect on a server that already runs
    durable: bool = True  # False, for tests: no fsync

    def __post_init__(self) -> None:
        refused = sorted(name for name in self.settings if name.lower() in {*FIXED, "unix_socket_directories"})
        if refused:
            raise Invalid(
                f"these settings of the embedded server cannot be changed: {', '.join(refused)}", field="settings"
            )


@dataclass(frozen=True, kw_only=True)
class Status:
    running: bool  # it accepts connections
    pid: int | None
    version: str | None  # the major version that created the data; None before the first start
    data: Path
    socket: Path
    log: Path
    url: str
    held: bool | None  # whether a live process holds a share; None while a process is starting or stopping the server


class Embedded:
    """A running embedded server, in which this process holds a share."""

    def __init__(
        self,
        home: Path,
        cluster: Cluster,
        binaries: Binaries,
        share: FileLock,
        settings: Mapping[str, str],
    ) -> None:
        self.url = cluster.url
        self._home, self._cluster, self._binaries, self._share = home, cluster, binaries, share
        self._settings = settings
        self._died = False

    @classmethod
    def start(cls, options: EmbeddedOptions) -> Self:
        """Use the running server of this home, or create and start it. Blocks for about a second the first time."""
        with _unavailable_on_os_error(options.home):
            home = options.home.absolute()
            home.mkdir(parents=True, exist_ok=True)
            with _starting(home):
                cluster = _find_or_create(home)
                binaries = find_binaries(options.pg_bin, cluster.data).readable_by(cluster.user)
                settings = dict(options.settings) | ({} if options.durable else FLEETING)
                cluster.ensure_running(binaries, settings)
                share = FileLock(home / "postgres.share")
                share.share()
            return cls(home, cluster, binaries, share, settings)

    def revive(self) -> bool:
        """Restart the server if it died. Return False if it runs, was stopped deliberately, or was already restarted by
        another process.

        Raises if it died and does not start: the next call tries again.
        """
        if self._share.closed:
            return False
        with _unavailable_on_os_error(self._home), _starting(self._home):
            self._died = self._died or self._cluster.died()
            if not self._died or self._cluster.ready(self._binaries):
                self._died = False
                return False
            self._cluster.ensure_running(self._binaries, self._settings)
            self._died = False
            return True

    def close(self) -> None:
        """Release the share; the last holder stops the server and waits for its end. Closing twice is harmless."""
        if self._share.closed:
            return
        with _unavailable_on_os_error(self._home), _starting(self._home):
            last = self._share.seize()
            self._share.close()
            if last:
                self._cluster.halt(self._binaries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def other_user(options: EmbeddedOptions) -> str | None:
    """Return the name of the user that the server runs as, if this process is root; otherwise None: it is this user."""
    with _unavailable_on_os_error(options.home):
        user = _cluster(options.home.absolute()).user
        return user.name if user.lent else None


def status(options: EmbeddedOptions) -> Status:
    """Return the status of the server without changing anything."""
    with _unavailable_on_os_error(options.home):
        home = options.home.absolute()
        cluster = _cluster(home)
        exists = cluster.data.exists()
        return Status(
            running=exists and cluster.ready(find_binaries(options.pg_bin, cluster.data).readable_by(cluster.user)),
            pid=cluster.pid(),
            version=data_version(cluster.data),
            data=cluster.data,
            socket=cluster.socket,
            log=cluster.log,
            url=cluster.url,
            held=_held(home),
        )


def stop(options: EmbeddedOptions) -> bool:
    """Stop the server even if other processes hold shares; return whether it was running."""
    with _unavailable_on_os_error(options.home):
        home = options.home.absolute()
        if not home.exists():
            return False
        with _starting(home):
            cluster = _cluster(home)
            if cluster.pid() is None:
                return False
            return cluster.halt(find_binaries(options.pg_bin, cluster.data).readable_by(cluster.user))


@contextmanager
def _unavailable_on_os_error(home: Path) -> Iterator[None]:
    if sys.platform == "win32":
        raise Unavailable("the embedded Postgres requires Unix: set WINDLASS_DATABASE_URL to your own database")
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the embedded Postgres in {home} cannot be used: {error}") from error


@contextmanager
def _starting(home: Path) -> Iterator[None]:
    lock = FileLock(home / "postgres.start")
    try:
        if not wait_until(lock.seize, START_SECONDS + STOP_SECONDS):
            raise Unavailable(f"another process has been starting or stopping the server in {home} for minutes")
        yield
    finally:
        lock.close()


def _cluster(home: Path) -> Cluster:
    place = home / "postgres"
    return Cluster(place=place.resolve(), user=ServerUser.of(place, home))


def _find_or_create(home: Path) -> Cluster:
    """Find the server's folder or create it: in the home, or in ELSEWHERE if the server's user cannot enter that."""
    cluster, link = _cluster(home), home / "postgres"
    if link.is_symlink() and not link.exists():
        raise Unavailable(
            f"the data of {home} was in {cluster.place}, which does not exist: restore it, or remove {link}"
        )
    if link.exists() and not cluster.user.can_enter(cluster.place):
        raise Unavailable(f"user {cluster.user.name}, who must run the server, cannot enter {cluster.place}")
    if not link.exists():
        _make_place(link, cluster.user)
    return _cluster(home)


def _make_place(link: Path, user: ServerUser) -> None:
    if user.can_enter(link.parent):
        link.mkdir(mode=0o700)
        user.take(link)
        return
    if not ELSEWHERE.exists():
        ELSEWHERE.mkdir(parents=True)
        ELSEWHERE.chmod(0o755)
    place = Path(tempfile.mkdtemp(prefix=f"{link.parent.name.strip('.')}-", dir=ELSEWHERE))
    user.take(place)
    link.symlink_to(place)


def _held(home: Path) -> bool | None:
    if not (home / "postgres.share").exists():
        return False
    starting = FileLock(home / "postgres.start")
    try:
        # Under the start lock: this check holds the lock for a moment, and a closing process would see another holder.
        return not is_unlocked(home / "postgres.share") if starting.seize() else None
    finally:
        starting.close()
