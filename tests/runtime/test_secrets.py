"""Secrets in real steps: they are sent to the service and the process, and appear nowhere else."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from tests.canary import CANARY, everything, leaks
from tests.effects.server import ClientConnection, Received, reply
from tests.keys import KEYS
from tests.runtime.conftest import Working
from tests.runtime.shop import app_for, deploy, ok, opened
from tests.web.serving import served
from windlass import Windlass
from windlass.core.events import webhook
from windlass.effects.vault import MasterKey, MasterKeys
from windlass.engine import hooks, secrets

Connection = Any
BEARER = {"Authorization": "Bearer {{secrets.TOKEN}}"}
NEW = MasterKey.of(bytes(32))


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:
        await secrets.set_(await made.open(), "TOKEN", CANARY)
        yield made


async def echo(request: Received, connection: ClientConnection) -> None:
    """Respond with everything in the request, in several encodings."""
    document = {
        "target": request.target,
        "headers": request.headers,
        "body": request.body.decode(),
        "base64": base64.b64encode(request.body).decode(),
        "parsed": json.loads(request.body) if request.body else None,
    }
    text = json.dumps(document).encode()
    status = 500 if "fail" in request.target else 200
    await connection.send(reply(status, text, "Content-Type: application/json", f"X-Echo: {quote(CANARY)}"))


# Steps


async def test_an_http_step_sends_the_value_and_stores_only_masks(
    app: Windlass, working: Working, conn: Connection
) -> None:
    async with opened() as shop:
        shop.answers["/x"] = echo
        await secrets.set_(await app.open(), "KEY", "key-1234")
        await deploy(
            app,
            a={"url": f"{shop.url}/x", "headers": {"X-Key": "k{{secrets.KEY}}"}, "body": {"t": "{{secrets.TOKEN}}"}},
            b={"needs": ["a"], "url": f"{shop.url}/y", "body": "{{tasks.a.body.parsed.t}}"},
        )
        async with working(app):
            result = await (await app.start("w")).wait(timeout=30)
        assert result.state == "completed"
        assert shop.asked("/x")[0].headers["x-key"] == "kkey-1234"
        assert shop.body("/x") == {"t": CANARY}
        assert shop.asked("/y")[0].body == b"[secret TOKEN]"  # later steps get what is stored
    response = json.loads(await conn.fetchval("select result from workflow.workflow_run where step = 0"))
    assert json.loads(response["body"])["headers"]["x-key"] == "k[secret KEY]"
    assert response["headers"]["x-echo"] == "[secret TOKEN]"
    assert response["status_code"] == 200


async def test_the_next_attempt_uses_the_new_value(app: Windlass, working: Working) -> None:
    db = await app.open()

    async def replaced(request: Received, connection: ClientConnection) -> None:
        await secrets.set_(db, "TOKEN", "the new value")
        await connection.send(ok(status=503))

    async with opened(x=[replaced, ok()]) as shop:
        quick = {"kind": "constant", "base": 0.001, "jitter": 0}
        await deploy(app, a={"url": f"{shop.url}/x", "body": "{{secrets.TOKEN}}", "retries": 1, "retry": quick})
        async with working(app):
            await (await app.start("w")).wait(timeout=30)
        assert [request.body.decode() for request in shop.requests] == [CANARY, "the new value"]


async def test_a_deleted_secret_fails_the_step_without_a_request(
    app: Windlass, working: Working, conn: Connection
) -> None:
    async with opened() as shop:
        await deploy(app, a={"url": f"{shop.url}/x", "headers": {"X": "{{secrets.TOKEN}}"}, "retries": 5})
        run = await app.start("w")
        await secrets.delete(await app.open(), "TOKEN")
        async with working(app):
            assert (await run.wait(timeout=30)).state == "failed"
        assert shop.requests == []
    assert "secret TOKEN does not exist any more" in await everything(conn)


async def test_a_secret_that_is_invalid_as_a_header_is_refused_and_absent_from_the_error(
    app: Windlass, working: Working, conn: Connection
) -> None:
    await secrets.set_(await app.open(), "TOKEN", "c4n4ry\nc4n4ry")
    async with opened() as shop:
        await deploy(app, a={"url": f"{shop.url}/x", "headers": {"X": "{{secrets.TOKEN}}"}})
        async with working(app):
            assert (await (await app.start("w")).wait(timeout=30)).state == "failed"
        assert shop.requests == []
    stored = await everything(conn)
    assert "the header X must be a string of one line" in stored
    assert "c4n4ry" not in stored


async def test_a_callback_is_signed_with_a_secret_of_the_org(app: Windlass, working: Working) -> None:
    async with served(app) as http:
        await secrets.set_(await app.open(), "TOKEN", "a-secret-of-sixteen")
        task = {"wait_for_webhook": {"secret": "{{secrets.TOKEN}}"}}
        await app.deploy({"name": "w", "tasks": {"a": task}})
        run = await app.start("w")
        token = (await hooks.address(await app.open(), run.id, "a")).rpartition("/")[2]
        now = str(int((await (await app.open()).now()).timestamp()))
        signed = {"webhook-id": "1", "webhook-timestamp": now}
        for secret, status in (("another-secret-of-16", 401), ("a-secret-of-sixteen", 200)):
            signed["webhook-signature"] = f"v1,{webhook.signature(secret, '1', now, b'{}')}"
            url = http.base_url.copy_with(path=f"/wh/{token}")
            assert (await http.post(url, content=b"{}", headers=signed)).status_code // 100 == status // 100
        async with working(app):
            assert (await run.wait(timeout=30)).state == "completed"


# The canary


async def test_a_secret_is_absent_from_the_database_the_api_and_the_logs(
    app: Windlass, working: Working, conn: Connection, caplog: pytest.LogCaptureFixture, database: str
) -> None:
    caplog.set_level(logging.DEBUG)
    script = 'printf "%s\\n" {{secrets.TOKEN}} {{secrets.TOKEN}} >&2; '
    async with opened() as shop, served(app) as http:
        shop.answers |= {f"/{name}": echo for name in ("echo", "fail")}
        url = f"{shop.url}/echo"
        everywhere = {
            "url": f"{url}",
            "headers": {"X-Quoted": "{{secrets.HEADER}}"},
            "query": {"q": "{{secrets.TOKEN}}"},
            "body": ["{{secrets.TOKEN}}", "a {{secrets.TOKEN}} b"],
        }
        shop.answers[f"/echo?q={quote(CANARY, safe='')}"] = echo
        await secrets.set_(await app.open(), "HEADER", quote(CANARY, safe=""))
        await deploy(
            app,
            echo=everywhere,
            refused={"url": f"{shop.url}/fail", "body": "{{secrets.TOKEN}}", "retries": 0, "allow_failure": True},
            unreachable={"url": "http://127.0.0.1:1/{{secrets.TOKEN}}", "retries": 0, "allow_failure": True},
            prints={"run": script + 'echo "{\\"out\\": \\"$(printf %s {{secrets.TOKEN}} | base64 -w0)\\"}"'},
            fails={"run": script + "exit 3", "allow_failure": True},
            writes={"run": 'printf %s "{{secrets.TOKEN}}" > "$WINDLASS_OUTPUT"', "allow_failure": True},
        )
        run = await app.start("w")
        async with working(app, allow_commands=True):
            result = await run.wait(timeout=60)
        assert result.steps["echo"] == result.steps["prints"] == "succeeded", result
        assert any(CANARY.encode() in request.body for request in shop.requests)
        answers = await _all_answers(http, run.id)
    stored = await everything(conn)
    assert "[secret TOKEN]" in stored
    assert "[secret TOKEN]" in answers
    assert "[secret TOKEN]" in caplog.text  # the failing command's last line is part of its error
    assert leaks(stored) == []
    assert leaks(answers) == []
    assert leaks(caplog.text) == []


async def _all_answers(http: Any, run: UUID) -> str:
    """Return the API responses about a run and its jobs."""
    answers = []
    paths = ["/secrets", "/workflows/w", "/workflows/w/versions/1", "/runs", f"/runs/{run}", f"/runs/{run}/explain"]
    paths += [f"/runs/{run}/tasks", f"/runs/{run}/events", f"/runs/{run}/logs", "/jobs", "/dead-letters", "/stats"]
    for path in paths:
        answers.append((await http.get(path)).text)
    for job in (await http.get("/jobs", params={"limit": 100})).json()["data"]:
        for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/events", f"/jobs/{job['id']}/logs"):
            answers.append((await http.get(path)).text)
    return "\n".join(answers)


# Rotation under load


async def test_keys_can_be_rotated_while_steps_run(database: str, working: Working) -> None:
    both = MasterKeys((NEW, *KEYS))
    async with opened() as shop, app_for(database) as before, app_for(database, master_keys=both) as app:
        db = await app.open()
        await secrets.set_(await before.open(), "TOKEN", CANARY)
        await deploy(app, a={"url": f"{shop.url}/x", "body": "{{secrets.TOKEN}}", "parallel": 60})
        runs = [await app.start("w") for _ in range(3)]
        async with working(app, concurrency=4):
            waiting = [asyncio.create_task(run.wait(timeout=60)) for run in runs]
            while not all(task.done() for task in waiting):
                await secrets.rotate(db)
                await secrets.rotate_master(db)
            results = [await task for task in waiting]
        assert [result.state for result in results] == ["completed"] * 3
        assert {request.body.decode() for request in shop.requests} == {CANARY}
        assert len(shop.requests) == 180
    async with app_for(database, master_keys=MasterKeys((NEW,))) as after:
        await (await after.open()).check_master_keys()
        assert await secrets.values(await after.open(), [("default", "TOKEN")]) == {("default", "TOKEN"): CANARY}
