"""Webhook triggers with signatures: an unsigned request starts no run."""

import hmac
from base64 import b64encode
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.engine.schedule_harness import NOON, Client, called, publish, runs_of
from windlass.core.events.webhook import Scheme, signature
from windlass.core.workflows.workflow import WebhookTrigger
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.errors import InvalidWorkflow, Refused
from windlass.testing import Clock

SECRET = "whsec_" + b64encode(b"0123456789abcdef01234567").decode()
JSON = {"content-type": "application/json", "x-from": "shop"}


@pytest.fixture(autouse=True)
def at_noon(clock: Clock) -> None:
    clock.set(NOON)


def standard(body: bytes, now: datetime, id_: str = "msg_1") -> dict[str, str]:
    moment = str(int(now.timestamp()))
    mark = signature(SECRET, id_, moment, body)
    return JSON | {"webhook-id": id_, "webhook-timestamp": moment, "webhook-signature": f"v1,{mark}"}


async def address(db: Tenant, scheme: Scheme = Scheme.STANDARD) -> str:
    token = (await publish(db, replace(called(), trigger=WebhookTrigger(SECRET, scheme)))).token
    assert token is not None
    return token


async def test_a_signed_request_starts_a_run_and_an_unsigned_one_does_not(db: Tenant, conn: Client) -> None:
    token, now = await address(db), NOON
    assert await workflow_schedules.receive(db, token, b'{"a": 1}', standard(b'{"a": 1}', now))
    refused = [
        (b'{"a": 1}', JSON),
        (b'{"a": 2}', standard(b'{"a": 1}', now, "msg_2")),
        (b'{"a": 1}', standard(b'{"a": 1}', now - timedelta(seconds=301), "msg_3")),
        (b"not json", JSON),  # the signature is checked before the body is parsed
    ]
    for body, headers in refused:
        with pytest.raises(Refused, match="not signed as the workflow requires"):
            await workflow_schedules.receive(db, token, body, headers)
    assert len(await runs_of(conn, "incoming")) == 1


async def test_a_repeated_signed_request_starts_no_run_even_with_another_idempotency_key(db: Tenant) -> None:
    token, signed = await address(db), standard(b"{}", NOON)
    first = await workflow_schedules.receive(db, token, b"{}", signed)
    assert await workflow_schedules.receive(db, token, b"{}", signed) == first
    assert await workflow_schedules.receive(db, token, b"{}", signed | {"idempotency-key": "another"}) == first
    other = await workflow_schedules.receive(db, token, b"{}", standard(b"{}", NOON, "msg_2"))
    assert other != first


async def test_the_signature_schemes_of_github_and_stripe_are_supported(db: Tenant, conn: Client) -> None:
    token = await address(db, Scheme.GITHUB)
    mark = hmac.new(SECRET.encode(), b"{}", "sha256").hexdigest()
    assert await workflow_schedules.receive(db, token, b"{}", JSON | {"X-Hub-Signature-256": f"sha256={mark}"})
    with pytest.raises(Refused, match="x-hub-signature-256 does not match"):
        await workflow_schedules.receive(db, token, b"{} ", JSON | {"X-Hub-Signature-256": f"sha256={mark}"})
    await publish(db, replace(called(), trigger=WebhookTrigger(SECRET, Scheme.STRIPE)))
    moment = str(int(NOON.timestamp()))
    mark = hmac.new(SECRET.encode(), f"{moment}.{{}}".encode(), "sha256").hexdigest()
    assert await workflow_schedules.receive(db, token, b"{}", JSON | {"Stripe-Signature": f"t={moment},v1={mark}"})
    assert len(await runs_of(conn, "incoming")) == 2


async def test_the_secret_of_a_trigger_is_masked_and_kept_when_the_document_is_republished(db: Tenant) -> None:
    token = await address(db)
    shown = (await workflows.get(db, "incoming")).document
    assert shown["trigger"] == {"webhook": {"secret": "***", "scheme": "standard"}}
    again = await workflows.publish_many(db, [{**shown, "description": "another"}])
    assert again[0].changed
    assert await workflow_schedules.receive(db, token, b"{}", standard(b"{}", NOON))
    [preview] = await workflows.preview_many(db, [{**shown, "trigger": {"webhook": {"secret": "0123456789abcdef"}}}])
    assert SECRET not in str(preview)
    assert any("(another)" in line for line in preview.diff)


async def test_a_weak_secret_cannot_be_published(db: Tenant) -> None:
    for trigger, message in [
        ({"webhook": {"secret": "short"}}, "it has 5 characters, at least 16 are required"),
        ({"webhook": {"secret": "whsec_"}}, "decodes to 0 bytes"),
        ({"webhook": {"scheme": "github"}}, "it is missing"),
        ({"webhook": {"secret": "0" * 16, "scheme": "gitlab"}}, "one of standard, github, stripe"),
    ]:
        with pytest.raises(InvalidWorkflow, match=message):
            await workflows.publish_many(db, [{"name": "weak", "trigger": trigger, "tasks": {"a": {"sleep": "1s"}}}])
