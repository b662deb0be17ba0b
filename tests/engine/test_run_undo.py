"""Compensation: a run that fails undoes its succeeded steps in reverse order and reports that."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, letters, reasons, state, tick
from windlass.core.definition.parser import parse
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, start, sweep
from windlass.engine.runs.start import RunSpec
from windlass.testing import Clock

Connection = Any
ORDER = {
    "reserve": {
        "job": "reserve",
        "compensate": {"job": "release", "input": {"place": "{{tasks.reserve.output.place}}"}},
    },
    "charge": {"job": "charge", "needs": ["reserve"], "compensate": {"job": "refund", "max_attempts": 2}},
    "ship": {"job": "ship", "needs": ["charge"], "max_attempts": 1},
}
BROKEN = {"reserve": {"place": 7}, "ship": Fails("no truck")}


async def begin_order(db: Tenant, tasks: dict[str, Any] = ORDER, name: str = "order", **options: Any) -> UUID:
    await deploy(db, tasks, name, **options)
    return (await start.start(db, name, [RunSpec(input={})]))[0]


async def deploy(db: Tenant, tasks: dict[str, Any], name: str, **options: Any) -> None:
    await workflows.deploy(db, [parse({"name": name, "tasks": tasks, **options})])


async def test_a_failed_run_compensates_succeeded_steps_in_reverse_order(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db)
    await worker.play(BROKEN)
    assert worker.seen == ["reserve", "charge", "ship", "charge.compensate", "reserve.compensate"]
    assert (await state(db, run), await letters(db, run)) == ("failed", "ssfss")
    assert (await reasons(db, run))[-1] == "step ship failed and no step handled it, compensated"


async def test_a_compensation_can_read_the_output_of_its_step(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db)
    payloads: list[Any] = []
    await worker.play({**BROKEN, "reserve.compensate": lambda job: payloads.append(job.payload)})
    assert [str(payload) for payload in payloads] == ['{"place": 7}']
    assert await runs.step_output(db, run, "reserve") == {"place": 7}


async def test_a_completed_run_compensates_no_steps(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db)
    await worker.play({"reserve": {"place": 7}})
    assert worker.seen == ["reserve", "charge", "ship"]
    assert (await state(db, run), await letters(db, run)) == ("completed", "ssskk")
    assert await runs.output(db, run) == "ship"


async def test_a_run_that_is_being_compensated_is_running_and_its_explanation_mentions_it(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin_order(db)
    for step in ("reserve", "charge", "ship"):
        await worker.end(await worker.take_one(step), BROKEN.get(step))
    job = await worker.take_one("charge.compensate")
    account, explained = await inspect.explanation(db, run)
    assert (account.state, account.is_undone) == ("running", True)
    assert account.reason == "step ship failed and no step handled it; the steps that succeeded are being undone"
    assert "It is being undone" in " ".join(explained.run)
    assert await worker.end(job)


async def test_a_failing_compensation_is_retried_and_reported_and_the_others_still_run(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin_order(db)
    await worker.play({**BROKEN, "charge.compensate": Fails("bank is closed")})
    assert worker.seen[3:] == ["charge.compensate", "charge.compensate", "reserve.compensate"]
    assert (await state(db, run), await letters(db, run)) == ("failed", "ssfsf")
    assert (await reasons(db, run))[-1].endswith(", 1 of 2 compensations failed: charge")


async def test_a_compensation_whose_template_has_no_value_is_reported(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db)
    await worker.play({"ship": Fails()})
    assert (await state(db, run), await letters(db, run)) == ("failed", "ssffs")
    assert (await reasons(db, run))[-1].endswith(", 1 of 2 compensations failed: reserve")


@pytest.mark.parametrize("compensate", [True, False])
async def test_a_cancelled_run_is_compensated_only_on_request(
    db: Tenant, worker: ManualWorker, compensate: bool
) -> None:
    run = await begin_order(db)
    await worker.end(await worker.take_one("reserve"), {"place": 7})
    charging = await worker.take_one("charge")
    await runs.cancel(db, run, reason="changed their mind", compensate=compensate)
    await worker.end(charging, "paid")  # it was running and still succeeded
    await worker.play()
    assert await state(db, run) == "cancelled"
    undone = ["charge.compensate", "reserve.compensate"]
    assert worker.seen[2:] == (undone if compensate else [])
    assert (await reasons(db, run))[-1] == ("changed their mind, compensated" if compensate else "changed their mind")


async def test_an_expired_run_is_compensated_without_a_time_limit(
    db: Tenant, worker: ManualWorker, clock: Clock
) -> None:
    run = await begin_order(db, max_duration="1m")
    await worker.end(await worker.take_one("reserve"), {"place": 7})
    clock.move(timedelta(minutes=2))
    assert await sweep.expire(db) == 1
    assert await sweep.expire(db) == 0
    assert (await sweep.next_due(db))[2] is None
    await worker.play()
    assert (await state(db, run), await letters(db, run)) == ("timeout", "sccsk")
    assert (await reasons(db, run))[-1] == "the run exceeded its max_duration, compensated"


async def test_the_final_step_runs_before_the_compensations(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db, {**ORDER, "report": {"job": "report", "final": True}})
    await worker.play(BROKEN)
    assert worker.seen[2:] == ["ship", "report", "charge.compensate", "reserve.compensate"]
    assert await state(db, run) == "failed"


async def test_a_retry_repeats_compensated_steps(db: Tenant, worker: ManualWorker) -> None:
    run = await begin_order(db)
    await worker.play(BROKEN)
    await runs.retry(db, run)
    worker.seen.clear()
    await worker.play({"reserve": {"place": 8}})
    assert worker.seen == ["reserve", "charge", "ship"]
    assert (await state(db, run), await letters(db, run)) == ("completed", "ssskk")


async def test_a_retry_keeps_a_step_whose_compensation_failed_and_can_compensate_it_later(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin_order(db)
    await worker.play({**BROKEN, "reserve.compensate": Fails(for_good=True)})
    assert await letters(db, run) == "ssffs"
    await runs.retry(db, run)
    worker.seen.clear()
    await worker.play({"ship": Fails()})
    assert worker.seen == ["charge", "ship", "charge.compensate", "reserve.compensate"]
    assert (await reasons(db, run))[-1].endswith(", compensated")


async def test_a_rerun_of_a_compensated_run_repeats_the_compensated_steps_first(
    db: Tenant, worker: ManualWorker
) -> None:
    run = await begin_order(db)
    await worker.play(BROKEN)
    await runs.rerun(db, run, "ship")
    worker.seen.clear()
    await worker.play({"reserve": {"place": 8}})
    assert worker.seen == ["reserve", "charge", "ship"]
    assert await state(db, run) == "completed"


# Whole child runs


PARENT = {
    "sub": {"workflow": "order"},
    "kept": {"workflow": "order", "compensate": False},
    "mail": {"job": "mail", "needs": ["sub", "kept"], "compensate": {"job": "unmail"}},
    "end": {"job": "end", "needs": ["mail"], "max_attempts": 1},
}


async def below(conn: Connection, run: UUID, step: int) -> UUID:
    id_: UUID = await conn.fetchval("select id from windlass.run where parent_id = $1 and parent_step = $2", run, step)
    return id_


async def test_a_completed_child_run_is_compensated_as_a_whole(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await deploy(db, ORDER, "order")
    run = await begin_order(db, PARENT, "parent")
    await worker.play({"reserve": {"place": 7}, "end": Fails()})
    assert worker.seen[-3:] == ["mail.compensate", "charge.compensate", "reserve.compensate"]
    assert (await state(db, run), await letters(db, run)) == ("failed", "sssfss")
    undone, kept = await below(conn, run, 0), await below(conn, run, 1)
    assert (await state(db, undone), await state(db, kept)) == ("cancelled", "completed")
    assert (await reasons(db, undone))[-1].endswith(", compensated")
    assert await conn.fetchval("select count(*) from windlass.notice") == 0


async def test_a_child_run_whose_compensation_fails_is_reported(db: Tenant, worker: ManualWorker) -> None:
    await deploy(db, ORDER, "order")
    run = await begin_order(db, PARENT, "parent")
    await worker.play({"reserve": {"place": 7}, "end": Fails(), "charge.compensate": Fails()})
    assert (await reasons(db, run))[-1].endswith(", 1 of 2 compensations failed: sub")


async def test_a_cancel_with_compensation_compensates_running_child_runs(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await deploy(db, ORDER, "order")
    run = await begin_order(db, PARENT, "parent")
    await tick(db)
    for job in await worker.take():
        await worker.end(job, {"place": 7})
    await runs.cancel(db, run, compensate=True)
    await worker.play()
    assert await state(db, run) == "cancelled"
    for step in (0, 1):
        kid = await below(conn, run, step)
        assert (await state(db, kid), (await letters(db, kid))[-1]) == ("cancelled", "s")


async def test_child_runs_of_a_fan_out_are_compensated_individually(db: Tenant, worker: ManualWorker) -> None:
    await deploy(db, ORDER, "order")
    tasks = {
        "subs": {"workflow": "order", "parallel": 3, "compensate": True},
        "end": {"job": "end", "needs": ["subs"], "max_attempts": 1},
    }
    run = await begin_order(db, tasks, "parent")
    await worker.play({"reserve": {"place": 7}, "end": Fails()})
    assert worker.seen.count("reserve.compensate") == 3
    assert (await state(db, run), await letters(db, run)) == ("failed", "sfs")


async def test_a_definition_with_compensations_survives_a_round_trip_through_its_document(db: Tenant) -> None:
    workflow = parse({"name": "parent", "tasks": PARENT})
    assert parse(workflow.to_document()) == workflow
    assert [step.name for step in workflow.steps[4:]] == ["sub.compensate", "mail.compensate"]
