"""Slow DNS lookups of one domain wait for each other and do not delay other lookups."""

import asyncio
import threading
from typing import Any

from windlass.effects.http.connector import PER_DOMAIN, DnsLookup

FOUND = [(0, 0, 0, "", ("8.8.8.8", 80))]


class Names:
    """A resolver that does not respond for names below slow.example until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        self.asked.append(host)
        if host.endswith("slow.example"):
            self.released.wait(20)
        return FOUND


async def test_slow_lookups_of_one_domain_leave_threads_for_others() -> None:
    names = Names()
    look_up = DnsLookup(threads=PER_DOMAIN + 1, getaddrinfo=names)
    slow = [asyncio.create_task(look_up(f"n{n}.slow.example", 80)) for n in range(50)]
    try:
        for _ in range(3):
            assert await asyncio.wait_for(look_up("quick.example", 80), 10) == ["8.8.8.8"]
        assert len([name for name in names.asked if name.endswith("slow.example")]) == PER_DOMAIN
        await asyncio.wait_for(asyncio.to_thread(lambda: None), 10)  # the default pool is untouched
    finally:
        names.released.set()
    assert await asyncio.gather(*slow) == [["8.8.8.8"]] * 50
    look_up.close()


async def test_a_cancelled_lookup_keeps_its_slot_until_its_thread_is_free() -> None:
    names = Names()
    look_up = DnsLookup(threads=PER_DOMAIN + 1, getaddrinfo=names)
    given_up = [asyncio.create_task(look_up(f"n{n}.slow.example", 80)) for n in range(PER_DOMAIN + 3)]
    while len(names.asked) < PER_DOMAIN:
        await asyncio.sleep(0)
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    late = asyncio.create_task(look_up("late.slow.example", 80))
    assert await asyncio.wait_for(look_up("quick.example", 80), 10) == ["8.8.8.8"]
    assert "late.slow.example" not in names.asked
    names.released.set()
    assert await asyncio.wait_for(late, 10) == ["8.8.8.8"]
    look_up.close()
