"""Secrets on the command line, and in real processes: nothing that they print or store contains a value."""

import base64
import json
from pathlib import Path

import asyncpg
import pytest

from tests.canary import CANARY, everything, leaks
from tests.e2e.cli_process import Cli
from tests.effects.server import ClientConnection, Received, reply, serving
from windlass.effects.vault import MasterKey, new_key

WORKFLOW = """
name: canary
tasks:
  echo: {{url: "{url}/echo", headers: {{X-Key: "{{{{secrets.KEY}}}}"}}, body: {{t: "{{{{secrets.TOKEN}}}}"}}}}
  refused: {{url: "{url}/fail/{{{{secrets.TOKEN}}}}", body: "{{{{secrets.TOKEN}}}}", retries: 0, allow_failure: true}}
  prints: {{run: "echo {{{{secrets.TOKEN}}}}; echo {{{{secrets.TOKEN}}}} >&2; exit 3", allow_failure: true}}
"""


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    return Cli(tmp_path, database)


async def echo(request: Received, connection: ClientConnection) -> None:
    document = {"target": request.target, "headers": request.headers, "body": request.body.decode()}
    status = 500 if request.target.startswith("/fail") else 200
    await connection.send(reply(status, json.dumps(document).encode(), "Content-Type: application/json"))


async def test_secrets_are_set_listed_rotated_and_deleted(cli: Cli) -> None:
    made = await cli("secrets", "set", "TOKEN", "--json", stdin=f"{CANARY}\n".encode())
    assert (made.code, json.loads(made.out)["version"]) == (0, 1), made.err
    assert "set TOKEN, version 2" in (await cli("secrets", "set", "TOKEN", stdin=CANARY.encode())).out
    listed = await cli("secrets", "list")
    assert "TOKEN" in listed.out
    assert "1 secrets are sealed with a new data key" in (await cli("secrets", "rotate")).out
    assert "0 data keys and 0 server keys are sealed" in (await cli("secrets", "rotate", "--master")).out
    assert leaks(made.out + made.err + listed.out) == []
    assert "deleted TOKEN" in (await cli("secrets", "delete", "TOKEN")).out
    again = await cli("secrets", "delete", "TOKEN")
    assert (again.code, "no secret TOKEN" in again.err) == (1, True)


async def test_processes_exit_immediately_without_the_right_master_key(cli: Cli) -> None:
    refused = await cli("secrets", "set", "TOKEN", stdin=b"1234", WINDLASS_MASTER_KEY="")
    assert (refused.code, "WINDLASS_MASTER_KEY is not set" in refused.err) == (1, True)
    assert (await cli("secrets", "set", "TOKEN", stdin=b"1234")).code == 0
    wrong = base64.b64encode(new_key())
    for key, problem in (("", "WINDLASS_MASTER_KEY is not set"), (wrong.decode(), "is needed")):
        stopped = await cli("up", "--port", "0", WINDLASS_MASTER_KEY=key)
        assert (stopped.code, problem in stopped.err) == (1, True), stopped
    assert MasterKey.of(base64.b64decode(wrong)).id in stopped.err  # what it has, and not


async def test_a_secret_is_absent_from_the_output_of_all_processes_and_from_all_tables(cli: Cli, database: str) -> None:
    printed = []
    async with serving(echo) as server:
        (cli.folder / "canary.yaml").write_text(WORKFLOW.format(url=server.url))
        for name, value in (("TOKEN", CANARY), ("KEY", "c4n4ry-of-the-header")):
            assert (await cli("secrets", "set", name, stdin=value.encode())).code == 0
        options = ("--port", "0", "--json", "--allow-commands")
        logs = {"WINDLASS_HTTP_ALLOW": "127.0.0.1/32", "WINDLASS_LOG_LEVEL": "DEBUG"}
        async with cli.running("up", *options, **logs) as up:
            await up.line("{")
            assert (await cli("deploy", "canary.yaml")).code == 0
            started = await cli("run", "canary", "--wait", "--json")
            run = json.loads(started.out)["id"]
            printed += [started]
            for command in (
                ("explain", run),
                ("runs", "show", run, "--json"),
                ("runs", "logs", run),
                ("jobs", "list", "--json"),
            ):
                printed.append(await cli(*command))
            for job in json.loads((await cli("jobs", "list", "--json")).out)["jobs"]:
                printed.append(await cli("jobs", "show", job["id"], "--json"))
            up.signal()
            assert await up.end() == 0
        [sent] = [request for request in server.received if request.target == "/echo"]
        assert json.loads(sent.body) == {"t": CANARY}
    conn = await asyncpg.connect(database)
    stored = await everything(conn)
    await conn.close()
    output = "\n".join([*(each.out + each.err for each in printed), *up.lines])
    assert all(name in stored + output for name in ("[secret TOKEN]", "[secret KEY]"))
    for text in (output, stored):
        assert leaks(text) == []
        assert leaks(text, "c4n4ry-of-the-header") == []
