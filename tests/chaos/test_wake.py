"""How an idle worker finds work by polling, also rows of plain SQL; and how the registry moves a type between
runtimes."""

from pathlib import Path
from typing import Any

from tests.chaos.harness import Crew, Inbox, eventually

PLAIN = "insert into workflow.workflow_run (type, payload) values ($1, '{}') returning id"
REGISTER = """insert into workflow.workflow_registry (workflow_name, runtime) values ($1, $2)
on conflict (workflow_name) do update set runtime = excluded.runtime, is_enabled = true"""


async def succeeded(inbox: Inbox, job: Any, *, within: float = 10) -> None:
    async def look() -> bool:
        return await inbox.job(job) == ("succeeded",)

    await eventually(look, "the job had succeeded", within=within)


async def test_a_plain_insert_is_found_by_an_idle_worker_without_any_notification(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.working([crew.start("ann")])
        await succeeded(inbox, await inbox.value(PLAIN, "chaos.record.v1"))  # from now on it is idle
        job = await inbox.value(PLAIN, "chaos.record.v1")
        await succeeded(inbox, job)
        waited = await inbox.value(
            "select extract(epoch from e.at - j.created_at) from effects e"
            " join workflow.workflow_run j on j.id = job_id where j.id = $1",
            job,
        )
        assert waited < 3


async def test_a_row_that_becomes_due_later_is_found_when_it_is_due(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.working([crew.start("ann")])
        job = await inbox.value(
            "insert into workflow.workflow_run (type, payload, run_at)"
            " values ('chaos.record.v1', '{}', now() + interval '1.5 seconds') returning id"
        )
        await succeeded(inbox, job)
        assert await inbox.value(
            "select e.at >= j.run_at from effects e join workflow.workflow_run j on j.id = job_id where j.id = $1", job
        )


async def test_a_type_without_a_handler_is_left_untouched(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        crew.start("ann")
        foreign = await inbox.value(PLAIN, "chaos.foreign.v1")
        await succeeded(inbox, await inbox.value(PLAIN, "chaos.record.v1"))
        await succeeded(inbox, await inbox.value(PLAIN, "chaos.record.v1"))
        assert await inbox.job(foreign, "status, attempt, lost, claim_no, leased_by, last_error") == (
            "pending",
            0,
            0,
            0,
            None,
            None,
        )
        assert await inbox.events_of(foreign) == ["created"]


async def test_a_registry_row_moves_a_type_to_another_runtime_and_back(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.working([crew.start("ann")])
        await inbox.execute(REGISTER, "chaos.record.v1", "python")
        await succeeded(inbox, await inbox.value(PLAIN, "chaos.record.v1"))

        await inbox.execute(REGISTER, "chaos.record.v1", "go")
        left = await eventually(lambda: left_alone(inbox), "a job was left to the other runtime", within=20)

        await inbox.execute(REGISTER, "chaos.record.v1", "python")
        await succeeded(inbox, left)


async def left_alone(inbox: Inbox) -> Any:
    """Return a job that is still pending after later jobs of another type have succeeded, if there is one."""
    job = await inbox.value(PLAIN, "chaos.record.v1")
    for _ in range(2):
        await succeeded(inbox, await inbox.value(PLAIN, "chaos.noop.v1"))
    return job if await inbox.job(job) == ("pending",) else None


async def test_a_worker_stops_claiming_a_backlog_whose_type_moves_to_another_runtime(
    inbox: Inbox, tmp_path: Path
) -> None:
    """600 jobs at 10 per second: no job is claimed a few seconds after the registry row has changed."""
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.submit("chaos.slow.v1", 600, {"seconds": 0.2})
        crew.start("ann", concurrency=2)

        async def begun() -> bool:
            return await inbox.count("succeeded") > 0

        async def quiet() -> bool:
            return await inbox.count("leased") == 0

        await eventually(begun, "the backlog was being worked off")
        await inbox.execute(REGISTER, "chaos.slow.v1", "go")
        await eventually(quiet, "the worker had stopped claiming the type", within=15)
        assert await inbox.count("pending") > 300
        await inbox.execute("update workflow.workflow_registry set deleted_at = now()")
        before = await inbox.count("succeeded")

        async def again() -> bool:
            return await inbox.count("succeeded") > before

        await eventually(again, "the worker had resumed claiming the type", within=15)


async def test_an_urgent_job_overtakes_a_backlog_of_another_type(inbox: Inbox, tmp_path: Path) -> None:
    with Crew(inbox.url, tmp_path) as crew:
        await inbox.submit("chaos.slow.v1", 600, {"seconds": 0.2})
        crew.start("ann", concurrency=2)

        async def begun() -> bool:
            return await inbox.count("succeeded") > 0

        await eventually(begun, "the backlog was being worked off")
        (urgent,) = await inbox.submit("chaos.record.v1", 1, priority=1)
        await succeeded(inbox, urgent, within=25)
        assert await inbox.count("pending") > 300
