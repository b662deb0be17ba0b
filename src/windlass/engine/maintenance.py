"""Database administration: its location and state, the embedded server, and the Postgres client programs."""

import asyncio
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from windlass.embedded import server as embedded
from windlass.embedded.server import EmbeddedOptions
from windlass.engine.database import Database
from windlass.errors import Invalid, Unavailable
from windlass.store import doctor
from windlass.store.postgres import migrate
from windlass.store.postgres.pool import (
    Connection,
    DatabaseOptions,
    limit_lock_wait,
    open_connection,
    read_only,
    translated,
)

RESET_TRIES = 5
RESET_LOCK_MILLISECONDS = 2000
SECRET_PARAMETERS = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, kw_only=True)
class Place:
    """The location of the database: a configured URL, or the embedded server of a home."""

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
    """Return the state of a database without changing it."""
    conn = await open_connection(options)
    try:
        with translated():
            server = await doctor.server(conn)
            applied, pending = await _migrations(conn)
    finally:
        await conn.close()
    return Survey(version=server.name, size=server.size, applied=applied, pending=pending)


async def pending(db: Database) -> list[str]:
    """Return the migrations that this program has and the database lacks."""
    async with db.begin() as conn:
        return (await _migrations(conn))[1]


async def check_writable(db: Database) -> None:
    """Raise `Unavailable` if the database is in an outage or read-only. No write is attempted."""
    if db.pool.outage.reason is not None:
        raise Unavailable(db.pool.outage.reason)
    async with db.once() as conn:
        if await read_only(conn):
            raise Unavailable("the database refuses to write: it is read-only")


def status(place: Place) -> dict[str, Any]:
    """Return the status of the embedded server without starting it."""
    return asdict(embedded.status(place.embedded))


def stop(place: Place) -> bool:
    """Stop the embedded server; return False if it was not running."""
    if place.url is not None:
        raise Invalid("WINDLASS_DATABASE_URL names a server of your own: stop it with its own tools")
    return embedded.stop(place.embedded)


def program(place: Place, name: str) -> Path:
    """Return the path of a client program such as psql or pg_dump: the embedded server's, the one in `pg_bin`, or the
    newest.

    The newest, because pg_dump refuses a server that is newer than itself, but not an older one.
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
            "or set WINDLASS_PG_BIN to a folder that has them"
        )
    return Path(on_path)


def without_password(url: str) -> tuple[str, str | None]:
    """Return a URL that is safe to show or pass on a command line, and the password that was in it.

    A password can be before the host or among the parameters; that of a client key (`sslpassword`) is removed, too.
    """
    parts = urlsplit(url)
    login, at, address = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    parameters, secrets = [], {}
    for item in filter(None, parts.query.split("&")):
        name, _, value = item.partition("=")
        if unquote(name).lower() in SECRET_PARAMETERS:
            secrets[unquote(name).lower()] = value
        else:
            parameters.append(item)
    password = password or secrets.get("password", "")
    base = f"{parts.scheme}://{user}{at}{address}{parts.path}"  # urlunsplit would drop the // before an empty host
    return "?".join([base, "&".join(parameters)]) if parameters else base, unquote(password) if password else None


def check_commands(place: Place) -> None:
    """Refuse to execute commands as root for an embedded server that runs as another user.

    That user owns the data, and so decides what root would execute.
    """
    user = embedded.other_user(place.embedded) if place.url is None else None
    if user is not None:
        raise Invalid(
            f"root must not execute commands from the embedded server: it runs as user {user}, who could then run any "
            "program as root; start Windlass as an ordinary user, or set WINDLASS_DATABASE_URL to a server of your own",
            field="allow_commands",
        )


async def reset(db: Database) -> None:
    """Empty the database, for test suites; retry, because the loops of other processes may hold locks for a moment."""
    for left in reversed(range(RESET_TRIES)):
        try:
            async with db.begin() as conn:
                await limit_lock_wait(conn, RESET_LOCK_MILLISECONDS)
                await migrate.empty(conn)
            return
        except Unavailable:
            if not left:
                raise
            await asyncio.sleep(0.05)


async def _migrations(conn: Connection) -> tuple[list[str], list[str]]:
    """Return (applied, pending), by name; an applied migration unknown to this program came from a newer version."""
    known = {m.version: f"{m.version:04} {m.name}" for m in migrate.migrations()}
    applied = await migrate.applied(conn)
    return [known.get(version, f"{version:04} (from a newer version)") for version in applied], [
        name for version, name in known.items() if version not in applied
    ]


def _major(program_: str) -> int:
    result = subprocess.run([program_, "--version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - a program we looked up
    version = re.search(r"\(PostgreSQL\) (\d+)", result.stdout)
    return int(version[1]) if version else 0
