"""kill -9 of the process that delivers webhooks: each event reaches the receiver and is enqueued once."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.harness import Crew, Inbox, dice, eventually
from tests.effects.server import ClientConnection, Received, reply, serving
from tests.keys import KEYS
from windlass import Windlass
from windlass.core.events import webhook
from windlass.engine.events import subscriptions
from windlass.settings import Settings

JOBS, KILLS = 120, 1
HASTEN = "update workflow.workflow_run set run_at = now() where queue = 'windlass' and status = 'pending' and not due"


async def test_each_event_is_delivered_although_the_delivery_process_is_killed(inbox: Inbox, tmp_path: Path) -> None:
    with dice() as rng:

        async def moody(_: Received, connection: ClientConnection) -> None:
            await connection.send(reply(503) if rng.random() < 0.1 else reply(200))

        async with serving(moody) as server:
            secret = await subscribe(inbox, server.url)
            environ = {"WINDLASS_HTTP_ALLOW": "127.0.0.1/32"}
            with Crew(inbox.url, tmp_path, environ=environ) as crew:
                # The first process dies between reading and committing, the others at arbitrary points.
                deliverer = crew.start("ann", lease=1, concurrency=10, prefix="%", fault="feed.enqueued:2")
                ids = await inbox.submit("chaos.noop.v1", JOBS)
                assert await deliverer.ended(within=30) != 0
                for _ in range(KILLS):
                    seen = len(server.received)
                    deliverer = crew.start("ann", lease=1, concurrency=10, prefix="%")

                    async def further(seen: int = seen) -> bool:
                        return len(server.received) > seen + rng.randrange(JOBS // 2)

                    await eventually(further, "some were delivered", within=30, every=0.01)
                    deliverer.kill()
                crew.start("ann", lease=1, concurrency=10, prefix="%")

                async def told() -> bool:
                    await inbox.execute(HASTEN)
                    found = await inbox.value(
                        "select count(*) from workflow.workflow_run where queue = 'windlass' and status = 'succeeded'"
                    )
                    return bool(found == 2 * JOBS)

                await eventually(told, "all deliveries had succeeded", within=60, every=0.2)
                crew.assert_calm()
        subjects = Counter[tuple[str, str]]()
        for received in server.received:
            event = json.loads(received.body)
            assert received.headers["webhook-id"] == event["id"]
            assert webhook.signature_mistake(secret, received.headers, received.body, datetime.now(UTC)) is None
        for event in {json.dumps(json.loads(one.body), sort_keys=True) for one in server.received}:
            subjects[json.loads(event)["subject"], json.loads(event)["type"]] += 1
        # Every event arrived, and under one id only: duplicates are repeats of the same delivery.
        assert subjects == Counter({(str(id_), type_): 1 for id_ in ids for type_ in ("job.enqueued", "job.completed")})


async def subscribe(inbox: Inbox, url: str) -> str:
    async with Windlass(inbox.url, settings=Settings(notify=False, master_keys=KEYS)) as app:
        wish = {"url": url, "events": ["job.enqueued", "job.completed"]}
        return (await subscriptions.create(await app.open(), wish))[1]
