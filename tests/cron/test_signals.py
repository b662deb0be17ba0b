"""Blocking use: `run_forever`, `with`, and a stop from a signal handler. In separate processes."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from windlass.cron import AlreadyRunning, Cron, FakeClock

PATIENCE = 20.0
PREAMBLE = """
import asyncio, signal, sys, threading
from windlass.cron import Cron, job_context
cron = Cron()
def say(*words): print(*words, flush=True)
"""


@contextmanager
def program(text: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program and wait until it has printed "ready"."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_run_forever_waits_for_jobs_and_exits_cleanly_on_a_signal(number: signal.Signals) -> None:
    text = """
        def slow():
            say("ready")
            job_context().wait_cancelled(30)
            say("job done")
        cron.add("@yearly", slow, run_immediately=True)
        say("all ended:", cron.run_forever())
    """
    with program(text) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, err, process.returncode) == ("job done\nall ended: True\n", "", 0)


def test_run_forever_waits_for_jobs_no_longer_than_its_timeout() -> None:
    text = """
        async def stuck():
            say("ready")
            await asyncio.Event().wait()
        cron.add("@yearly", stuck, name="stuck", run_immediately=True)
        say("all ended:", cron.run_forever(timeout="100ms"))
    """
    with program(text) as process:
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("all ended: False\n", 0)
    assert "jobs are still running: stuck" in err


def test_a_second_signal_ends_the_wait_immediately() -> None:
    text = """
        async def stuck():
            say("ready")
            await asyncio.Event().wait()
        cron.add("@yearly", stuck, name="stuck", run_immediately=True)
        @cron.job("@yearly", run_immediately=True)
        def watch():
            job_context().wait_cancelled(30)
            say("stopping")
        say("all ended:", cron.run_forever(timeout=None))
    """
    with program(text) as process:
        process.terminate()
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("all ended: False\n", 0)


def test_stop_in_a_custom_signal_handler_stops_an_idle_event_loop_immediately() -> None:
    """The next tick is months away: without a wake-up the loop would notice the stop only after a minute."""
    text = """
        signal.signal(signal.SIGTERM, lambda *_: cron.stop())
        cron.add("@yearly", print)
        async def main():
            asyncio.get_running_loop().call_soon(say, "ready")
            await cron.run()
            say("stopped")
        asyncio.run(main())
    """
    with program(text) as process:
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("stopped\n", 0)


def test_stop_in_a_signal_handler_stops_a_background_thread() -> None:
    text = """
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: (say("stopped:", cron.stop()), ended.set()))
        cron.add("@yearly", print)
        cron.start()
        say("ready")
        ended.wait()
    """
    with program(text) as process:
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("stopped: True\n", 0)


def test_a_stop_from_another_thread_ends_run_forever(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    cron.add("@hourly", cron.stop, run_immediately=True)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(cron.run_forever()))
    thread.start()
    thread.join(PATIENCE)
    assert ended == [True]
    assert not cron.running


async def test_run_forever_is_refused_inside_a_running_event_loop(cron: Cron, clock: FakeClock) -> None:
    with pytest.raises(AlreadyRunning, match="the scheduler is already running"):
        cron.run_forever()
    with pytest.raises(AlreadyRunning, match=r"use `await cron\.run\(\)`"):
        Cron(clock=clock).run_forever()


def test_a_with_block_runs_the_scheduler_in_a_thread(clock: FakeClock) -> None:
    ran = threading.Event()
    with Cron(clock=clock) as cron:
        cron.add("@hourly", ran.set)
        assert cron.running
        clock.advance("1h")
        assert ran.wait(PATIENCE)
    assert not cron.running


async def test_stop_on_the_event_loop_ends_run(clock: FakeClock) -> None:
    cron = Cron(clock=clock)
    asyncio.get_running_loop().call_soon(cron.stop)
    async with asyncio.timeout(PATIENCE):
        await cron.run()
    assert not cron.running
