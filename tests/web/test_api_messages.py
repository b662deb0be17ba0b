"""Signals and events over real HTTP, with the client and on the command line."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.e2e.cli_process import Cli
from tests.engine.harness import letters, tick
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.client import AsyncClient
from windlass.core.orgs import Role
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.errors import Gone

WORKFLOW = {"name": "order", "tasks": {"paid": {"wait_for_event": {"name": "paid", "key": "42"}}}}
SIGNALLED = {"name": "order", "tasks": {"paid": {"wait_for_event": "paid"}}}


async def waiting(app: Windlass, workflow: Any = SIGNALLED) -> UUID:
    await app.deploy(workflow)
    return (await app.start("order")).id


async def test_a_published_event_ends_the_wait_of_a_task(app: Windlass) -> None:
    run = await waiting(app, WORKFLOW)
    async with served(app) as http:
        body = {"name": "paid", "key": "42", "payload": {"cents": 995}, "id": "p1"}
        assert data(await http.post("/events", json=body)) == {"again": False}
        assert data(await http.post("/events", json=body)) == {"again": True}
        await tick(await app.open())
        assert data(await http.get(f"/runs/{run}/output")) == {"cents": 995}


async def test_a_signal_ends_the_wait_of_a_task_of_its_run(app: Windlass) -> None:
    run = await waiting(app)
    async with served(app) as http:
        task = data(await http.get(f"/runs/{run}"))["tasks"]["paid"]
        assert (task["type"], task["status"], task["activity"]) == ("wait_for_event", "waiting", "waiting_for_message")
        assert task["awaited"] == {"name": "paid", "key": None, "count": 1, "received": 0}
        assert data(await http.post(f"/runs/{run}/signals/paid", json={"payload": [1]})) == {"again": False}
        await tick(await app.open())
        assert data(await http.get(f"/runs/{run}/output")) == [1]
        ended = problem(await http.post(f"/runs/{run}/signals/paid"), 410)
        assert ended["detail"] == f"run {run} has ended: a signal can only reach a live one"
        assert problem(await http.post(f"/runs/{uuid4()}/signals/paid"), 404)["what"] == "run"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"key": "42"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "paid", "key": 42}, "key"),
        ({"name": "paid", "id": ""}, "id"),
        ({"name": "paid", "payload": "x" * 1_048_577}, "payload"),
        ({"name": "paid", "keys": "42"}, "keys"),
    ],
)
async def test_a_bad_event_is_refused_with_the_name_of_the_field(app: Windlass, body: Any, field: str) -> None:
    async with served(app) as http:
        assert fields(await http.post("/events", json=body)) == [field]


async def test_the_client_sends_signals_and_events_and_raises_the_servers_errors(app: Windlass) -> None:
    run = await waiting(app)
    async with served(app) as http, AsyncClient(str(http.base_url).removesuffix("/")) as client:
        assert not (await client.messages.signal(str(run), "paid", {"by": "ann"}, id="s1")).again
        assert (await client.messages.signal(str(run), "paid", id="s1")).again
        assert not (await client.messages.publish("paid", key="42")).again
        await tick(await app.open())
        with pytest.raises(Gone, match="has ended"):
            await client.messages.signal(str(run), "paid")


async def test_a_key_of_another_org_cannot_reach_a_run_of_this_org(app: Windlass) -> None:
    db = await app.open()
    await orgs.create(db, "acme")
    theirs = {"x-api-key": str((await keys.create(db.tenant("acme"), role=Role.OPERATOR)).key)}
    run = await waiting(app, WORKFLOW)
    async with served(app, keys=("operators-key-of-32-characters!!",)) as http:
        assert problem(await http.post(f"/runs/{run}/signals/paid", headers=theirs), 404)["what"] == "run"
        event = {"name": "paid", "key": "42"}
        assert data(await http.post("/events", json=event, headers=theirs)) == {"again": False}
    await tick(db)
    assert await letters(db, run) == "a"


async def test_synchronous_code_sends_signals_and_events(app: Windlass) -> None:
    run = await waiting(app)
    assert not app.signal_sync(run, "paid", 1, id="s1").again
    assert app.signal_sync(run, "paid", 1, id="s1").again
    assert not app.publish_event_sync("paid", key="42").again
    app.close_sync()


async def test_the_command_line_sends_signals_and_events(app: Windlass, tmp_path: Path, database: str) -> None:
    cli = Cli(tmp_path, database)
    run = await waiting(app)
    sent = await cli("signal", str(run), "paid", "--payload", '{"by": "ann"}', "--id", "s1")
    assert (sent.code, sent.out) == (0, "sent\n"), sent.err
    again = await cli("signal", str(run), "paid", "--id", "s1", "--json")
    assert json.loads(again.out) == {"again": True}
    assert (await cli("publish", "paid", "--key", "42", "--payload", "995")).out == "sent\n"
    await tick(await app.open())
    ended = await cli("signal", str(run), "paid")
    assert (ended.code, "has ended" in ended.err) == (1, True)
