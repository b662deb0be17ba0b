"""Servers for chaos tests: a Postgres that can be stopped, killed, frozen and started, and a PgBouncer."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from tests.chaos.harness import eventually
from windlass.embedded import server as embedded_server
from windlass.embedded.server import Embedded, EmbeddedOptions

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
PGBOUNCER_INI = """
[databases]
{name} = host={host} port={port} dbname={name} user={user}
[pgbouncer]
pool_mode = transaction
auth_type = any
unix_socket_dir = {folder}
listen_port = 6432
max_client_conn = 200
default_pool_size = {size}
"""


class Server:
    """A Postgres for one test. The calls block: use `asyncio.to_thread`."""

    def __init__(self, home: Path) -> None:
        self._options = EmbeddedOptions(home=home, settings={"max_connections": "200"})
        self._shares: list[Embedded] = []
        self.start()

    @property
    def url(self) -> str:
        return self._shares[0].url

    def start(self) -> None:
        self._shares.append(Embedded.start(self._options))

    def stop(self) -> None:
        """Stop the server in fast mode: clients are disconnected."""
        assert embedded_server.stop(self._options)

    def crash(self) -> None:
        pid = embedded_server.status(self._options).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend all processes of the server, like a paused virtual machine: connections stay, nothing responds."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        pid = embedded_server.status(self._options).pid
        assert pid is not None
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
        for process in (pid, *map(int, children.stdout.split())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def close(self) -> None:
        for share in self._shares:
            share.close()


@contextmanager
def own_server() -> Iterator[Server]:
    with _open_folder("windlass-chaos-") as home:
        server = Server(home)
        try:
            yield server
        finally:
            server.close()


@asynccontextmanager
async def pgbouncer(url: str, *, size: int = 4) -> AsyncIterator[str]:
    """Run a pooler in transaction mode for the database of `url`, with fewer connections than its clients need."""
    assert PGBOUNCER is not None, "PgBouncer is not installed: apt-get install pgbouncer"
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    host, name = query.get("host") or parts.hostname or "localhost", parts.path.lstrip("/")
    with _open_folder("windlass-pool-") as folder:
        text = PGBOUNCER_INI.format(
            name=name, host=host, port=parts.port or 5432, user=parts.username, folder=folder, size=size
        )
        (folder / "pgbouncer.ini").write_text(text)
        process = subprocess.Popen([PGBOUNCER, *_as_user(host, folder), str(folder / "pgbouncer.ini")])
        pooled = f"postgresql://{parts.username}@/{name}?host={folder}&port=6432"
        try:
            await eventually(lambda: _answers(pooled), "PgBouncer answered")
            yield pooled
        finally:
            process.kill()
            process.wait()


def _as_user(host: str, folder: Path) -> list[str]:
    """Return options to run PgBouncer as the owner of the server's socket folder: it refuses to run as root."""
    if os.geteuid() != 0:
        return []
    owner = os.stat(host).st_uid if host.startswith("/") else pwd.getpwnam("nobody").pw_uid
    os.chown(folder, owner, -1)
    return ["-q", "-u", pwd.getpwuid(owner).pw_name]


async def _answers(url: str) -> bool:
    try:
        conn = await asyncpg.connect(url, statement_cache_size=0)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return False
    await conn.close()
    return True


@contextmanager
def _open_folder(prefix: str) -> Iterator[Path]:
    """Yield a temporary folder whose path is short enough for sockets and which other users can enter."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
