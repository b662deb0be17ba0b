"""The database as an operator sees it: where it is, what state it is in, and the programs that come with it."""

import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from windlass.engine.unit import Unit
from windlass.errors import Invalid, Unavailable
from windlass.store import doctor, embedded, migrate, server
from windlass.store.embedded import EmbeddedOptions
from windlass.store.pool import Connection, DatabaseOptions, open_connection, translated


@dataclass(frozen=True, kw_only=True)
class Place:
    """A URL somebody gave, or the embedded server of a home."""

    url: str | None
    home: Path
    pg_bin: Path | None = None

    @property
    def embedded(self) -> EmbeddedOptions:
        return EmbeddedOptions(home=self.home, pg_bin=self.pg_bin)


@dataclass(frozen=True, kw_only=True)
class Survey:
    version: str
    size: int
    applied: list[str]
    pending: list[str]


async def survey(options: DatabaseOptions) -> Survey:
    """Look at a database without changing it."""
    conn = await open_connection(options)
    try:
        with translated():
            server = await doctor.server(conn)
            applied, pending = await _migrations(conn)
    finally:
        await conn.close()
    return Survey(version=server.name, size=server.size, applied=applied, pending=pending)


async def pending(unit: Unit) -> list[str]:
    """Migrations this program has and the database lacks."""
    async with unit.begin() as conn:
        return (await _migrations(conn))[1]


async def check_writable(unit: Unit) -> None:
    """Raise `Unavailable` if the database refuses to write, as far as is known without writing."""
    if unit.pool.outage.reason is not None:
        raise Unavailable(unit.pool.outage.reason)
    async with unit.once() as conn:
        if await server.read_only(conn):
            raise Unavailable("the database refuses to write: it is read-only")


def status(place: Place) -> dict[str, Any]:
    """The embedded server from outside, running or not; nothing is started."""
    return asdict(embedded.status(place.embedded))


def stop(place: Place) -> bool:
    """Stop the embedded server; False when it was not running."""
    if place.url is not None:
        raise Invalid("WINDLASS_DATABASE_URL names a server of your own: stop it with its own tools")
    return embedded.stop(place.embedded)


def program(place: Place, name: str) -> Path:
    """psql, pg_dump and their like: the embedded server's own; for a foreign server the newest there is.

    A dump program refuses a server newer than itself, but not an older one.
    """
    on_path = shutil.which(name)
    try:
        data = embedded.status(place.embedded).data if place.url is None else place.home / "none"
        binaries = embedded.find_binaries(place.pg_bin, data)
    except Unavailable:
        binaries = None
    if binaries is not None and binaries.program(name).exists():
        chosen = place.url is None or place.pg_bin is not None
        if chosen or on_path is None or _major(on_path) < binaries.major:
            return binaries.program(name)
    if on_path is None:
        raise Unavailable(
            f"{name} was not found: install the Postgres client programs (for example postgresql-client), "
            "or name a folder that has them with WINDLASS_PG_BIN"
        )
    return Path(on_path)


def without_password(url: str) -> tuple[str, str | None]:
    """A URL that may be shown or stand in a list of processes, and the password taken out of it."""
    parts = urlsplit(url)
    if parts.password is None:
        return url, None
    login, _, address = parts.netloc.rpartition("@")
    user = login.split(":", 1)[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{address}")), unquote(parts.password)


async def _migrations(conn: Connection) -> tuple[list[str], list[str]]:
    """(applied, pending), by name; an applied one this program does not know came from a newer version."""
    known = {m.version: f"{m.version:04} {m.name}" for m in migrate.migrations()}
    applied = await migrate.applied(conn)
    return [known.get(version, f"{version:04} (from a newer version)") for version in applied], [
        name for version, name in known.items() if version not in applied
    ]


def _major(program_: str) -> int:
    told = subprocess.run([program_, "--version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - a program we looked up
    version = re.search(r"\(PostgreSQL\) (\d+)", told.stdout)
    return int(version[1]) if version else 0
