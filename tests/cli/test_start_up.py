"""Commands import only what they need: `windlass --version` almost nothing, commands over HTTP no engine."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from windlass.cli.commands import COMMANDS, load, queues
from windlass.engine.quarantine import Kind

WEB = {"aiohttp", "fastapi", "pydantic", "starlette", "uvicorn"}
CLIENT = {"httpx", "windlass.client"}
ENGINE = {"asyncpg", "windlass.app", "windlass.engine.database", "windlass.store"}
PROGRAM = """
import sys
from windlass.cli.main import main
try:
    main()
finally:
    print("MODULES", *sys.modules)
"""


class Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a server that refuses every request."""
    with HTTPServer(("127.0.0.1", 0), Refusal) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def imported(*arguments_: str, **environment: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments_],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_the_version_is_printed_without_importing_the_command_line() -> None:
    modules = imported("--version")
    assert modules.isdisjoint(WEB | ENGINE | {"asyncio", "click", "httpx", "rich", "windlass.cli.commands"})


def test_the_help_lists_all_commands_without_importing_them() -> None:
    modules = imported("--help")
    assert modules.isdisjoint(WEB | ENGINE | {"asyncio", "httpx", "rich"})
    assert not [name for name in modules if name.startswith("windlass.cli.commands.")]


def test_a_command_over_http_imports_no_engine_and_no_web_framework(refusing: str) -> None:
    modules = imported("jobs", "list", "--url", refusing)
    assert "windlass.cli.backend.remote" in modules
    assert modules.isdisjoint(WEB | ENGINE | {"rich"})


def test_a_command_on_the_database_imports_no_http_client_and_no_web_framework(database: str) -> None:
    modules = imported("jobs", "list", WINDLASS_DATABASE_URL=database)
    assert "windlass.cli.backend.direct" in modules
    assert modules.isdisjoint(WEB | CLIENT | {"rich", "windlass.cron", "windlass.runtime.worker.worker"})


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_table_matches_the_help_of_each_command(name: str) -> None:
    assert (load(name).help or "").splitlines()[0] == COMMANDS[name][1]


def test_the_kinds_of_quarantined_items_match_the_engine() -> None:
    assert set(queues.KINDS) == set(Kind)
