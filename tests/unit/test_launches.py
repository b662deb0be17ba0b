"""Decisions about a launch: the rules, and properties that hold for any observations in any order."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.core.jobs.job import Failed
from windlass.core.launches import (
    Cause,
    Command,
    Finish,
    Launch,
    Limits,
    Phase,
    RemoteJob,
    Start,
    Status,
    Stop,
    View,
    ended_without_status,
    launch_name,
    next_command,
    parse_name,
    shown_state,
)

LIMITS = Limits()
JOB = UUID("01a1e4b6-9021-769f-863c-7ea02eddb8b7")
NAME = launch_name(JOB, 3)
RUNNING = RemoteJob(NAME, Phase.RUNNING)
STOPPED = Failed({"type": "Stopped", "message": "stopped"})


def command(launch: Launch, *, now: float = 10.0, listed: bool = True, **seen: object) -> Command | None:
    return next_command(launch, View(now=now, listed_at=now if listed else None, **seen), LIMITS)  # type: ignore[arg-type]


def fresh() -> Launch:
    return Launch(name=NAME, since=0.0)


def running() -> Launch:
    return Launch(name=NAME, since=0.0, tried_at=1.0, started_at=1.0, heard_at=5.0, running_at=2.0)


def failure(found: Command | None) -> str:
    outcome = found.outcome if isinstance(found, Finish | Stop) else None
    assert isinstance(outcome, Failed)
    return str(outcome.error["type"])


def test_the_name_of_a_launch_is_valid_for_kubernetes_and_identifies_the_claim() -> None:
    assert len(launch_name(JOB, 10**9)) <= 63
    assert parse_name(NAME) == (JOB, 3)
    assert parse_name("windlass-other") is None


@pytest.mark.parametrize(
    ("launch", "remote", "expected"),
    [
        (fresh(), None, "launching: launching on gpu"),
        (Launch(name=NAME, since=0.0, problem="forbidden"), None, "launching: waiting for gpu: forbidden"),
        (fresh(), RemoteJob(NAME, Phase.WAITING), "launching: launching on gpu"),
        (fresh(), RemoteJob(NAME, Phase.WAITING, Cause.IMAGE, "no image"), "launching: waiting on gpu: no image"),
        (running(), RUNNING, "running: running on gpu"),
        (
            Launch(name=NAME, since=0.0, running_at=1.0, missing_since=1.0),
            None,
            "lost: lost: gpu does not list it any more",
        ),
        (Launch(name=NAME, since=0.0, running_at=1.0, missing_since=9.0), None, "running: running on gpu"),
        (Launch(name=NAME, since=0.0, running_at=1.0, stopped_for=STOPPED), RUNNING, "stopping: stopping on gpu"),
    ],
)
def test_the_state_of_a_launch_is_shown_with_the_reason_of_the_pool(
    launch: Launch, remote: RemoteJob | None, expected: str
) -> None:
    view = View(now=12.0, listed_at=12.0, remote=remote)
    assert ": ".join(shown_state(launch, view, LIMITS, "gpu")) == expected


# Starting


def test_a_launch_is_started_once_the_pool_has_been_listed() -> None:
    assert command(fresh(), listed=False) is None
    assert command(fresh()) == Start(NAME)


def test_a_launch_stops_an_earlier_attempt_before_it_starts() -> None:
    older = launch_name(JOB, 2)
    assert command(fresh(), older=[older]) == Stop(older)


def test_a_launch_that_another_process_has_started_is_adopted() -> None:
    assert command(fresh(), remote=RUNNING) == Start(NAME)


def test_a_failed_start_is_repeated_after_a_pause() -> None:
    launch = Launch(name=NAME, since=0.0, tried_at=5.0)
    assert command(launch, now=6.0) is None
    assert command(launch, now=5.0 + LIMITS.again) == Start(NAME)


def test_a_launch_that_can_never_be_started_fails_with_the_pools_reason() -> None:
    launch = Launch(name=NAME, since=0.0, tried_at=5.0, problem="quota exceeded")
    found = command(launch, now=LIMITS.start_within)
    assert failure(found) == "NeverStarted"
    assert "quota exceeded" in str(found)


def test_a_job_without_a_status_after_five_minutes_is_stopped() -> None:
    launch = Launch(name=NAME, since=0.0, tried_at=1.0, started_at=1.0)
    waiting = RemoteJob(NAME, Phase.WAITING, Cause.IMAGE, "image not found")
    found = command(launch, now=1.0 + LIMITS.start_within, remote=waiting)
    assert isinstance(found, Stop)
    assert "job never started: image not found" in str(found)


# Running


def test_a_job_with_heartbeats_keeps_running() -> None:
    assert command(running(), remote=RUNNING) is None


def test_a_job_without_heartbeats_is_stopped_even_if_the_pool_shows_it_running() -> None:
    found = command(running(), now=5.0 + LIMITS.heartbeat_within, remote=RUNNING)
    assert isinstance(found, Stop)
    assert failure(found) == "HeartbeatTimeout"


def test_a_job_that_exceeds_its_timeout_is_stopped() -> None:
    launch = running()
    launch.timeout, launch.heard_at = timedelta(seconds=20), 60.0
    found = command(launch, now=61.0, remote=RUNNING)
    assert isinstance(found, Stop)
    assert failure(found) == "Timeout"


def test_a_job_is_lost_only_after_it_was_missing_from_the_pool_for_a_while() -> None:
    launch = running()
    launch.missing_since = 8.0
    assert command(launch) is None
    launch.missing_since = 10.0
    launch.heard_at = 10.0
    lost = command(launch, now=10.0 + LIMITS.unlisted)
    assert isinstance(lost, Finish)
    assert failure(lost) == "Lost"


# Ends


def test_a_final_status_ends_the_attempt_regardless_of_the_pool() -> None:
    for state in ("success", "failed"):
        assert command(running(), status=Status(state), remote=RUNNING) == Finish(NAME)
        assert command(running(), status=Status(state)) == Finish(NAME)


@pytest.mark.parametrize(
    ("cause", "type_", "words"),
    [
        (Cause.OUT_OF_MEMORY, "OutOfMemory", "killed: out of memory (limit 512Mi)"),
        (Cause.EVICTED, "Lost", "the job was evicted (limit 512Mi)"),
        (Cause.PREEMPTED, "Lost", "preempted"),
        (Cause.NODE_LOST, "Lost", "lost with its node"),
        (Cause.IMAGE, "NeverStarted", "job never started"),
        (Cause.UNSCHEDULABLE, "NeverStarted", "job never started"),
        (Cause.DEADLINE, "Timeout", "at its deadline"),
        (Cause.EXITED, "Lost", "ended without a status"),
        (None, "Lost", "ended without a status"),
    ],
)
def test_a_job_that_ended_without_a_status_fails_with_the_pools_reason(
    cause: Cause | None, type_: str, words: str
) -> None:
    remote = RemoteJob(NAME, Phase.ENDED, cause, "limit 512Mi", 137)
    assert command(running(), remote=remote) == Finish(NAME, ended_without_status(remote))
    error = ended_without_status(remote).error
    assert error["type"] == type_
    assert words in error["message"]


def test_a_stopped_job_ends_only_when_a_later_listing_no_longer_has_it() -> None:
    launch = running()
    launch.stopped_for = STOPPED
    assert command(launch, remote=RUNNING) == Stop(NAME)
    launch.stop_sent_at = 10.0
    assert command(launch, now=12.0, remote=RUNNING) is None
    assert next_command(launch, View(now=12.0, listed_at=9.0), LIMITS) is None
    assert command(launch, now=12.0) == Finish(NAME, STOPPED)
    assert command(launch, now=10.0 + LIMITS.again, remote=RUNNING) == Stop(NAME)


# Properties


class World:
    """A pool that may refuse and lag, and a worker that may die at any moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fence = 1
        self.live: set[str] = set()
        self.ever: set[str] = set()
        self.listed: frozenset[str] = frozenset()
        self.listed_at: float | None = None
        self.refuses = False
        self.status: Status | None = None
        self.ended = False
        self.launch = Launch(name=launch_name(JOB, 1), since=0.0)

    def happen(self, event: str) -> None:
        self.now += 30.0 if event == "late" else 1.0
        name = self.launch.name
        if event == "list":
            self.listed, self.listed_at = frozenset(self.live), self.now
        elif event == "refuse":
            self.refuses = not self.refuses
        elif event == "die":  # another process takes over and knows nothing but the name
            self.launch, self.listed_at = Launch(name=name, since=self.now), None
        elif event == "status" and name in self.live:
            self.status = Status("success")
            self.live.discard(name)
        elif event == "beat" and name in self.live:
            self.launch.heard_at = self.now
        elif event == "claim again" and self.status is None:
            self.fence, self.ended, self.listed_at = self.fence + 1, False, None
            self.launch = Launch(name=launch_name(JOB, self.fence), since=self.now)
        elif event == "cancel":
            self.launch.stopped_for = self.launch.stopped_for or STOPPED

    def act(self) -> None:
        launch, now = self.launch, self.now
        remote = RemoteJob(launch.name, Phase.RUNNING) if launch.name in self.listed else None
        older = sorted(self.listed - {launch.name})
        view = View(now=now, listed_at=self.listed_at, remote=remote, older=older, status=self.status)
        command = next_command(launch, view, LIMITS)
        if isinstance(command, Start):
            self._start(command)
        elif isinstance(command, Stop):
            self._stop(command)
        elif isinstance(command, Finish):
            self.ended = True
            if command.outcome is None:
                assert self.status is not None
            if command.outcome is STOPPED:
                assert launch.name not in self.live

    def _start(self, command: Start) -> None:
        self.launch.tried_at = self.now
        if not self.refuses:
            self.launch.started_at = self.now
            self.live |= {command.name} - self.ever
            self.ever.add(command.name)
            assert len(self.live) <= 1

    def _stop(self, command: Stop) -> None:
        self.launch.stopped_for = command.outcome or self.launch.stopped_for
        if command.name == self.launch.name:
            self.launch.stop_sent_at = self.now
        else:
            self.launch.tried_at = self.now
        if not self.refuses:
            self.live.discard(command.name)
        self.listed_at = None


EVENTS = ["tick", "tick", "list", "list", "refuse", "die", "status", "beat", "claim again", "cancel", "late"]


@given(events=st.lists(st.sampled_from(EVENTS), max_size=60))
@example(events=["list", "tick", "die", "cancel", "list", "tick", "list", "tick"])
@example(events=["list", "tick", "claim again", "refuse", "list", "tick", "refuse", "late", "list", "tick"])
def test_two_attempts_of_a_job_never_run_at_once_and_a_stopped_one_is_gone(events: list[str]) -> None:
    world = World()
    for event in events:
        world.happen(event)
        if not world.ended:
            world.act()
