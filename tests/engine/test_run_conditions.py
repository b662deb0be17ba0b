"""`if`s of runs: evaluated once all earlier steps have ended, and recorded with the values that they read."""

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.fake_services import ServiceWorker, answer, call, deploy, play, played, run_of
from tests.engine.harness import Fails, begin, letters, reasons, state, tick
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.testing import Clock

Connection = Any
BROKEN = Fails(for_good=True)


def job(*needs: str, when: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "job": "test.job.v1",
        **({"needs": list(needs)} if needs else {}),
        **({} if when is None else {"if": when}),
        **more,
    }


def http(*needs: str, **more: Any) -> dict[str, Any]:
    return {"url": "https://shop.example/x", **({"needs": list(needs)} if needs else {}), **more}


# Values


@pytest.mark.parametrize(
    ("condition", "status", "holds"),
    [
        ("tasks.a.status_code == 200", 200, True),
        ("tasks.a.status_code == 200", 201, False),
        ("tasks.a.status_code != 200", 402, True),
        ("tasks.a.status_code >= 400", 402, True),
        ("tasks.a.status_code >= 400", 302, False),
        ("tasks.a.status_code < 300", 204, True),
        ("tasks.a.status_code in [402, 409]", 409, True),
        ("tasks.a.status == 'success'", 302, True),
        ("tasks.a.status == 'failed'", 404, True),
        ("tasks.a.status == 'success'", 404, False),
        ("tasks.a.body.approved == true", 200, True),
        ("tasks.a.body.approved == true", 402, True),
        ("tasks.a.body.amount > 10", 200, True),
        ("tasks.a.body.amount > 10 && tasks.a.body.approved", 200, True),
        ("!tasks.a.body.approved || tasks.a.body.amount < 10", 200, False),
        ("tasks.a.body.missing == null", 200, True),
        ("tasks.a.body.missing == 1", 200, False),
        ("tasks.a.body.amount == '12'", 200, False),
        ("tasks.a.headers['X-Kind'] == 'test'", 200, True),
        ("tasks.a.error == null", 200, True),
        ("tasks.a.error != null", 404, True),
        ("trigger.body.vip", 200, True),
        ("run.attempt == 1", 200, True),
    ],
)
async def test_an_if_can_read_the_status_the_status_code_the_body_and_the_headers(
    db: Tenant, condition: str, status: int, holds: bool
) -> None:
    given = answer(status, {"approved": True, "amount": 12}, headers={"x-kind": "test"})
    run, _ = await played(db, {"a": http(), "b": job("a", when=condition)}, input={"vip": True}, a=given)
    assert (await letters(db, run))[1] == ("s" if holds else "k")


async def test_an_if_can_read_the_result_of_a_job_and_the_error_of_a_failed_one(db: Tenant) -> None:
    tasks = {
        "a": job(),
        "b": job(),
        "c": job("a", when="tasks.a.output.n == 1"),
        "d": job("b", when="tasks.b.error != null && tasks.b.status == 'failed' && tasks.b.body == null"),
    }
    run, _ = await played(db, tasks, a={"n": 1}, b=BROKEN)
    assert await letters(db, run) == "sfss"


async def test_a_timed_out_step_has_the_status_timeout(db: Tenant) -> None:
    late = Fails("timed out after 1 s", type="Timeout", for_good=True)
    run, _ = await played(db, {"a": job(), "b": job("a", when="tasks.a.status == 'timeout'")}, a=late)
    assert (await letters(db, run), await state(db, run)) == ("ts", "completed")


async def test_a_wait_has_the_status_received_or_timeout(db: Tenant, clock: Clock) -> None:
    wait = {"wait_for_webhook": {"timeout": "1h"}}
    tasks = {
        "paid": wait,
        "yes": job("paid", when="tasks.paid.status == 'received' && tasks.paid.body.status == 'paid'"),
        "no": job("paid", when="tasks.paid.status == 'timeout'"),
    }
    called, forgotten = await run_of(db, **tasks), await begin(db)
    await call(db, called, b'{"status": "paid"}')
    clock.move(timedelta(hours=1))
    await play(db)
    assert (await letters(db, called), await state(db, called)) == ("ssk", "completed")
    assert (await letters(db, forgotten), await state(db, forgotten)) == ("tks", "completed")


async def test_a_skipped_step_has_its_status_and_null_in_all_other_fields(db: Tenant) -> None:
    """The cascade rule, exactly as in the seed."""
    tasks = {
        "charge": http(**{"if": "false"}),
        "code": job("charge", when="tasks.charge.status_code == 200"),
        "status": job("charge", when="tasks.charge.status == 'skipped'"),
        "nulls": job("charge", when="tasks.charge.status_code == null && tasks.charge.body == null"),
        "plain": job("charge"),
        "further": job("plain"),
    }
    run, _ = await played(db, tasks)
    assert (await letters(db, run), await state(db, run)) == ("kksskk", "completed")
    assert await reasons(db, run, "code") == [
        "tasks.charge.status_code == 200 is false: tasks.charge.status_code is null"
    ]
    assert await reasons(db, run, "plain") == ["needs charge to succeed, but it was skipped"]
    assert await reasons(db, run, "further") == ["needs plain to succeed, but it was skipped"]


async def test_an_if_can_read_a_child_run_and_a_sleep(db: Tenant, clock: Clock) -> None:
    await deploy(db, "below", z=job())
    tasks = {
        "sub": {"workflow": "below"},
        "nap": {"sleep": "1h"},
        "c": job("sub", "nap", when="tasks.sub.output.n == 1 && tasks.nap.status == 'success'"),
    }
    run = await run_of(db, **tasks)
    clock.move(timedelta(hours=1))
    await play(db, z={"n": 1})
    assert await letters(db, run) == "sss"


async def test_a_truncated_body_is_null_and_the_reason_mentions_the_truncation(db: Tenant) -> None:
    tasks = {"a": http(), "b": job("a", when="tasks.a.body.n == 1")}
    run, _ = await played(db, tasks, a=answer(200, '{"n": 1, ', truncated=True))
    assert await letters(db, run) == "sk"
    assert "because the response from 'a' was truncated" in (await reasons(db, run, "b"))[0]


# When an `if` is evaluated


async def test_an_if_is_evaluated_only_when_all_needs_have_ended(db: Tenant, conn: Connection) -> None:
    tasks = {"a": job(), "b": job(), "c": job("a", "b", when="tasks.a.status == 'failed'")}
    run = await run_of(db, **tasks)
    worker = await play_some(db, "a")
    assert await letters(db, run) == "fa."
    assert await reasons(db, run, "c") == []
    await worker.end(worker.kept)
    assert await letters(db, run) == "fsa"


async def play_some(db: Tenant, broken: str) -> Any:
    """Fail one of two jobs and keep the other."""
    worker: Any = await ServiceWorker.registered(db)
    for claimed in await worker.take():
        if worker.step(claimed) == broken:
            await worker.end(claimed, BROKEN)
        else:
            worker.kept = claimed
    return worker


async def test_an_if_of_a_step_without_needs_is_evaluated_at_the_start_of_the_run(db: Tenant) -> None:
    tasks = {"a": job(when="trigger.body.go"), "b": job(when="!trigger.body.go")}
    run = await run_of(db, input={"go": True}, **tasks)
    assert await letters(db, run) == "ak"


async def test_needs_with_conditions_and_an_if_must_both_hold(db: Tenant) -> None:
    tasks = {
        "a": job(),
        "both": job(when="true") | {"needs": {"a": "failure"}},
        "edge": job(when="false") | {"needs": {"a": "failure"}},
        "if": job(when="true") | {"needs": {"a": "success"}},
    }
    run, _ = await played(db, tasks, a=BROKEN)
    assert await letters(db, run) == "fskk"


async def test_a_run_whose_ifs_are_all_false_completes_with_all_steps_skipped(db: Tenant) -> None:
    run = await run_of(db, a=job(when="false"), b=job("a"))
    assert (await letters(db, run), await state(db, run)) == ("kk", "completed")


# Status functions


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("fine", {"success": "s", "failure": "k", "always": "s"}),
        (BROKEN, {"success": "k", "failure": "s", "always": "s"}),
    ],
    ids=["well", "badly"],
)
async def test_success_failure_and_always_consider_all_upstream_steps(
    db: Tenant, end: Any, expected: dict[str, str]
) -> None:
    """The step is two edges downstream, behind a step that is skipped if the first one fails."""
    tasks = {"a": job(), "b": job("a")} | {name: job("b", when=f"{name}()") for name in expected}
    run, _ = await played(db, tasks, a=end)
    assert dict(zip(expected, (await letters(db, run))[2:], strict=True)) == expected
    assert await state(db, run) == "completed"


async def test_failure_ignores_steps_that_are_not_upstream(db: Tenant) -> None:
    tasks = {"a": job(), "x": job(), "b": job("a", when="failure()")}
    run, _ = await played(db, tasks, x=BROKEN)
    assert (await letters(db, run), await state(db, run)) == ("sfk", "failed")


async def test_a_skipped_step_is_neither_a_success_nor_a_failure(db: Tenant) -> None:
    tasks = {"a": job(when="false"), "s": job("a", when="success()"), "f": job("a", when="failure()")}
    run, _ = await played(db, tasks)
    assert await letters(db, run) == "kkk"


async def test_a_timeout_and_a_template_error_are_failures(db: Tenant, clock: Clock) -> None:
    tasks = {
        "paid": {"wait_for_webhook": {"timeout": "1h"}},
        "fill": job(input="{{input.no}}"),
        "a": job("paid", when="failure()"),
        "b": job("fill", when="failure()"),
    }
    run = await run_of(db, **tasks)
    clock.move(timedelta(hours=1))
    await play(db)
    assert (await letters(db, run), await state(db, run)) == ("tfss", "completed")


# Reasons


async def test_the_reason_of_a_skipped_step_contains_the_condition_and_its_values(db: Tenant, conn: Connection) -> None:
    tasks = {"a": http(), "b": job("a", when="tasks.a.status_code == 200 && tasks.a.body.ok")}
    run, _ = await played(db, tasks, a=answer(402, {"ok": False}))
    told = "tasks.a.status_code == 200 && tasks.a.body.ok is false: tasks.a.status_code is 402"
    assert await reasons(db, run, "b") == [told]
    row = await conn.fetchrow("select word, code from windlass.event where run_id = $1 and reason = $2", run, told)
    assert tuple(row) == ("skipped", "if")


async def test_the_reason_of_a_step_that_ran_is_recorded_too(db: Tenant) -> None:
    run, _ = await played(db, {"a": http(), "b": job("a", when="tasks.a.body.n > 1")}, a=answer(200, {"n": 2}))
    assert await reasons(db, run, "b") == ["tasks.a.body.n > 1 is true: tasks.a.body.n is 2"]


async def test_a_reason_truncates_large_values_and_hides_secret_headers(db: Tenant) -> None:
    tasks = {
        "a": http(),
        "b": job("a", when="tasks.a.body.t == 'x'"),
        "c": job("a", when="tasks.a.headers.set-cookie == 'x'"),
    }
    run, _ = await played(db, tasks, a=answer(200, {"t": "y" * 5000}, headers={"set-cookie": "secret"}))
    [told], [hidden] = await reasons(db, run, "b"), await reasons(db, run, "c")
    assert len(told) < 200
    assert "secret" not in hidden
    assert "is not shown" in hidden


async def test_the_reason_explains_why_failure_is_false(db: Tenant) -> None:
    run, _ = await played(db, {"a": job(), "b": job("a", when="failure()")})
    assert await reasons(db, run, "b") == ["failure() is false: no step before it failed"]


# Fan-outs and the final step


async def test_an_if_of_a_fan_out_is_evaluated_once_for_all_instances(db: Tenant) -> None:
    tasks = {
        "a": job(),
        "yes": job("a", foreach="a.list", when="len(tasks.a.body.list) == 2"),
        "no": job("a", foreach="a.list", when="len(tasks.a.body.list) == 3"),
        "never": job("a", foreach="a.nothing", when="false"),
    }
    run, worker = await played(db, tasks, a={"list": [1, 2]})
    assert (await letters(db, run), await state(db, run)) == ("sskk", "completed")
    assert worker.seen == ["a", "yes", "yes"]
    assert len(await reasons(db, run, "yes")) == 1


async def test_an_if_can_read_the_instances_of_a_fan_out(db: Tenant) -> None:
    tasks = {
        "a": http(parallel=3),
        "b": job("a", when="len(tasks.a.body) == 3 && tasks.a.body[1].n == 1 && tasks.a.status == 'success'"),
        "none": job(parallel=0),
        "c": job("none", when="len(tasks.none.body) == 0 && tasks.none.status == 'success'"),
    }
    run, _ = await played(db, tasks, a=lambda claimed: answer(200, {"n": claimed.item}))
    assert await letters(db, run) == "ssss"


async def test_a_failed_instance_fails_the_step_and_an_if_can_handle_it(db: Tenant) -> None:
    def end(claimed: Any) -> Any:
        return BROKEN if claimed.item == 1 else {"n": claimed.item}

    tasks = {"a": job(parallel=3), "b": job("a", when="tasks.a.status == 'failed' && tasks.a.body[2].n == 2")}
    run, _ = await played(db, tasks, a=lambda claimed: end(claimed))
    assert (await letters(db, run), await state(db, run)) == ("fs", "completed")


@pytest.mark.parametrize(
    ("when", "end", "letter", "verdict"),
    [
        ("tasks.a.status == 'failed'", BROKEN, "s", "failed"),
        ("tasks.a.status == 'failed'", "fine", "k", "completed"),
        ("failure()", BROKEN, "s", "failed"),
        ("success()", "fine", "s", "completed"),
        ("always()", BROKEN, "s", "failed"),
    ],
)
async def test_an_if_of_the_final_step_reads_all_steps_and_handles_no_failure(
    db: Tenant, when: str, end: Any, letter: str, verdict: str
) -> None:
    tasks = {"a": job(), "b": job(), "clean": {"job": "test.clean.v1", "final": True, "if": when}}
    run, _ = await played(db, tasks, a=end)
    assert ((await letters(db, run))[2], await state(db, run)) == (letter, verdict)


# Handled failures


@pytest.mark.parametrize(
    ("tasks", "found", "verdict"),
    [
        ({"a": job()}, "f", "failed"),
        ({"a": job(), "b": job("a")}, "fk", "failed"),
        ({"a": job(), "b": job() | {"needs": {"a": "failure"}}}, "fs", "completed"),
        ({"a": job(), "b": job() | {"needs": {"a": "complete"}}}, "fs", "failed"),
        ({"a": job(), "b": job("a", when="tasks.a.status == 'failed'")}, "fs", "completed"),
        ({"a": job(), "b": job("a", when="tasks.a.status == 'success'")}, "fk", "failed"),
        ({"a": job(), "b": job("a"), "c": job("b", when="failure()")}, "fks", "completed"),
        ({"a": job(), "b": job("a"), "c": job() | {"needs": {"b": "skipped"}}}, "fks", "failed"),
        ({"a": job(), "b": job("a", when="true"), "c": job("b", when="false")}, "fsk", "completed"),
        ({"a": job(), "x": job(), "b": job("x", when="true")}, "fss", "failed"),
        ({"a": job(), "b": job("a", on_failure="run")}, "fs", "failed"),
    ],
)
async def test_a_failure_is_handled_only_by_a_failure_edge_or_a_true_if_downstream(
    db: Tenant, tasks: dict[str, Any], found: str, verdict: str
) -> None:
    run, _ = await played(db, tasks, a=BROKEN)
    assert (await letters(db, run), await state(db, run)) == (found, verdict)


async def test_the_failure_of_a_step_that_handles_a_failure_is_not_handled(db: Tenant) -> None:
    run, _ = await played(db, {"a": job(), "b": job("a", when="failure()")}, a=BROKEN, b=BROKEN)
    assert (await letters(db, run), await state(db, run)) == ("ff", "failed")


async def test_every_failure_must_be_handled(db: Tenant) -> None:
    tasks = {"a": job(), "b": job(), "c": job("a", when="tasks.a.status == 'failed'")}
    run, _ = await played(db, tasks, a=BROKEN, b=BROKEN)
    assert await state(db, run) == "failed"


async def test_an_if_is_evaluated_only_after_the_last_attempt(db: Tenant) -> None:
    """The `if` is not evaluated between retries."""
    tasks = {"a": http(retries=2), "b": job("a", when="tasks.a.status_code == 200 && tasks.a.attempt == 3")}
    run = await run_of(db, **tasks)
    worker = await ServiceWorker.registered(db)
    for n in range(3):
        claimed = await worker.take_one("a")
        assert await letters(db, run) == "a."
        failing = Fails(type="HttpStatus")
        await worker.end(claimed, failing if n < 2 else answer(200))
        await tick(db)
    assert await letters(db, run) == "sa"


# Reruns and batches


async def test_a_rerun_evaluates_ifs_again_with_the_new_values(db: Tenant) -> None:
    tasks = {"a": http(), "b": job("a", when="tasks.a.status_code == 200"), "c": job("a", when="failure()")}
    run, worker = await played(db, tasks, a=answer(402))
    assert await letters(db, run) == "fks"
    await runs.rerun(db, run, "a")
    await worker.play({"a": answer(200)})
    assert (await letters(db, run), await state(db, run)) == ("ssk", "completed")


async def test_ifs_of_many_runs_are_evaluated_in_one_batch(db: Tenant) -> None:
    await deploy(db, a=job(), b=job("a", when="tasks.a.body.n == trigger.body.n"), c=job("a", when="input.n > 99"))
    ids = await start.start(db, "w", [RunSpec(input={"n": n}) for n in range(200)])
    await play(db, a=lambda claimed: {"n": ids.index(claimed.run_id)})
    assert [await letters(db, run) for run in ids] == ["ssk"] * 100 + ["sss"] * 100
