"""Webhook subscriptions of the Open Job Spec API; deliveries are tested in tests/engine/test_subscriptions.py."""

import json
from datetime import UTC, datetime
from uuid import uuid4

from tests.conformance.extension_client import extended
from tests.effects.server import reply, says, serving
from tests.runtime.shop import app_for
from windlass import Windlass
from windlass.core.events import webhook
from windlass.engine.events import subscriptions
from windlass.testing import run_until_idle

PATH = "/webhooks/subscriptions"


async def test_subscriptions_are_created_read_changed_and_deleted(app: Windlass) -> None:
    wish = {"url": "https://example.com/hook", "events": ["job.completed"], "metadata": {"owner": "ops"}}
    async with extended(app) as client:
        made = (await client.post(PATH, wish, 201))["subscription"]
        assert made["url"] == wish["url"]
        assert made["events"] == ["job.completed"]
        assert made["active"] is True
        assert made["secret"].startswith("whsec_")
        one = f"{PATH}/{made['id']}"
        for shown in ((await client.get(one))["subscription"], (await client.get(PATH))["subscriptions"][0]):
            assert "secret" not in shown
            assert shown["metadata"] == {"owner": "ops"}
        body = {"active": False, "events": ["job.*"], "filter": {"queues": ["q"]}}
        changed = (await client.call("PATCH", one, body)).json()["subscription"]
        assert (changed["active"], changed["events"], changed["filter"]) == (False, ["job.*"], {"queues": ["q"]})
        again = (await client.post(f"{one}/rotate-secret"))["secret"]
        assert again != made["secret"]
        await client.post(PATH, {"url": "nonsense", "events": ["*"]}, 400)
        await client.post(PATH, {"url": "https://example.com"}, 400)
        await client.call("DELETE", one)
        for method in ("GET", "DELETE"):
            await client.call(method, one, status=404)
        await client.get(f"{PATH}/{uuid4()}", 404)
        assert (await client.get(PATH))["subscriptions"] == []


async def test_completions_by_an_http_worker_are_delivered(database: str) -> None:
    async with app_for(database) as app, extended(app) as client, serving(says(reply(200, b"ok"))) as receiver:
        made = await client.post(PATH, {"url": receiver.url, "events": ["job.completed"]}, 201)
        tested = await client.post(f"{PATH}/{made['id']}/test")
        assert (tested["success"], tested["status_code"], tested["response_body"]) == (True, 200, "ok")
        id_ = (await client.push("email.send", {"to": "x"}))["id"]
        await client.fetch()
        await client.post("/workers/ack", {"job_id": id_})
        await subscriptions.feed(await app.open())
        await run_until_idle(app)
        told = [json.loads(received.body) for received in receiver.received]
        assert [(event["type"], event["subject"]) for event in told[1:]] == [("job.completed", id_)]
        for received in receiver.received:
            assert webhook.signature_mistake(made["secret"], received.headers, received.body, datetime.now(UTC)) is None
