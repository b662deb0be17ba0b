"""Adopted jobs run on workers with their wrappers and by the rules of the in-process scheduler."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from tests.runtime.adoption_harness import cron_with, nothing_to_do, workflow
from tests.runtime.conftest import Working, eventually
from windlass import Windlass
from windlass.core.jobs.job import TERMINAL
from windlass.cron import (
    Condition,
    Cron,
    jitter,
    job_context,
    recover,
    retry_with_backoff,
    timeout,
    workflow_execution_id,
)

MILLISECOND = timedelta(milliseconds=1)


async def test_every_step_sees_the_id_of_its_run(app: Windlass, working: Working) -> None:
    seen: list[tuple[str, str]] = []

    async def note() -> None:
        context = job_context()
        assert context is not None
        seen.append((context.name, workflow_execution_id()))

    app.adopt(cron_with(workflow("ids", {"a": note, "b": note}, [("a", "b", Condition.SUCCESS)])))
    async with working(app):
        run = await app.start("ids")
        await run.wait(timeout=30)
    assert seen == [("a", str(run.id)), ("b", str(run.id))]


async def test_wrappers_run_around_the_job_in_order(app: Windlass, working: Working) -> None:
    tries: list[str] = []

    def noting(name: str) -> Callable[[Any], Any]:
        def wrapper(call: Any) -> Any:
            async def around() -> Any:
                tries.append(name)
                return await call()

            return around

        return wrapper

    def flaky() -> None:
        tries.append(threading.current_thread().name.partition("_")[0])
        if len(tries) < 4:
            raise ValueError("not yet")

    retry = retry_with_backoff(3, initial=MILLISECOND)
    wrappers = [jitter(MILLISECOND), retry, noting("inner"), timeout(timedelta(seconds=5)), recover()]
    cron = Cron(wrappers=[noting("outer")])
    cron.add("@triggered", flaky, name="flaky", wrappers=wrappers)
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("flaky")).wait(timeout=30)).steps == {"run": "succeeded"}
    assert tries == ["outer", "inner", "windlass-job", "inner", "windlass-job"]


async def test_a_job_that_exceeds_its_timeout_wrapper_fails_and_its_context_is_cancelled(
    app: Windlass, working: Working
) -> None:
    cancelled = threading.Event()

    def endless() -> None:
        context = job_context()
        assert context is not None
        if context.wait_cancelled(30):
            cancelled.set()

    cron = Cron()
    cron.add("@triggered", endless, name="endless", wrappers=[timeout(20 * MILLISECOND)])
    app.adopt(cron)
    async with working(app):
        run = await app.start("endless")
        assert (await run.wait(timeout=30)).steps == {"run": "failed"}
        assert await asyncio.to_thread(cancelled.wait, 10)
        (job,) = (await app.list(type_="cron.endless")).jobs
        assert (await app.get(job.id)).errors[-1]["type"] == "JobTimedOut"


@pytest.mark.parametrize("wrappers", [[], [recover()]], ids=["bare", "recovered"])
async def test_a_failed_job_is_not_retried(app: Windlass, working: Working, wrappers: list[Any]) -> None:
    calls: list[int] = []

    def broken() -> None:
        calls.append(1)
        raise ValueError("broken")

    cron = Cron()
    cron.add("@triggered", broken, name="broken", wrappers=wrappers)
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("broken")).wait(timeout=30)).steps == {"run": "failed"}
        lone = await app.submit("cron.broken")  # outside of a run `recover` hides it from wrappers only, too
        assert await eventually(partial(ended, app, lone)) == "failed"
    assert len(calls) == 2


async def ended(app: Windlass, id_: UUID) -> str | None:
    status = (await app.get(id_)).status
    return status if status in TERMINAL else None


async def test_a_job_that_raises_cancelled_error_fails_and_is_not_retried(app: Windlass, working: Working) -> None:
    calls: list[int] = []

    async def cut_off() -> None:
        calls.append(1)
        raise asyncio.CancelledError

    cron = Cron()
    cron.add("@triggered", cut_off, name="cut-off")
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("cut-off")).wait(timeout=30)).steps == {"run": "failed"}
    assert calls == [1]


async def test_a_return_value_that_is_not_json_is_stored_as_null(app: Windlass, working: Working) -> None:
    cron = Cron()
    cron.add("@triggered", object, name="returns")
    app.adopt(cron)
    async with working(app):
        assert (await (await app.start("returns")).wait(timeout=30)).value is None


async def test_cancelling_a_run_cancels_the_context_of_its_job(app: Windlass, working: Working) -> None:
    began, cancelled = threading.Event(), threading.Event()

    def patient() -> None:
        context = job_context()
        assert context is not None
        began.set()
        if context.wait_cancelled(30):
            cancelled.set()

    cron = Cron()
    cron.add("@triggered", patient, name="patient")
    app.adopt(cron)
    async with working(app):
        run = await app.start("patient")
        assert await asyncio.to_thread(began.wait, 20)
        await run.cancel()
        assert await asyncio.to_thread(cancelled.wait, 20)


async def test_a_job_that_raises_skip_is_a_skipped_step(app: Windlass, working: Working) -> None:
    cron = Cron()
    cron.add("@triggered", nothing_to_do, name="idle")
    app.adopt(cron)
    async with working(app):
        run = await app.start("idle")
        assert (await run.wait(timeout=30)).steps == {"run": "skipped"}
        (job,) = (await app.list(type_="cron.idle")).jobs
        (error,) = (await app.get(job.id)).errors
        assert (error["type"], error["message"]) == ("Skipped", "nothing to do")
