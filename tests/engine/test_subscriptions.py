"""Subscriptions: each event from their creation on is delivered once, signed."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.effects.server import ClientConnection, Received, Server, reply, serving
from tests.runtime.shop import app_for
from windlass import Conflict, Context, Invalid, NotFound, Windlass
from windlass.core.events import webhook
from windlass.core.events.ojs import EventFilter, OjsEvent, Target, headers
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine.events import subscriptions
from windlass.testing import run_until_idle

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:

        @made.job("order.ship.v1", retry=AT_ONCE, max_attempts=2)
        async def ship(ctx: Context, n: int = 0, fails: int = 0) -> int:
            if ctx.attempt <= fails:
                raise RuntimeError("no stamps")
            return n

        yield made


@pytest.fixture
async def receiver() -> AsyncIterator[Server]:
    async with serving(takes) as server:
        yield server


async def takes(_: Received, connection: ClientConnection) -> None:
    await connection.send(reply(200, b"thanks"))


def events(server: Server) -> list[str]:
    return [json.loads(received.body)["type"] for received in server.received]


async def subscribed(app: Windlass, url: str, *names: str, **wish: Any) -> tuple[UUID, str]:
    made, secret = await subscriptions.create(await app.open(), {"url": url, "events": list(names), **wish})
    return made.id, secret


async def told(app: Windlass) -> None:
    """Run all jobs, read the trail, and make all deliveries that are due."""
    db = await app.open()
    await run_until_idle(app)
    while (await subscriptions.feed(db)).deliveries or await due(app):
        await run_until_idle(app)


async def due(app: Windlass) -> bool:
    waiting = (await app.list(queue="windlass", statuses=["pending"])).jobs
    return any(job.run_at <= job.updated_at for job in waiting)


@pytest.mark.parametrize(
    ("wanted", "covered"),
    [
        (["job.completed"], True),
        (["job.*"], True),
        (["*"], True),
        (["workflow.*", "job.failed"], False),
        (["job"], False),
    ],
    ids=str,
)
def test_event_names_of_a_filter_may_end_with_a_wildcard(wanted: list[str], covered: bool) -> None:
    happening = OjsEvent("evt_1", "job.completed", "x", datetime.now(UTC), "default", {"queue": "q", "job_type": "t"})
    assert EventFilter(wanted).covers(happening) is covered
    assert EventFilter(wanted, queues=["q"], types=["t"]).covers(happening) is covered
    assert not EventFilter(wanted, queues=["other"]).covers(happening)
    assert not EventFilter(wanted, types=["other"]).covers(happening)


def test_a_delivery_is_signed_with_every_valid_secret() -> None:
    now = datetime.now(UTC)
    made = headers(
        Target("http://x", ["secret one", "whsec_c2VjcmV0"], now), id_="evt_1", event="e", subscription="s", body=b"{}"
    )
    given = {name.lower(): value for name, value in made.items()}
    for secret in ("secret one", "whsec_c2VjcmV0"):
        assert webhook.signature_mistake(secret, given, b"{}", now) is None
        signed = hmac.digest(secret.encode(), f"{given['x-ojs-timestamp']}.".encode() + b"{}", "sha256").hex()
        assert f"sha256={signed}" in given["x-ojs-signature"].split(",")
    assert webhook.signature_mistake("another", given, b"{}", now) is not None


async def test_each_event_after_the_subscription_is_delivered_once_and_signed(
    app: Windlass, receiver: Server, conn: Any
) -> None:
    before = await app.submit("order.ship.v1", {"n": 1})
    await run_until_idle(app)
    id_, secret = await subscribed(app, receiver.url, "job.*")
    other, _ = await subscribed(app, receiver.url + "/failures", "job.discarded", "workflow.failed")
    job = await app.submit("order.ship.v1", {"n": 2, "fails": 1})
    lost = await app.submit("order.ship.v1", {"n": 3, "fails": 9})
    await told(app)
    mine = [received for received in receiver.received if received.target == "/"]
    found = [json.loads(received.body) for received in mine]
    assert str(before) not in {event["subject"] for event in found}
    of_job = {event["id"]: event["type"] for event in found if event["subject"] == str(job)}
    assert sorted(of_job.values()) == sorted(
        ["job.enqueued", "job.started", "job.failed", "job.retrying", "job.started", "job.completed"]
    )
    assert len({event["id"] for event in found}) == len(found), "an event was delivered twice"
    [dead] = [received for received in receiver.received if received.target == "/failures"]
    event = json.loads(dead.body)
    assert (event["type"], event["subject"]) == ("job.discarded", str(lost))
    assert event["data"]["job_type"] == "order.ship.v1"
    assert event["data"]["error"] | {"attempt": 0} == {
        "code": "handler_error",
        "type": "RuntimeError",
        "message": "no stamps",
        "attempt": 0,
    }
    for received in mine:
        assert webhook.signature_mistake(secret, received.headers, received.body, datetime.now(UTC)) is None
        assert received.headers["webhook-id"] == json.loads(received.body)["id"]
        assert received.headers["content-type"] == "application/json"
        assert received.headers["x-ojs-subscription-id"] == str(id_)
    # Deliveries create no events for subscribers: otherwise they would never end.
    assert await conn.fetchval("select count(*) from workflow.workflow_run where queue = 'windlass'") == len(found) + 1
    assert other != id_


async def test_events_of_runs_are_delivered_as_workflow_events(app: Windlass, receiver: Server) -> None:
    await subscribed(app, receiver.url, "workflow.*")
    await app.deploy({"name": "w", "tasks": {"one": {"job": "order.ship.v1", "input": {"n": 1}}}})
    run = await app.start("w")
    await told(app)
    assert "workflow.completed" in events(receiver)  # deliveries are jobs: they may overtake each other
    assert {json.loads(received.body)["subject"] for received in receiver.received} == {str(run.id)}


async def test_a_failed_delivery_is_retried_with_the_same_event(app: Windlass, conn: Any) -> None:
    answers = iter([reply(503), reply(500), reply(200)])

    async def fails_twice(_: Received, connection: ClientConnection) -> None:
        await connection.send(next(answers))

    async with serving(fails_twice) as server:
        id_, secret = await subscribed(app, server.url, "job.enqueued")
        await app.submit("order.ship.v1")
        await told(app)
        for attempt in (1, 2):
            waits = await conn.fetchval(
                "select run_at - updated_at from workflow.workflow_run where queue = 'windlass' and status = 'pending'"
            )
            assert timedelta(seconds=4) < waits < timedelta(seconds=30) * attempt
            await conn.execute("update workflow.workflow_run set run_at = windlass.now() where queue = 'windlass'")
            await run_until_idle(app)
        assert len(server.received) == 3
        assert len({received.headers["webhook-id"] for received in server.received}) == 1
        for received in server.received:
            assert webhook.signature_mistake(secret, received.headers, received.body, datetime.now(UTC)) is None
        assert (await subscriptions.get(await app.open(), id_)).active


async def test_a_secret_is_returned_once_and_the_previous_one_also_signs_after_a_rotation(
    app: Windlass, receiver: Server, conn: Any
) -> None:
    db = await app.open()
    id_, first = await subscribed(app, receiver.url, "job.enqueued", secret="a secret of their own")
    assert first == "a secret of their own"
    _, second = await subscriptions.rotate(db, id_)
    assert second.startswith("whsec_")
    assert "secret" not in repr(await subscriptions.get(db, id_))
    _, third = await subscriptions.rotate(db, id_)
    assert len({first, second, third}) == 3
    await app.submit("order.ship.v1")
    await told(app)
    await conn.execute("update windlass.subscription set rotated_at = rotated_at - interval '25 hours'")
    await app.submit("order.ship.v1")
    await told(app)

    def good(secret: str) -> list[bool]:
        now = datetime.now(UTC)
        return [webhook.signature_mistake(secret, one.headers, one.body, now) is None for one in receiver.received]

    assert (good(first), good(second), good(third)) == ([False] * 2, [True, False], [True] * 2)


async def test_a_subscription_is_deactivated_after_a_410_or_after_50_failed_deliveries(
    app: Windlass, conn: Any
) -> None:
    db = await app.open()

    async def refuses(received: Received, connection: ClientConnection) -> None:
        await connection.send(reply(410 if received.target == "/gone" else 404))

    async with serving(refuses) as server:
        gone, _ = await subscribed(app, f"{server.url}/gone", "job.enqueued")
        deaf, _ = await subscribed(app, f"{server.url}/deaf", "job.enqueued")
        await conn.execute("update windlass.subscription set failures = $1", subscriptions.MOST_GIVEN_UP - 2)
        await app.submit("order.ship.v1")
        await told(app)
        assert [(await subscriptions.get(db, one)).active for one in (gone, deaf)] == [False, True]
        await app.submit("order.ship.v1")
        await told(app)
        found = await subscriptions.get(db, deaf)
        assert (found.active, found.off_reason) == (False, "50 consecutive deliveries failed")
        await app.submit("order.ship.v1")
        await told(app)
        assert len(server.received) == 3
        found = await subscriptions.change(db, deaf, {"active": True})
        assert (found.active, found.off_reason) == (True, None)
        await app.submit("order.ship.v1")
        await told(app)
        assert len(server.received) == 4, "events while the subscription was inactive are not delivered"


async def test_pending_deliveries_of_a_deleted_subscription_are_cancelled(
    app: Windlass, receiver: Server, conn: Any
) -> None:
    db = await app.open()
    id_, _ = await subscribed(app, receiver.url, "job.enqueued")
    await app.submit("order.ship.v1")
    assert (await subscriptions.feed(db)).deliveries == 1
    await subscriptions.remove(db, id_)
    await run_until_idle(app)
    assert receiver.received == []
    assert await conn.fetchval("select status from workflow.workflow_run where queue = 'windlass'") == "cancelled"
    with pytest.raises(NotFound):
        await subscriptions.remove(db, id_)


async def test_concurrent_feeds_create_one_delivery_for_each_event(app: Windlass, receiver: Server, conn: Any) -> None:
    db = await app.open()
    await subscribed(app, receiver.url, "job.enqueued")
    async with conn.transaction():  # began before, commits after: its event is read late, not lost
        await conn.execute("select windlass.submit('order.ship.v1', queue => 'default')")
        await app.submit_many([{"type": "order.ship.v1"}] * 300)
        fed = await asyncio.gather(*(subscriptions.feed(db, batch=100) for _ in range(10)))
        assert 0 < sum(one.deliveries for one in fed) <= 300
    while (await subscriptions.feed(db, batch=100)).more:
        pass
    events_ = "select payload -> 'event' ->> 'subject' from workflow.workflow_run where queue = 'windlass'"
    found = [row[0] for row in await conn.fetch(events_)]
    assert len(found) == len(set(found)) == 301


async def test_a_stream_position_of_another_cluster_is_discarded(app: Windlass, receiver: Server, conn: Any) -> None:
    """As after a restore into a new server, which counts its transactions from the beginning."""
    db = await app.open()
    await subscribed(app, receiver.url, "job.enqueued")
    await conn.execute("update windlass.bookmark set place = '99999999+0'")
    assert (await subscriptions.feed(db)).lines == 0
    await app.submit("order.ship.v1")
    assert (await subscriptions.feed(db)).deliveries == 1


async def test_subscriptions_are_isolated_between_orgs(app: Windlass, receiver: Server) -> None:
    db = await app.open()
    other = db.tenant("other", actor="x")
    made, _ = await subscriptions.create(other, {"url": receiver.url, "events": ["*"]})
    await app.submit("order.ship.v1")
    await told(app)
    assert receiver.received == []
    assert (await subscriptions.list_(db)) == ([], 0)
    assert (await subscriptions.list_(other)) == ([made], 1)
    for ask in (subscriptions.get, subscriptions.remove, subscriptions.rotate):
        with pytest.raises(NotFound):
            await ask(db, made.id)


async def test_an_invalid_subscription_is_refused_with_its_field(app: Windlass) -> None:
    db, good = await app.open(), {"url": "https://example.com", "events": ["*"]}
    wishes: list[tuple[dict[str, Any], str]] = [
        ({"events": ["*"]}, "url"),
        ({**good, "url": "ftp://example.com"}, "url"),
        ({**good, "url": "http://u:p@example.com"}, "url"),
        ({"url": "https://example.com"}, "events"),
        ({**good, "events": []}, "events"),
        ({**good, "events": ["Job Completed"]}, "events"),
        ({**good, "secret": "short"}, "secret"),
        ({**good, "active": "yes"}, "active"),
        ({**good, "filter": {"queues": "q"}}, "filter.queues"),
        ({**good, "metadata": []}, "metadata"),
    ]
    for wish, field in wishes:
        with pytest.raises(Invalid) as caught:
            await subscriptions.create(db, wish)
        assert caught.value.field == field, wish


async def test_deliveries_to_private_addresses_are_refused_unless_allowed(
    database: str, receiver: Server, conn: Any
) -> None:
    """A host name can resolve to any address, so the address is checked when the connection is made."""
    async with Windlass(database) as careful:
        await subscribed(careful, receiver.url, "job.enqueued")
        await careful.submit("x.y.v1")
        await subscriptions.feed(await careful.open())
        await run_until_idle(careful)
    assert receiver.received == []
    assert "loopback" in await conn.fetchval("select last_error from workflow.workflow_run where queue = 'windlass'")


async def test_a_test_event_is_sent_immediately_and_returns_the_response(app: Windlass, receiver: Server) -> None:
    id_, secret = await subscribed(app, receiver.url, "job.completed")
    answer = await app.ping_subscription(id_)
    assert (answer["success"], answer["status_code"], answer["response_body"]) == (True, 200, "thanks")
    [received] = receiver.received
    assert json.loads(received.body)["type"] == "webhook.test"
    assert webhook.signature_mistake(secret, received.headers, received.body, datetime.now(UTC)) is None
    with pytest.raises(NotFound):
        await app.ping_subscription(uuid4())


async def test_the_number_of_subscriptions_is_limited(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 1)
    await subscribed(app, "https://example.com", "*")
    with pytest.raises(Conflict):
        await subscribed(app, "https://example.com", "*")
