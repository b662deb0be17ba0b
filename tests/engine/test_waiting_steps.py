"""Steps that wait for messages: their ends and outputs, and the effects of cancel, retry and timeouts."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.fake_services import play, run_of
from tests.engine.harness import letters, reasons, state, tick
from tests.engine.quarantine_harness import aside
from windlass.engine import messages
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, sweep
from windlass.errors import Gone
from windlass.runtime.loops.background import Timers
from windlass.testing import Clock

Connection = Any
HOUR = timedelta(hours=1)
PAID = {"wait_for_event": {"name": "paid", "key": "{{trigger.body.order}}", "timeout": "1h"}}
SHIP = {"needs": ["paid"], "job": "test.ship.v1", "input": {"got": "{{tasks.paid.body}}"}}
SIGNAL = {"wait_for_event": "paid"}


async def waiting(db: Tenant, paid: Any = PAID, **tasks: Any) -> UUID:
    """Start a run whose step `paid` waits."""
    return await run_of(db, input={"order": 42}, paid=paid, ship=SHIP, **tasks)


async def output(db: Tenant, run: UUID, step: str = "paid") -> Any:
    return await runs.step_output(db, run, step)


async def test_a_step_ends_with_the_event_of_its_name_and_key_and_returns_the_payload(db: Tenant) -> None:
    run = await waiting(db)
    await messages.publish(db, "paid", key="43", payload="of another order")
    await tick(db)
    assert await letters(db, run) == "a."
    await messages.publish(db, "paid", key="42", payload={"cents": 995})
    worker = await play(db)
    assert (await letters(db, run), await state(db, run)) == ("ss", "completed")
    assert worker.payloads["ship"] == [{"got": {"cents": 995}}]
    assert await output(db, run) == {"cents": 995}


async def test_every_waiting_run_receives_the_event(db: Tenant) -> None:
    run, other = await waiting(db), await waiting(db)
    await messages.publish(db, "paid", key="42")
    await tick(db)
    assert (await letters(db, run), await letters(db, other)) == ("sa", "sa")


async def test_without_a_key_the_step_waits_for_a_signal_to_its_run(db: Tenant) -> None:
    run, other = await waiting(db, SIGNAL), await waiting(db, SIGNAL)
    await messages.signal(db, run, "paid", payload=[1, None])
    await tick(db)
    assert (await letters(db, run), await letters(db, other)) == ("sa", "a.")
    assert await output(db, run) == [1, None]


async def test_a_step_that_waits_for_several_messages_returns_a_list(db: Tenant) -> None:
    run = await waiting(db, {"wait_for_event": {"name": "vote", "count": 2}})
    await messages.signal(db, run, "vote", payload="yes")
    await tick(db)
    assert await letters(db, run) == "a."
    await messages.signal(db, run, "vote", payload="no")
    await tick(db)
    assert (await letters(db, run), await output(db, run)) == ("sa", ["yes", "no"])


async def test_a_message_that_arrives_before_its_step_waits_is_kept(db: Tenant) -> None:
    run = await waiting(db, SIGNAL | {"needs": ["first"]}, first={"job": "test.first.v1"})
    await messages.signal(db, run, "paid", payload="early")
    await messages.route(db)
    await play(db)
    assert (await state(db, run), await output(db, run)) == ("completed", "early")


async def test_the_second_wait_of_a_run_receives_the_second_message(db: Tenant) -> None:
    again = {"needs": ["paid"], **PAID}
    run = await run_of(db, input={"order": 42}, paid=PAID, again=again)
    for number in (1, 2):
        await messages.publish(db, "paid", key="42", payload=number)
    for _ in range(3):
        await tick(db)
    assert await letters(db, run) == "ss"
    assert (await output(db, run), await output(db, run, "again")) == (1, 2)


# Timeouts


async def test_a_wait_times_out_and_its_dependents_are_skipped(db: Tenant, clock: Clock) -> None:
    run = await waiting(db)
    clock.move(HOUR)
    await tick(db)
    assert (await letters(db, run), await state(db, run)) == ("tk", "failed")
    assert await reasons(db, run, "paid") == ["no message arrived in time"]
    await messages.publish(db, "paid", key="42")
    await tick(db)
    assert await letters(db, run) == "tk"


async def test_a_message_sent_before_the_timeout_is_received_even_if_it_is_routed_later(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    run = await waiting(db)
    await messages.publish(db, "paid", key="42", payload=1)
    clock.move(2 * HOUR)
    await messages.route(db)
    await sweep.wake(db)
    assert (await letters(db, run), await output(db, run)) == ("sa", 1)
    assert await conn.fetchval("select count(*) from windlass.timer") == 0


async def test_the_timer_of_a_wait_ends_with_its_message(db: Tenant, conn: Connection) -> None:
    await waiting(db)
    assert await conn.fetchval("select count(*) from windlass.timer") == 1
    await messages.publish(db, "paid", key="42")
    await tick(db)
    assert await conn.fetchval("select count(*) from windlass.timer") == 0


# Cancel, retry and rerun


async def test_a_cancelled_run_receives_no_signals(db: Tenant) -> None:
    run = await waiting(db, SIGNAL)
    await runs.cancel(db, run)
    assert await letters(db, run) == "cc"
    with pytest.raises(Gone, match="has ended"):
        await messages.signal(db, run, "paid")


async def test_a_message_that_arrived_before_the_cancel_is_recorded_as_received(db: Tenant) -> None:
    run = await waiting(db, SIGNAL)
    await messages.signal(db, run, "paid", payload="just in time")
    await messages.route(db)
    await runs.cancel(db, run)
    assert (await letters(db, run), await output(db, run)) == ("sc", "just in time")


async def test_a_retried_wait_receives_a_message_that_arrived_after_its_timeout(db: Tenant, clock: Clock) -> None:
    run = await waiting(db)
    clock.move(HOUR)
    await tick(db)
    await messages.publish(db, "paid", key="42", payload="late")
    await messages.route(db)
    await runs.retry(db, run)
    await tick(db)
    assert (await letters(db, run), await output(db, run)) == ("sa", "late")


async def test_a_rerun_wait_needs_another_message(db: Tenant) -> None:
    run = await waiting(db)
    await messages.publish(db, "paid", key="42", payload=1)
    await play(db)
    await runs.rerun(db, run, "paid")
    await tick(db)
    assert (await letters(db, run), await output(db, run)) == ("a.", None)
    await messages.publish(db, "paid", key="42", payload=2)
    await play(db)
    assert (await letters(db, run), await output(db, run)) == ("ss", 2)


# Templates


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"name": "paid", "key": "{{trigger.body.nothing}}"}, "nothing"),
        ({"name": "paid", "key": "{{trigger.body}}"}, "key is {'order': 42}"),
        ({"name": "{{trigger.body.order}}"}, "name is 42"),
    ],
)
async def test_a_step_whose_templates_have_no_usable_value_fails_with_the_reason(
    db: Tenant, event: dict[str, str], why: str
) -> None:
    run = await waiting(db, {"wait_for_event": event})
    assert (await letters(db, run), await state(db, run)) == ("fk", "failed")
    [reason] = await reasons(db, run, "paid")
    assert why in reason


async def test_the_explanation_of_a_run_contains_what_its_step_waits_for(db: Tenant) -> None:
    run = await waiting(db)
    [paid, _] = (await inspect.snapshot(db, run)).steps
    assert paid.awaited is not None
    assert paid.awaited.text == "event paid, key 42"
    explained = (await inspect.explanation(db, run))[1].steps[0].sentences
    assert "It waits for event paid, key 42, until" in " ".join(explained)


# Failures


async def test_a_run_that_cannot_be_advanced_delays_no_other_and_is_retried(db: Tenant, conn: Connection) -> None:
    bad, good = await waiting(db), await waiting(db)
    await conn.execute("update windlass.run set fans = '{\"x\": [1]}' where id = $1", bad)
    await messages.publish(db, "paid", key="42")
    await tick(db)
    assert (await letters(db, good), await aside(db)) == ("sa", [("run", str(bad))])
    await conn.execute("update windlass.run set fans = null where id = $1", bad)
    assert await sweep.retry(db, bad)
    assert await letters(db, bad) == "sa"


async def test_the_timer_loop_routes_a_message_that_arrived_in_time_before_it_ends_the_wait(
    db: Tenant, clock: Clock
) -> None:
    run = await waiting(db)
    await messages.publish(db, "paid", key="42", payload=1)  # not routed yet
    clock.move(2 * HOUR)
    await Timers(db).tick()
    assert (await letters(db, run), await output(db, run)) == ("sa", 1)
