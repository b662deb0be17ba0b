"""Signals and events: which wait receives which, in which order, how often, and with concurrent senders."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.job_harness import submit, take
from windlass.core.json_value import decode
from windlass.engine import messages, quarantine, upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import Conflict, Gone, Invalid, NotFound
from windlass.schemas.messages import Sent
from windlass.store.messages import waiters
from windlass.store.messages.waiters import HandlerWait
from windlass.testing import Clock

Connection = Any
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
NEW, AGAIN = Sent(again=False), Sent(again=True)


async def waiting(
    db: Tenant, name: str = "paid", *, key: str | None = None, place: str = "wait", count: int = 1
) -> UUID:
    """Return a suspended job whose handler waits for a signal, or for an event with a key."""
    job = await submit(db, run_at=NEVER)
    await wait(db, job, name, key=key, place=place, count=count)
    return job


async def wait(
    db: Tenant, job: UUID, name: str = "paid", *, key: str | None = None, place: str = "wait", count: int = 1
) -> None:
    async with db.begin() as conn:
        await waiters.begin_in_handlers(conn, [HandlerWait(job, place, name, key or "", key is None, count)])


async def received(db: Tenant, conn: Connection) -> dict[tuple[UUID, str], Any]:
    """Route all messages; return the values that handlers have received, by job and wait."""
    while await messages.route(db):
        pass
    await messages.wake_handlers(db)
    rows = await conn.fetch("select job_id, name, state from windlass.checkpoint where name <> ''")
    return {(row[0], row[1]): decode(row[2]) for row in rows}


# Events


async def test_an_event_reaches_every_wait_for_its_name_and_key(db: Tenant, conn: Connection) -> None:
    first, second = await waiting(db, key="42"), await waiting(db, key="42")
    await waiting(db, key="43")
    await waiting(db, "refunded", key="42")
    await waiting(db)
    assert await messages.publish(db, "paid", key="42", payload={"cents": 995}) == NEW
    assert await received(db, conn) == {(first, "wait"): {"cents": 995}, (second, "wait"): {"cents": 995}}


async def test_a_wait_receives_one_event_and_its_job_becomes_due(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, key="42")
    assert await take(db) == []
    for number in (1, 2):
        await messages.publish(db, "paid", key="42", payload=number)
    assert await received(db, conn) == {(job, "wait"): 1}
    assert [claimed.id for claimed in await take(db)] == [job]


async def test_early_events_are_kept_and_received_oldest_first(db: Tenant, conn: Connection) -> None:
    job = await submit(db, run_at=NEVER)
    for number in (1, 2):
        await messages.publish(db, "paid", key="42", payload=number)
    await messages.route(db)
    await wait(db, job, key="42")
    assert await received(db, conn) == {(job, "wait"): 1}


async def test_an_event_older_than_the_job_is_not_received(db: Tenant, conn: Connection, clock: Clock) -> None:
    await messages.publish(db, "paid", key="42", payload="old")
    clock.move(timedelta(seconds=1))
    job = await waiting(db, key="42")
    assert await received(db, conn) == {}
    await messages.publish(db, "paid", key="42", payload="new")
    assert await received(db, conn) == {(job, "wait"): "new"}


async def test_the_next_wait_of_a_handler_receives_the_next_event(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, key="42")
    await messages.publish(db, "paid", key="42", payload=1)
    await received(db, conn)
    await wait(db, job, key="42", place="wait#2")
    assert await received(db, conn) == {(job, "wait"): 1}
    await messages.publish(db, "paid", key="42", payload=2)
    assert await received(db, conn) == {(job, "wait"): 1, (job, "wait#2"): 2}


async def test_a_wait_for_several_events_ends_with_the_last_one(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, "vote", key="", count=3)
    for number in range(4):
        assert await received(db, conn) == ({} if number < 3 else {(job, "wait"): [0, 1, 2]})
        await messages.publish(db, "vote", payload=number)


async def test_an_event_of_another_org_is_not_received(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, key="42")
    assert await messages.publish(db.tenant("acme"), "paid", key="42", id_="m1") == NEW
    assert await received(db, conn) == {}
    assert await messages.publish(db, "paid", key="42", id_="m1") == NEW
    assert list(await received(db, conn)) == [(job, "wait")]


# Signals


async def test_a_signal_is_received_once_by_the_oldest_wait(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, place="first")
    await wait(db, job, place="second", count=2)
    for number in range(1, 3):
        await messages.signal(db, job, "paid", payload=number)
    assert await received(db, conn) == {(job, "first"): 1}
    await messages.signal(db, job, "paid", payload=3)
    await messages.signal(db, job, "paid", payload=4)
    assert await received(db, conn) == {(job, "first"): 1, (job, "second"): [2, 3]}
    await wait(db, job, place="third")
    assert (await received(db, conn))[job, "third"] == 4


async def test_a_signal_reaches_only_the_job_that_it_is_addressed_to(db: Tenant, conn: Connection) -> None:
    one, other = await waiting(db), await waiting(db)
    await messages.publish(db, "paid", key=str(other))
    await messages.signal(db, one, "paid", payload="yes")
    assert await received(db, conn) == {(one, "wait"): "yes"}


async def test_only_a_live_job_of_the_org_can_be_signalled(db: Tenant, conn: Connection) -> None:
    job = await waiting(db)
    for target, org in ((uuid4(), "default"), (job, "acme")):
        with pytest.raises(NotFound, match=str(target)):
            await messages.signal(db.tenant(org), target, "paid")
    assert await messages.signal(db, job, "paid", id_="m1") == NEW
    await jobs.cancel(db, job)
    with pytest.raises(Gone, match="has ended"):
        await messages.signal(db, job, "paid")
    assert await messages.signal(db, job, "paid", id_="m1") == AGAIN  # a repeated request of the sender
    assert await conn.fetchval("select count(*) from windlass.message") == 1


async def test_the_number_of_unreceived_signals_is_limited(
    db: Tenant, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_SIGNALS", 2)
    job = await submit(db)
    for _ in range(2):
        await messages.signal(db, job, "paid")
    with pytest.raises(Conflict, match="2 signals 'paid'"):
        await messages.signal(db, job, "paid")
    await messages.signal(db, job, "refunded")
    await wait(db, job)
    await received(db, conn)
    await messages.signal(db, job, "paid")


# Ids and bad input


async def test_a_message_with_a_known_id_changes_nothing(db: Tenant, conn: Connection) -> None:
    job = await waiting(db, key="42", count=2)
    assert await messages.publish(db, "paid", key="42", payload=1, id_="m1") == NEW
    assert await messages.publish(db, "paid", key="42", payload=2, id_="m1") == AGAIN
    assert await received(db, conn) == {}
    await messages.publish(db, "paid", key="42", payload=3)
    assert await received(db, conn) == {(job, "wait"): [1, 3]}


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("name", {"name": " "}),
        ("name", {"name": "x" * 256}),
        ("name", {"name": "windlass.run"}),
        ("key", {"key": "x" * 401}),
        ("key", {"key": 42}),
        ("id", {"id_": ""}),
        ("payload", {"payload": {1, 2}}),
        ("payload", {"payload": "x" * 1_048_577}),
    ],
)
async def test_an_invalid_message_is_refused_with_its_field(
    db: Tenant, conn: Connection, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as refusal:
        await messages.publish(db, **{"name": "paid", **arguments})
    assert refusal.value.field == field
    assert await conn.fetchval("select count(*) from windlass.message") == 0


# Concurrency


async def test_an_uncommitted_message_blocks_no_other_and_is_received_after_its_commit(
    db: Tenant, conn: Connection
) -> None:
    job = await waiting(db, "vote", key="", count=2)
    async with db.begin() as slow:
        await messages.publish(db, "vote", payload="slow", connection=slow)
        await messages.publish(db, "vote", payload="quick")
        assert await received(db, conn) == {}
    assert await received(db, conn) == {(job, "wait"): ["quick", "slow"]}


async def test_a_message_and_a_wait_of_concurrent_transactions_are_matched(db: Tenant, conn: Connection) -> None:
    job = await submit(db, run_at=NEVER)
    async with db.begin() as sender, db.begin() as owner:
        await messages.publish(db, "paid", key="42", payload=1, connection=sender)
        await waiters.begin_in_handlers(owner, [HandlerWait(job, "wait", "paid", "42", False)])
        assert await received(db, conn) == {}
    assert await received(db, conn) == {(job, "wait"): 1}


async def test_routers_of_several_processes_deliver_a_signal_once(
    db: Tenant, other_db: Tenant, conn: Connection
) -> None:
    owners = [await waiting(db) for _ in range(20)]
    for owner in owners:
        for number in (1, 2):
            await messages.signal(db, owner, "paid", payload=number)
    await asyncio.gather(*(messages.route(each) for each in (db, other_db) for _ in range(3)))
    assert await received(db, conn) == {(owner, "wait"): 1 for owner in owners}
    taken = await conn.fetchval("select count(*) from windlass.message where waiter_id is not null")
    assert taken == len(owners)


async def test_a_waiter_locked_by_another_session_delays_only_its_own_message(db: Tenant, conn: Connection) -> None:
    held, free = await waiting(db), await waiting(db)
    await messages.route(db)
    async with conn.transaction():
        await conn.execute("select from windlass.waiter where job_id = $1 for update", held)
        for job in (held, free):
            await messages.signal(db, job, "paid")
        await messages.route(db)
        await messages.wake_handlers(db)
        assert await conn.fetchval("select count(*) from windlass.checkpoint where job_id = $1", free) == 1
    assert set(await received(db, conn)) == {(held, "wait"), (free, "wait")}


# The end of a wait


async def test_a_wait_that_is_given_up_returns_its_message_or_none(db: Tenant, conn: Connection) -> None:
    early, late = await waiting(db), await waiting(db)
    await messages.signal(db, early, "paid", payload="in time")
    await messages.route(db)
    async with db.begin() as owner:
        assert await waiters.give_up(owner, early, "wait") == waiters.Received("in time")
        assert await waiters.give_up(owner, late, "wait") is None
    await messages.signal(db, late, "paid", payload="too late")
    assert await received(db, conn) == {}  # the attempt itself records what it received
    await wait(db, late, place="wait#2")
    assert await received(db, conn) == {(late, "wait#2"): "too late"}


async def test_a_leased_job_is_not_changed_by_a_message_for_it(db: Tenant, conn: Connection) -> None:
    job = await submit(db)
    await take(db)
    await wait(db, job)
    await messages.signal(db, job, "paid", payload=1)
    assert await received(db, conn) == {}
    async with db.begin() as owner:
        assert await waiters.give_up(owner, job, "wait") == waiters.Received(1)


async def test_a_wait_from_before_its_job_was_reopened_is_closed_and_receives_nothing(
    db: Tenant, conn: Connection
) -> None:
    job = await waiting(db, place="before")
    await messages.route(db)
    await jobs.cancel(db, job)
    await jobs.reopen(db, job)
    await wait(db, job, place="after")
    await messages.signal(db, job, "paid", payload="now")
    await messages.route(db)
    assert await conn.fetch("select place, state from windlass.waiter order by id") == [
        ("before", "closed"),
        ("after", "received"),
    ]


async def test_a_message_received_before_its_job_was_cancelled_and_reopened_is_discarded(
    db: Tenant, conn: Connection
) -> None:
    job = await waiting(db)
    await messages.signal(db, job, "paid")
    await messages.route(db)
    await jobs.cancel(db, job)
    await jobs.reopen(db, job)
    assert await messages.wake_handlers(db) == 0
    assert await conn.fetchval("select state from windlass.waiter") == "closed"


# Limits


async def test_the_latest_events_are_kept_for_later_waits(
    db: Tenant, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_EVENTS", 2)
    job = await submit(db, run_at=NEVER)
    early = await waiting(db, key="42", count=4)
    for number in range(4):
        await messages.publish(db, "paid", key="42", payload=number)
    await messages.publish(db, "paid", key="43")
    await messages.route(db)
    assert await conn.fetchval("select count(*) from windlass.message") == 3
    await wait(db, job, key="42")
    assert await received(db, conn) == {(early, "wait"): [0, 1, 2, 3], (job, "wait"): 2}


async def test_old_messages_are_deleted(db: Tenant, conn: Connection, clock: Clock) -> None:
    job = await submit(db, run_at=NEVER)
    await messages.signal(db, job, "paid", id_="m1")
    clock.move(timedelta(days=8))
    week = timedelta(days=7)
    assert await messages.prune(db, age=week) == 0  # it is not routed yet
    await messages.route(db)
    await messages.publish(db, "paid")
    assert [await messages.prune(db, age=week) for _ in range(2)] == [1, 0]
    assert await messages.signal(db, job, "paid", id_="m1") == NEW


async def test_the_waits_of_a_job_are_deleted_with_it(db: Tenant, conn: Connection, clock: Clock) -> None:
    job = await waiting(db)
    await jobs.cancel(db, job)
    clock.move(timedelta(days=2))
    await upkeep.prune(db, age=timedelta(days=1))
    assert await conn.fetchval("select count(*) from windlass.waiter") == 0


async def test_messages_that_cannot_be_routed_are_set_aside_by_name_and_key_and_retried(
    db: Tenant, conn: Connection, clock: Clock
) -> None:
    bad, good = await waiting(db, "bad"), await waiting(db, "good")
    await conn.execute("alter table windlass.waiter add constraint defect check (name <> 'bad' or state = 'new')")
    for job, name in ((bad, "bad"), (good, "good")):
        await messages.signal(db, job, name)
    assert set(await received(db, conn)) == {(good, "wait")}
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.key) == ("message", f"default/bad/{bad}")
    assert not await messages.are_pending(db)
    await conn.execute("alter table windlass.waiter drop constraint defect")
    clock.move(timedelta(minutes=1))
    assert await messages.are_pending(db)
    assert set(await received(db, conn)) == {(good, "wait"), (bad, "wait")}
