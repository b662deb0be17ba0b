"""No process of an attempt is left running, however the attempt ends."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.effects.command_harness import FOR_EVER, CapturedLines, failed, is_gone, perform, request, succeeded
from windlass.core.jobs.job import Outcome
from windlass.effects.command.run import CommandOptions, Commands

SHORT = timedelta(milliseconds=200)
ENOUGH = timedelta(seconds=1)  # for a shell to set its traps
STUBBORN = f"trap '' TERM; {FOR_EVER} & echo child $!; echo shell $$; wait"


async def cancelled(running: "asyncio.Task[Outcome]") -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_command_that_exceeds_its_time_limit_is_a_timeout() -> None:
    captured = CapturedLines()
    error = failed(await perform(f"echo shell $$; {FOR_EVER}; true", captured, timeout=ENOUGH), retryable=True)
    assert error == {"type": "Timeout", "message": "timed out after 1 s"}
    assert is_gone(await captured.one("shell "))


@pytest.mark.parametrize("run", ["yes", "yes >&2", "yes ''", "cat /dev/zero"])
async def test_endless_output_does_not_delay_the_timeout(run: str) -> None:
    error = failed(await perform(run, timeout=SHORT), retryable=True)
    assert error == {"type": "Timeout", "message": "timed out after 0.2 s"}


# Below, `sleep` is started before a trap is set: a child that inherits a trap, and receives SIGTERM before it has
# called exec, swallows the signal.


async def test_a_timeout_is_final_even_if_the_command_then_exits_with_0() -> None:
    captured = CapturedLines()
    run = f"{FOR_EVER} & trap 'echo tidied up; exit 0' TERM; wait"
    assert failed(await perform(run, captured, timeout=ENOUGH), retryable=True)["type"] == "Timeout"
    assert captured.lines == [("INFO", "tidied up")]


async def test_a_command_that_ignores_sigterm_is_killed() -> None:
    captured = CapturedLines()
    error = failed(await perform(STUBBORN, captured, grace=0.1, timeout=ENOUGH), retryable=True)
    assert error["type"] == "Timeout"
    assert is_gone(await captured.one("child "))
    assert is_gone(await captured.one("shell "))


@pytest.mark.parametrize("run", [STUBBORN, f"{FOR_EVER} & echo child $!; echo shell $$; wait"])
async def test_cancelling_ends_the_whole_process_group_and_reraises_the_cancellation(run: str, tmp_path: Path) -> None:
    captured = CapturedLines()
    commands = Commands(CommandOptions(grace=timedelta(milliseconds=100), folder=tmp_path))
    running = asyncio.create_task(commands.perform(request(run), captured.keep))
    child, shell = await captured.one("child "), await captured.one("shell ")
    await cancelled(running)
    assert is_gone(child)
    assert is_gone(shell)
    assert list(tmp_path.iterdir()) == []


async def test_a_child_process_has_the_whole_grace_even_if_its_shell_exits_first(tmp_path: Path) -> None:
    """Only the shell dies of SIGTERM; the child, whose output is redirected, cleans up."""
    door, tidied = tmp_path / "door", tmp_path / "tidied"
    os.mkfifo(door)
    child = f"{FOR_EVER} & trap 'read word < {door}; echo \\$word > {tidied}; exit' TERM; echo ready >&3; wait"
    captured = CapturedLines()
    running = asyncio.create_task(perform(f'exec 3>&1; sh -c "{child}" > /dev/null 2>&1; echo not here', captured))
    await captured.one("ready")
    running.cancel()
    await asyncio.to_thread(door.write_text, "done\n")  # opens only when the child reads: it is alive and asked
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tidied.read_text() == "done\n"


async def test_a_second_cancellation_kills_the_command_immediately() -> None:
    captured = CapturedLines()
    run = f"trap 'echo asked' TERM; echo shell $$; while :; do {FOR_EVER} & wait; done"
    running = asyncio.create_task(perform(run, captured, grace=600))
    shell = await captured.one("shell ")
    running.cancel()
    await captured.one("asked")
    await cancelled(running)
    await asyncio.to_thread(_wait_until_gone, shell)


async def test_a_command_cancelled_before_its_start_does_nothing(tmp_path: Path) -> None:
    running = asyncio.create_task(perform(f"touch {tmp_path}/file"))
    await cancelled(running)
    assert list(tmp_path.iterdir()) == []


async def test_processes_that_a_command_leaves_running_are_ended_with_it() -> None:
    captured = CapturedLines()
    assert succeeded(await perform(f"{FOR_EVER} & echo child $!; echo 5", captured)) == 5
    assert is_gone(await captured.one("child "))


async def test_processes_left_running_that_ignore_sigterm_are_killed() -> None:
    captured = CapturedLines()
    run = f"trap '' TERM; {FOR_EVER} & echo child $! >&2; echo 5; exit 0"
    assert succeeded(await perform(run, captured, grace=0.05)) == 5
    assert is_gone(await captured.one("child "))


async def test_the_output_of_processes_left_running_is_captured() -> None:
    captured = CapturedLines()
    run = f"({FOR_EVER} & trap 'echo bye; exit' TERM; echo ready > door; wait) & read word < door"
    succeeded(await perform(f"mkfifo door; {run}", captured))
    assert ("INFO", "bye") in captured.lines


@pytest.fixture
def escaped() -> Iterator[list[str]]:
    pids: list[str] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("loud", ["", "yes & "])
async def test_a_process_that_left_the_group_and_holds_the_pipes_does_not_delay_the_outcome(
    loud: str, escaped: list[str]
) -> None:
    leave = f"import os; os.setsid(); os.execv('/bin/sh', ['sh', '-c', 'echo child $$; echo > door; {loud}{FOR_EVER}'])"
    captured = CapturedLines()
    run = f'mkfifo door; {sys.executable} -c "{leave.replace("$", chr(92) + "$")}" & read word < door; exit 4'
    outcome = await perform(run, captured)
    escaped.append(await captured.one("child "))
    assert failed(outcome, retryable=True)["exit_code"] == 4
    assert not is_gone(escaped[0])
    with suppress(ProcessLookupError):
        os.killpg(int(escaped[0]), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
async def test_a_worker_that_runs_as_pid_1_reaps_orphans() -> None:
    """A subreaper inherits orphans as process 1 of a container does."""
    prctl, set_child_subreaper = ctypes.CDLL(None).prctl, 36
    assert prctl(set_child_subreaper, 1, 0, 0, 0) == 0
    try:
        captured = CapturedLines()
        assert succeeded(await perform(f"{FOR_EVER} & echo child $!; echo 5", captured, grace=600)) == 5
        assert not Path(f"/proc/{await captured.one('child ')}").exists()
    finally:
        prctl(set_child_subreaper, 0, 0, 0, 0)


async def test_twenty_commands_can_be_cancelled_at_once() -> None:
    captured = [CapturedLines() for _ in range(20)]
    run = f"{FOR_EVER} & echo child $!; wait"
    tasks = [asyncio.create_task(perform(run, one)) for one in captured]
    children = [await one.one("child ") for one in captured]
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert all(is_gone(child) for child in children)


def test_closing_the_event_loop_leaves_no_process_running() -> None:
    pids: list[str] = []

    async def main() -> None:
        captured = CapturedLines()
        main.task = asyncio.create_task(perform(STUBBORN, captured, grace=0.05))  # type: ignore[attr-defined]
        pids.extend([await captured.one("child "), await captured.one("shell ")])

    asyncio.run(main())
    assert all(is_gone(pid) for pid in pids)


def _wait_until_gone(pid: str) -> None:
    while not is_gone(pid):
        os.sched_yield()
