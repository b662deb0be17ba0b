"""Quieting a worker: it claims no jobs until an operator resumes it."""

from datetime import timedelta

from tests.runtime.conftest import Working, eventually
from windlass import Windlass
from windlass.engine.workers import registry as workers


async def test_a_quiet_worker_claims_no_jobs_until_it_is_resumed(app: Windlass, working: Working) -> None:
    db = await app.open()

    @app.job("a.b.v1")
    async def nothing() -> None: ...

    async def state() -> str:
        return (await workers.get(db, "w"))[0].state

    async with working(app, id="w", lease=timedelta(seconds=1)):

        async def known() -> bool:
            return bool(await workers.list_(db))

        await eventually(known)
        await workers.direct(db, "w", "quiet")

        async def is_quiet() -> bool:
            return await state() == "draining"

        await eventually(is_quiet)
        job = await app.submit("a.b.v1")
        await workers.direct(db, "w", None)

        async def done() -> bool:
            return (await app.get(job)).status == "succeeded" and await state() == "running"

        await eventually(done)
        events = [event.event_type for event in await app.events(job)]
        assert events == ["created", "leased", "succeeded"]
