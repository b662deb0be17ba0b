"""The synchronous API for plain scripts."""

import asyncio

from windlass import Windlass
from windlass.settings import Settings


async def test_a_synchronous_script_can_submit_without_an_event_loop(database: str, app: Windlass) -> None:
    script = Windlass(database, settings=Settings())

    def main() -> list[object]:
        try:
            return [script.submit_sync("a.b.v1", {"n": n}, idempotency_key=f"k{n % 2}") for n in range(4)]
        finally:
            script.close_sync()

    ids = await asyncio.to_thread(main)
    assert ids[:2] == ids[2:]
    assert len((await app.list()).jobs) == 2
