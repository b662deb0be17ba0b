"""Wake-ups between processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from windlass.store.postgres import notify
from windlass.store.postgres.notify import Notifier
from windlass.store.postgres.pool import DatabaseOptions


@asynccontextmanager
async def two_processes(database: str) -> AsyncIterator[tuple[Notifier, asyncio.Queue[str]]]:
    """Yield the notifier of one process, and the topics that another process receives once it listens."""
    here, there = Notifier(DatabaseOptions(url=database)), Notifier(DatabaseOptions(url=database))
    received: asyncio.Queue[str] = asyncio.Queue()
    there.subscribe(received.put_nowait)
    here.start()
    there.start()
    try:
        async with asyncio.timeout(30):
            assert await received.get() == ""  # the other process listens: the empty topic wakes all subscribers
            yield here, received
    finally:
        await here.close()
        await there.close()


@pytest.mark.parametrize("topic", ["default", "it's", "back\\slash", "naïve ☃", 'quo"te', "two\nlines", "a; notify x"])
async def test_a_topic_reaches_other_processes_unchanged(database: str, topic: str) -> None:
    async with two_processes(database) as (here, received):
        here.poke(topic)
        assert await received.get() == topic


async def test_a_topic_too_long_to_send_wakes_all_subscribers(database: str) -> None:
    async with two_processes(database) as (here, received):
        here.poke("q" * 10_000)
        assert await received.get() == ""


async def test_a_wake_up_during_a_send_does_not_delay_close(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "CHECK_SECONDS", 600.0)
    for pauses in range(12):
        notifier = Notifier(DatabaseOptions(url=database))
        listening = asyncio.Event()
        notifier.subscribe(lambda topic, listening=listening: listening.set() if topic == "" else None)  # type: ignore[misc]
        notifier.start()
        async with asyncio.timeout(60):
            await listening.wait()
            notifier.poke("default")
            for _ in range(2 + pauses % 4):  # until it is being sent
                await asyncio.sleep(0)
            notifier.poke("default")
            await notifier.close()


async def test_a_wake_up_during_a_send_of_the_same_topic_is_sent_again(
    database: str, conn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process woken by the first may query before the change behind the second is committed."""
    slow = "select pg_notify($1, topic), pg_sleep(0.3) from unnest($2::text[]) as topic"
    monkeypatch.setattr(notify, "sql", lambda *_: slow)
    being_sent = "select exists (select from pg_stat_activity where state = 'active' and query = $1)"
    async with two_processes(database) as (here, received):
        here.poke("default")
        while not await conn.fetchval(being_sent, slow):
            await asyncio.sleep(0)
        here.poke("default")
        assert [await received.get(), await received.get()] == ["default", "default"]


async def test_wake_ups_in_quick_succession_share_notifications_and_none_is_lost(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "APART", 0.2)
    async with two_processes(database) as (here, received):
        for topic in ("a", "b", "c", "b", "a"):  # the first is sent alone, the others together
            here.poke(topic)
            await asyncio.sleep(0.01)
        topics = [await received.get() for _ in range(4)]
        here.poke("end")
        assert await received.get() == "end"
    assert (topics[0], sorted(topics[1:])) == ("a", ["a", "b", "c"])


async def test_the_check_of_an_idle_connection_does_not_stop_the_listener(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that never sends, such as a worker, would otherwise receive nothing after the first check."""
    monkeypatch.setattr(notify, "CHECK_SECONDS", 0.001)
    async with two_processes(database) as (here, received):
        for number in range(50):  # each takes longer than the time after which the connection is checked
            here.poke(f"queue {number}")
            assert await received.get() == f"queue {number}"


async def test_without_notify_only_subscribers_in_this_process_are_notified(database: str) -> None:
    notifier = Notifier(DatabaseOptions(url=database, notify=False))
    heard: list[str] = []
    notifier.subscribe(heard.append)
    notifier.start()
    notifier.poke("default")
    assert heard == ["default"]
    await notifier.close()


async def test_a_notification_on_a_closed_connection_is_delivered(database: str) -> None:
    """Under load the driver delivers notifications after the close; a closed connection has no pid to compare with."""
    notifier = Notifier(DatabaseOptions(url=database))
    heard: list[str] = []
    notifier.subscribe(heard.append)
    conn = await asyncpg.connect(database)
    listener = notifier._listener(conn.get_server_pid())
    conn.terminate()
    listener(conn, 1, "windlass", "default")
    assert heard == ["default"]


async def test_a_topic_is_escaped_regardless_of_the_quoting_rules_of_the_session(database: str, conn: Any) -> None:
    """With standard_conforming_strings off a backslash would end the quoting."""
    name = await conn.fetchval("select current_database()")
    await conn.execute(f'alter database "{name}" set standard_conforming_strings = off')
    topic = "\\'; drop table workflow.workflow_run; --"
    async with two_processes(database) as (here, received):
        here.poke(topic)
        assert await received.get() == topic
