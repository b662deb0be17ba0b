"""The embedded default: a real Postgres for people who gave no database URL, shared by all processes of one home.

A process holds a share (a shared flock) for as long as it lives; whoever can have it alone on closing is the last and
stops the server. Starting and stopping happen under a second, exclusive lock. A killed process loses its share by
itself; the server it leaves behind is joined by the next start and stopped by the next last close.

In `home`: `postgres/data`, `postgres/server.log`, and the locks `postgres.share` and `postgres.start`. If root starts
it in a home the server's user cannot enter (say below /root), `home/postgres` is a symbolic link to a folder of its
own in /var/lib/windlass; removing the home then leaves the data there. The failure policy: never touch data in doubt.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from windlass.embedded import lock_file
from windlass.embedded.binaries import Binaries, data_version, find_binaries
from windlass.embedded.cluster import FIXED, FLEETING, START_SECONDS, STOP_SECONDS, Cluster
from windlass.embedded.server_user import ServerUser
from windlass.errors import Invalid, Unavailable

__all__ = ["Embedded", "EmbeddedOptions", "Status", "find_binaries", "status", "stop"]

ELSEWHERE = Path("/var/lib/windlass")


@dataclass(frozen=True, kw_only=True)
class EmbeddedOptions:
    home: Path
    pg_bin: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Postgres for the start; they have no effect on a server that already runs."""
    durable: bool = True  # False, for tests: nothing is written through to the disk

    def __post_init__(self) -> None:
        refused = sorted(name for name in self.settings if name.lower() in {*FIXED, "unix_socket_directories"})
        if refused:
            raise Invalid(
                f"These settings of the embedded server cannot be changed: {', '.join(refused)}", field="settings"
            )


@dataclass(frozen=True, kw_only=True)
class Status:
    running: bool
    """It accepts connections."""
    pid: int | None
    version: str | None
    """The major version that made the data; None before the first start."""
    data: Path
    socket: Path
    log: Path
    url: str
    held: bool | None
    """Whether a living process holds a share; None while one is starting or stopping the server."""


class Embedded:
    """A running embedded server this process holds a share in."""

    def __init__(
        self,
        home: Path,
        cluster: Cluster,
        binaries: Binaries,
        share: lock_file.FileLock,
        settings: Mapping[str, str],
    ) -> None:
        self.url = cluster.url
        self._home, self._cluster, self._binaries, self._share = home, cluster, binaries, share
        self._settings = settings
        self._died = False

    @classmethod
    def start(cls, options: EmbeddedOptions) -> Self:
        """Join the server of this home, or make and start it. Blocks for about a second the first time."""
        with _plainly(options.home):
            home = options.home.absolute()
            home.mkdir(parents=True, exist_ok=True)
            with _starting(home):
                cluster = _settle_in(home)
                binaries = find_binaries(options.pg_bin, cluster.data).readable_by(cluster.user)
                settings = dict(options.settings) | ({} if options.durable else FLEETING)
                cluster.ensure_running(binaries, settings)
                share = lock_file.FileLock(home / "postgres.share")
                share.share()
            return cls(home, cluster, binaries, share, settings)

    def revive(self) -> bool:
        """Start the server again if it died; False if it runs, was stopped on purpose, or another process was first.

        Raises if it died and does not start: a second call tries again.
        """
        if self._share.closed:
            return False
        with _plainly(self._home), _starting(self._home):
            self._died = self._died or self._cluster.died()
            if not self._died or self._cluster.ready(self._binaries):
                self._died = False
                return False
            self._cluster.ensure_running(self._binaries, self._settings)
            self._died = False
            return True

    def close(self) -> None:
        """Give up the share; the last holder stops the server and waits for it. Closing twice is harmless."""
        if self._share.closed:
            return
        with _plainly(self._home), _starting(self._home):
            last = self._share.seize()
            self._share.close()
            if last:
                self._cluster.halt(self._binaries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def other_user(options: EmbeddedOptions) -> str | None:
    """The user that the server runs as, if we are root and it is another; None: it is us."""
    with _plainly(options.home):
        user = _cluster(options.home.absolute()).user
        return user.name if user.lent else None


def status(options: EmbeddedOptions) -> Status:
    """What can be known from outside, without making or changing anything."""
    with _plainly(options.home):
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
    """Stop the server even if others hold shares in it; whether there was one to stop."""
    with _plainly(options.home):
        home = options.home.absolute()
        if not home.exists():
            return False
        with _starting(home):
            cluster = _cluster(home)
            if cluster.pid() is None:
                return False
            return cluster.halt(find_binaries(options.pg_bin, cluster.data).readable_by(cluster.user))


@contextmanager
def _plainly(home: Path) -> Iterator[None]:
    if sys.platform == "win32":
        raise Unavailable("The embedded Postgres needs Unix. Set WINDLASS_DATABASE_URL to a database of your own.")
    try:
        yield
    except OSError as error:
        raise Unavailable(f"The embedded Postgres in {home} cannot be used: {error}") from error


@contextmanager
def _starting(home: Path) -> Iterator[None]:
    lock = lock_file.FileLock(home / "postgres.start")
    try:
        if not lock_file.wait_until(lock.seize, START_SECONDS + STOP_SECONDS):
            raise Unavailable(f"Another process has been starting or stopping the server in {home} for minutes.")
        yield
    finally:
        lock.close()


def _cluster(home: Path) -> Cluster:
    place = home / "postgres"
    return Cluster(place=place.resolve(), user=ServerUser.of(place, home))


def _settle_in(home: Path) -> Cluster:
    """Find the folder of the server, or make it: in the home, or elsewhere if its user cannot come there."""
    cluster, link = _cluster(home), home / "postgres"
    if link.is_symlink() and not link.exists():
        raise Unavailable(
            f"The data of {home} lay in {cluster.place}, which is gone. Bring it back, or remove {link} to begin anew."
        )
    if link.exists() and not cluster.user.can_enter(cluster.place):
        raise Unavailable(f"User {cluster.user.name}, who must run the server, cannot enter {cluster.place}.")
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
    starting = lock_file.FileLock(home / "postgres.start")
    try:
        # Asked outside the start lock, the question itself could look like a holder to a process that is closing.
        return not lock_file.free(home / "postgres.share") if starting.seize() else None
    finally:
        starting.close()
