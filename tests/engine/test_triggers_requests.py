"""The webhook address of a workflow: a token that is shown once, and requests that start runs."""

import json
import re
from dataclasses import replace

import pytest

from tests.engine.schedule_harness import Client, another, called, publish, runs_of, timed
from windlass.core.events.webhook import BODY_LIMIT
from windlass.core.workflows.workflow import WebhookTrigger
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.errors import Conflict, Invalid, NotFound, Refused
from windlass.testing import Clock

JSON = {"Content-Type": "application/json", "X-From": "shop", "Authorization": "Bearer secret", "Cookie": "a=b"}


async def token_of(db: Tenant, name: str = "incoming") -> str:
    token = (await publish(db, called(name))).token
    assert token is not None
    return token


async def test_a_token_is_created_by_the_first_publish_and_shown_once(db: Tenant, conn: Client) -> None:
    first = await publish(db, called())
    assert first.token is not None
    assert re.fullmatch(r"[\w-]{43}", first.token)  # 256 bits
    again = await publish(db, called())
    assert again == replace(first, created=False, changed=False, token=None)
    changed = await publish(db, replace(called(), description="another"))
    assert (changed.changed, changed.token) == (True, None)
    [stored] = await conn.fetch("select * from windlass.workflow")
    assert first.token not in str(dict(stored))
    assert await workflow_schedules.receive(db, first.token, b"{}", JSON | {"content-type": "application/json"})
    assert await workflow_schedules.address(db, first.token) == f"http://127.0.0.1:8080/in/{first.token}"


async def test_body_and_headers_of_a_request_become_the_trigger(db: Tenant, conn: Client) -> None:
    id_ = await workflow_schedules.receive(db, await token_of(db), b'{"order": 7}', JSON)
    row = await runs.get(db, id_)
    assert (row.workflow, row.input) == ("incoming", {"order": 7})
    headers = await conn.fetchval("select trigger_headers from windlass.run")
    assert json.loads(headers) == {"content-type": "application/json", "x-from": "shop"}
    payload = await conn.fetchval("select payload from workflow.workflow_run where run_id = $1", id_)
    assert json.loads(payload) == {"got": {"order": 7}, "from": "shop"}
    assert await conn.fetchval("select actor from windlass.event where word = 'running'") == "webhook"


async def test_a_body_that_is_not_json_is_a_string_and_an_empty_body_is_null(db: Tenant) -> None:
    token = await token_of(db)
    sent = [(b"hello", {"content-type": "text/plain", "x-from": "a"}), (b"{}", {"x-from": "a"}), (b"", {"x-from": "a"})]
    found = [await runs.get(db, await workflow_schedules.receive(db, token, body, headers)) for body, headers in sent]
    assert [row.input for row in found] == ["hello", "{}", None]


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b"x" * (BODY_LIMIT + 1), b'"\\u0000"', b"[" * 65 + b"]" * 65], ids=lambda body: body[:4]
)
async def test_a_body_that_is_invalid_or_too_large_is_refused(db: Tenant, conn: Client, body: bytes) -> None:
    token = await token_of(db)
    with pytest.raises(Invalid):
        await workflow_schedules.receive(db, token, body, JSON)
    assert await runs_of(conn, "incoming") == []


@pytest.mark.parametrize(
    "token", ["", "x", "x" * 43, "x" * 100_000, "\udcff", "\x00"], ids=lambda token: ascii(token[:9])
)
async def test_an_unknown_token_is_not_found(db: Tenant, token: str) -> None:
    await token_of(db)
    with pytest.raises(NotFound, match=r"^no workflow has this address$"):
        await workflow_schedules.receive(db, token, b"{", JSON)


async def test_a_rotated_token_replaces_the_old_one(db: Tenant) -> None:
    old = await token_of(db)
    new = await workflow_schedules.rotate(db, "incoming")
    assert new != old
    with pytest.raises(NotFound):
        await workflow_schedules.receive(db, old, b"", JSON)
    assert await workflow_schedules.receive(db, new, b"", JSON)
    await publish(db, timed())
    with pytest.raises(Conflict, match="its trigger is not a webhook"):
        await workflow_schedules.rotate(db, "etl")


async def test_the_error_for_a_disabled_workflow_does_not_contain_its_name(db: Tenant) -> None:
    token = await token_of(db)
    await workflows.enable(db, "incoming", False)
    with pytest.raises(Conflict) as refusal:
        await workflow_schedules.receive(db, token, b"", JSON)
    assert "incoming" not in str(refusal.value)
    await workflows.enable(db, "incoming")
    assert await workflow_schedules.receive(db, token, b"", JSON)


async def test_an_address_is_removed_with_its_trigger_and_with_its_workflow(db: Tenant) -> None:
    token = await token_of(db)
    await publish(db, called(trigger="api"))
    with pytest.raises(NotFound):
        await workflow_schedules.receive(db, token, b"", JSON)
    fresh = await token_of(db)
    await workflows.delete(db, "incoming")
    with pytest.raises(NotFound):
        await workflow_schedules.receive(db, fresh, b"", JSON)
    assert await token_of(db) not in (token, fresh)


async def test_publishing_creates_a_token_for_a_workflow_without_one(db: Tenant, conn: Client) -> None:
    await token_of(db)
    await conn.execute("update windlass.workflow set token_hash = null")
    assert await token_of(db)


async def test_a_request_starts_a_run_in_the_org_of_its_address(
    db: Tenant, conn: Client, database: str, clock: Clock
) -> None:
    async with another(database, clock, org="acme") as acme:
        token = await token_of(acme)
        id_ = await workflow_schedules.receive(db, token, b"", JSON)
        assert (await runs.get(acme, id_)).workflow == "incoming"
    assert await conn.fetchval("select org from windlass.run where id = $1", id_) == "acme"


async def test_headers_of_any_start_are_stored_without_credentials(db: Tenant, conn: Client) -> None:
    await publish(db, called(trigger="api"))
    await start.start(db, "incoming", [RunSpec(headers=JSON)])
    kept = json.loads(await conn.fetchval("select trigger_headers from windlass.run"))
    assert kept == {"content-type": "application/json", "x-from": "shop"}


async def test_a_request_is_checked_against_the_live_version_of_its_own_workflow(db: Tenant) -> None:
    """Version numbers are unique within a workflow only; version ids are unique in the installation."""
    await publish(db, timed())
    id_ = await workflow_schedules.receive(db, await token_of(db), b"{}", JSON)
    assert (await runs.get(db, id_)).workflow == "incoming"
    signed = replace(called("signed"), trigger=WebhookTrigger(secret="0123456789abcdef"))
    token = (await publish(db, signed)).token
    assert token is not None
    with pytest.raises(Refused):
        await workflow_schedules.receive(db, token, b"{}", JSON)
