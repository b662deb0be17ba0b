"""Starting and stopping, on an event loop and in a thread, and calls from any thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import pytest

from tests.cron.recorder import Recorder
from windlass.cron import Cron, EntryNotFound, FakeClock, JobContext, StillStopping, job_context, workflow_execution_id
from windlass.cron.lifecycle import ThreadGate

PATIENCE = 5.0
owner: ContextVar[str] = ContextVar("owner", default="nobody")


@pytest.fixture
def threaded(clock: FakeClock) -> Iterator[Cron]:
    cron = Cron(clock=clock)
    cron.start()
    yield cron
    cron.stop(PATIENCE)


def together(count: int, work: Callable[[int], object]) -> None:
    """Run `work` in `count` threads at once."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def main(n: int) -> None:
        try:
            barrier.wait(PATIENCE)
            work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=main, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []


def test_start_runs_the_scheduler_in_a_background_thread(threaded: Cron, clock: FakeClock) -> None:
    ran = threading.Event()
    threaded.add("@every 1s", ran.set)
    assert threaded.running
    clock.advance(1)
    assert ran.wait(PATIENCE)


def test_async_jobs_run_in_the_background_thread(threaded: Cron) -> None:
    ran = threading.Event()

    async def job() -> None:
        await asyncio.sleep(0)
        ran.set()

    threaded.add("@triggered", job, name="a")
    threaded.trigger("a")
    assert ran.wait(PATIENCE)


def test_starting_a_running_scheduler_does_nothing(threaded: Cron) -> None:
    before = threading.active_count()
    threaded.start()
    assert threading.active_count() == before


def test_stop_waits_for_running_jobs(threaded: Cron) -> None:
    began, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        gate.wait(PATIENCE)
        ended.set()

    threaded.add("@triggered", job, name="a")
    threaded.trigger("a")
    assert began.wait(PATIENCE)
    assert not threaded.stop(timeout=0.01)
    assert not threaded.running
    gate.set()
    assert threaded.stop(PATIENCE)
    assert ended.is_set()


def test_a_scheduler_cannot_be_started_while_it_is_stopping(threaded: Cron) -> None:
    began, gate = threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        gate.wait(PATIENCE)

    threaded.add("@triggered", job, name="a")
    threaded.trigger("a")
    assert began.wait(PATIENCE)
    threaded.stop(timeout=0)
    with pytest.raises(StillStopping):
        threaded.start()
    gate.set()
    threaded.stop(PATIENCE)
    threaded.start()
    assert threaded.running


def test_stopping_a_stopped_scheduler_does_nothing(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    assert cron.stop()
    cron.start()
    assert cron.stop(PATIENCE)
    assert cron.stop(PATIENCE)


def test_a_stopped_scheduler_can_be_started_again(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    ran = threading.Semaphore(0)
    cron.add("@every 1s", ran.release)
    for _ in range(3):
        cron.start()
        clock.advance(1)
        assert ran.acquire(timeout=PATIENCE)
        assert cron.stop(PATIENCE)
    clock.advance(10)
    assert not ran.acquire(blocking=False)


def test_a_job_may_stop_its_scheduler(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    answers: list[bool] = []
    cron.start()
    cron.add("@triggered", lambda: answers.append(cron.stop()), name="a")
    cron.trigger("a")
    assert cron.stop(PATIENCE)
    assert answers == [False]


def test_a_stop_cancels_the_context_of_running_jobs(threaded: Cron) -> None:
    began = threading.Event()
    told: list[bool] = []

    def job() -> None:
        context = job_context()
        assert isinstance(context, JobContext)
        began.set()
        told.append(context.wait_cancelled(PATIENCE))

    threaded.add("@triggered", job, name="a")
    threaded.trigger("a")
    assert began.wait(PATIENCE)
    assert threaded.stop(PATIENCE)
    assert told == [True]


def test_a_running_scheduler_can_be_called_from_many_threads(threaded: Cron, clock: FakeClock) -> None:
    def work(n: int) -> None:
        for m in range(25):
            name = f"{n}-{m}"
            threaded.add("@hourly", lambda: None, name=name)
            threaded.add("@triggered", lambda: None, name=name + " child")
            threaded.add_dependency(name + " child", name)
            threaded.trigger(name)
            threaded.pause(name)
            threaded.entries()
            threaded.active_workflows()
            if m % 2:
                threaded.remove(name)

    together(8, work)
    assert threaded.wait(timeout=PATIENCE)
    assert len(threaded.entries()) == 8 * 25 * 2 - 8 * 12
    assert threaded.active_workflows() == []


def test_a_scheduler_can_be_called_from_many_threads_before_the_start(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    together(8, lambda n: [cron.add("@hourly", print, name=f"{n}-{m}") for m in range(50)])
    assert len(cron.entries()) == 400


def test_calls_that_race_with_start_and_stop_are_all_executed(clock: FakeClock) -> None:
    cron = Cron(clock=clock)

    def work(n: int) -> None:
        for m in range(30):
            if n == 0:
                cron.start()
                cron.stop(PATIENCE)
            else:
                cron.add("@hourly", print, name=f"{n}-{m}")

    together(4, work)
    assert len(cron.entries()) == 90


def test_errors_are_raised_in_the_calling_thread(threaded: Cron) -> None:
    with pytest.raises(EntryNotFound, match="nobody"):
        threaded.trigger("nobody")


def test_a_thread_can_wait_for_jobs(threaded: Cron) -> None:
    gate = threading.Event()
    threaded.add("@triggered", lambda: gate.wait(PATIENCE), name="a")
    assert threaded.wait("a", timeout=PATIENCE)
    threaded.trigger("a")
    assert not threaded.wait("a", timeout=0.01)
    gate.set()
    assert threaded.wait("a", timeout=PATIENCE)
    assert threaded.wait(timeout=PATIENCE)


def test_job_threads_see_the_execution_id_and_the_context_variables_set_at_the_start(clock: FakeClock) -> None:
    seen: list[tuple[str, str]] = []
    cron = Cron(clock=clock)
    owner.set("me")
    cron.start()
    for name in "ab":
        cron.add("@triggered", lambda: seen.append((workflow_execution_id(), owner.get())), name=name)
    cron.add_dependency("b", "a")
    execution_id = cron.trigger("a")
    assert cron.wait(timeout=PATIENCE)
    cron.stop(PATIENCE)
    owner.set("nobody")
    assert seen == [(execution_id, "me")] * 2


def test_a_job_triggered_by_a_sync_job_does_not_inherit_its_execution(threaded: Cron) -> None:
    seen: list[str] = []
    threaded.add("@triggered", lambda: seen.append(workflow_execution_id()), name="other")
    threaded.add("@triggered", lambda: threaded.trigger("other"), name="a")
    threaded.add("@triggered", lambda: None, name="b")
    threaded.add_dependency("b", "a")
    assert threaded.trigger("a")
    assert threaded.wait(timeout=PATIENCE)
    assert threaded.wait(timeout=PATIENCE)
    assert seen == [""]


async def test_run_returns_when_the_scheduler_is_stopped(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    cron.add("@triggered", recorder.job("a"), run_immediately=True)
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(cron.stop))
    async with asyncio.timeout(PATIENCE):
        await cron.run()
    assert recorder.lines == ["a"]
    assert not cron.running


async def test_cancelling_run_waits_for_the_jobs(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    job, gate = recorder.held("a")
    cron.add("@triggered", job, run_immediately=True)
    running = asyncio.create_task(cron.run())
    while not recorder.lines:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    assert not cron.running
    assert not running.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cron.stop()


async def test_run_returns_immediately_on_a_running_scheduler(cron: Cron) -> None:
    async with asyncio.timeout(PATIENCE):
        await cron.run()
    assert cron.running


async def test_other_threads_may_call_a_scheduler_on_a_loop(cron: Cron, recorder: Recorder) -> None:
    await asyncio.to_thread(cron.add, "@triggered", recorder.job("a"), name="a")
    await asyncio.to_thread(cron.trigger, "a")
    assert await asyncio.to_thread(cron.wait, None, PATIENCE)
    assert recorder.lines == ["a"]


async def test_another_thread_may_stop_a_scheduler_on_a_loop(clock: FakeClock) -> None:
    async with Cron(clock=clock) as cron:
        assert await asyncio.to_thread(cron.stop, PATIENCE)
        assert not cron.running


async def test_a_coroutine_can_advance_the_fake_clock_of_a_scheduler_in_a_thread(
    threaded: Cron, clock: FakeClock
) -> None:
    ran: list[int] = []
    threaded.add("@every 1s", lambda: ran.append(1))
    await clock.play(5, threaded)
    assert len(ran) == 5


async def test_sync_jobs_run_concurrently_in_threads(cron: Cron) -> None:
    barrier = threading.Barrier(3)
    for name in "abc":
        cron.add("@triggered", lambda: barrier.wait(PATIENCE), name=name)
        cron.trigger(name)
    async with asyncio.timeout(PATIENCE):
        await cron.done()
    assert not barrier.broken


async def test_a_job_triggered_by_an_async_job_does_not_inherit_its_context_variables(cron: Cron) -> None:
    seen: list[str] = []

    async def other() -> None:
        seen.append(owner.get())

    async def job() -> None:
        owner.set("the job")
        cron.trigger("other")

    cron.add("@triggered", other, name="other")
    cron.add("@triggered", job, name="a")
    cron.trigger("a")
    await cron.done()
    assert seen == ["nobody"]


async def test_calls_queued_before_the_gate_detaches_are_executed() -> None:
    door, answers = ThreadGate(), list[int]()
    door.attach()
    caller = threading.Thread(target=lambda: answers.append(door(lambda: 1)))
    caller.start()
    while not door._queued:
        threading.Event().wait(0.001)
    door.detach()
    caller.join(PATIENCE)
    assert answers == [1]


async def test_a_scheduler_in_a_thread_can_be_closed_from_a_loop(threaded: Cron) -> None:
    gate = threading.Event()
    threaded.add("@triggered", lambda: gate.wait(PATIENCE), name="a")
    threaded.trigger("a")
    closing = asyncio.create_task(threaded.aclose())
    while threaded.running:
        await asyncio.sleep(0)
    assert not closing.done()
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await closing
    await threaded.aclose()
