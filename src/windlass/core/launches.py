"""Launches: attempts that run outside of the worker, as a job of a pool (a local process, Kubernetes, Ray, Dask).

The worker and the launched process communicate through objects in the object store: specification, heartbeat, log
lines, output and status. The names of a launch and of its objects contain the fence of the claim. A start can therefore
be repeated, a worker that takes over can see what was started, and an object of an earlier attempt is never mistaken
for one of the current attempt.

`next_command` returns the next command for a launch. It is called repeatedly with the current state and view; its
result does not depend on the order or the number of the calls.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import Failed, Outcome

HEARTBEAT_EVERY = 10.0  # seconds
LOCAL = "local"  # the value of `runs_on` for steps that the worker executes itself
SUBPROCESS = "subprocess"  # the launcher, and the pool that exists wherever commands are allowed
PROBE_FENCE, PROBE_WITHIN = 0, 3600.0  # a probe's fence, below those of claims; its lifetime in seconds
POOL_QUEUE = "windlass.pool."  # prefix of the queues of launched steps
POOL_NAME = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
is_pool_name = re.compile(POOL_NAME).fullmatch
_NAME = re.compile(r"windlass-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-([0-9]+)").fullmatch


# Names of launches and of their objects


def launch_name(job: UUID, fence: int) -> str:
    """Return the name of a launch: a valid name of a Kubernetes job, at most 63 characters."""
    return f"windlass-{job}-{fence}"


def parse_name(name: str) -> tuple[UUID, int] | None:
    """Return the job and the fence of a launch; None if the name is not that of a launch."""
    match = _NAME(name)
    return (UUID(match[1]), int(match[2])) if match else None


def is_live_probe(name: str, now: float) -> bool:
    """Return whether a launch is a probe of `windlass pools test` that may still run. No job is leased for it.

    `now` is in seconds since 1970. A probe that a killed command left behind is a stray after an hour.
    """
    parsed = parse_name(name)
    return parsed is not None and parsed[1] == PROBE_FENCE and now - (parsed[0].int >> 80) / 1000 < PROBE_WITHIN


def pool_queue(pool: str) -> str:
    return POOL_QUEUE + pool


def pool_of_queue(queue: str) -> str | None:
    """Return the pool whose jobs are in this queue, without the org; None if it is not the queue of a pool."""
    return queue.removeprefix(POOL_QUEUE) if queue.startswith(POOL_QUEUE) else None


def mailbox(pool: str) -> str:
    """Return the prefix of the objects of a pool's live launches, so that one listing finds all new objects.

    The objects of a launch are removed when its attempt has ended.
    """
    return f"live/{pool}/"


SPEC, HEARTBEAT, STATUS, OUTPUT, STOP = "spec.json", "heartbeat", "status.json", "output.json", "stop"
LOCK_VARIABLE = (
    "WINDLASS_LOCK_FD"  # the descriptor of the subprocess launcher's lock file: the job writes its pid there
)
ARTIFACTS = "artifacts/"  # prefix of the artifacts that the launched process writes
STOPPED = "Stopped"  # the error type of a process that was stopped on request
SECRETS = "WINDLASS_TASK_SECRETS"  # the variable with the part of a specification that contains secrets, in JSON


def log_chunk(number: int) -> str:
    return f"log-{number:06d}.json"


# The observed state of a launch


class Phase(StrEnum):
    WAITING = "waiting"  # accepted, its process does not run yet
    RUNNING = "running"
    ENDED = "ended"


class Cause(StrEnum):
    """The reason for which a remote job ended or does not start, if the pool reports one."""

    OUT_OF_MEMORY = "out_of_memory"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    IMAGE = "image"  # the image cannot be pulled
    UNSCHEDULABLE = "unschedulable"
    DEADLINE = "deadline"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job as its pool lists it."""

    name: str
    phase: Phase
    cause: Cause | None = None
    detail: str = ""  # the pool's message, for display
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """The status that the launched process writes: first `running`, last `success` or `failed`."""

    state: str
    error: Mapping[str, Any] | None = None

    @property
    def is_final(self) -> bool:
        return self.state != "running"

    @property
    def was_stopped(self) -> bool:
        """Whether the process ended because a stop was requested. `Launch.stopped_for` has the reason for the stop."""
        return self.state == "failed" and self.error is not None and self.error.get("type") == STOPPED


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Time limits of a launch, in seconds."""

    start_within: float = 300.0
    heartbeat_within: float = 60.0
    again: float = 10.0  # until a stop or a refused start is repeated
    unlisted: float = 60.0  # how long a job without a heartbeat may be missing from the pool's list: lists lag behind
    margin: float = 30.0  # the launched process enforces its timeout itself: this is how late it may be


@dataclass(slots=True, kw_only=True)
class Launch:
    """The state of a launch in the worker. Times are those of the worker's monotonic clock."""

    name: str
    since: float
    timeout: timedelta | None = None
    tried_at: float | None = None  # when the last start was attempted
    started_at: float | None = None  # when the pool accepted it
    problem: str = ""  # why the last start was refused
    heartbeat: str | None = None  # the version of the heartbeat object
    heard_at: float | None = None  # when a new heartbeat or status was last seen
    running_at: float | None = None
    missing_since: float | None = None
    stopped_for: Outcome | None = None  # set while it is being stopped: the outcome once the job is gone
    stop_sent_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An observation of a launch: the pool's list is read first, so that an end is not seen before its status.

    `listed_at` is None until the pool's list could be read. `older` are live launches of earlier claims of the job.
    """

    now: float
    listed_at: float | None = None
    remote: RemoteJob | None = None
    older: Sequence[str] = ()
    status: Status | None = None


class LaunchState(StrEnum):
    LAUNCHING = "launching"  # it has not reported that it runs
    RUNNING = "running"
    LOST = "lost"  # the pool does not list it any more
    STOPPING = "stopping"


def shown_state(launch: Launch, view: View, limits: Limits, pool: str) -> tuple[LaunchState, str]:
    """Return the state of a launch and a message for display, with the pool's reason if the job waits."""
    if launch.stopped_for is not None:
        return LaunchState.STOPPING, f"stopping on {pool}"
    if launch.missing_since is not None and view.now - launch.missing_since >= limits.again:
        return LaunchState.LOST, f"lost: {pool} does not list it any more"
    if launch.running_at is not None or launch.heard_at is not None:
        return LaunchState.RUNNING, f"running on {pool}"
    if view.remote is not None and view.remote.phase is Phase.WAITING and view.remote.detail:
        return LaunchState.LAUNCHING, f"waiting on {pool}: {view.remote.detail}"
    message = f"waiting for {pool}: {launch.problem}" if launch.problem else f"launching on {pool}"
    return LaunchState.LAUNCHING, message


def progress_data(state: LaunchState, fence: int) -> dict[str, Any]:
    """Return the progress data of a launched job. The fence distinguishes it from the data of an earlier attempt."""
    return {"launch": state, "fence": fence}


# Commands


@dataclass(frozen=True, slots=True)
class Start:
    name: str


@dataclass(frozen=True, slots=True)
class Stop:
    name: str
    outcome: Outcome | None = None  # of the attempt once the job is gone; None: already set, or an older launch


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt has ended. Without an outcome, the result is in the status and the output, which must be read."""

    name: str
    outcome: Outcome | None = None


Command = Start | Stop | Finish


def next_command(launch: Launch, view: View, limits: Limits) -> Command | None:
    """Return the command for a launch now; None to wait."""
    if view.status is not None and view.status.is_final and not (launch.stopped_for and view.status.was_stopped):
        return Finish(launch.name)  # even while it is being stopped: completed work is recorded
    if launch.stopped_for is not None:
        return _stopping(launch, view, limits, launch.stopped_for)
    if launch.started_at is None and launch.heard_at is None:
        return _starting(launch, view, limits)
    if view.remote is not None and view.remote.phase is Phase.ENDED:
        return Finish(launch.name, ended_without_status(view.remote))
    missing = launch.missing_since is not None and view.now - launch.missing_since >= limits.unlisted
    if missing and _is_silent(launch, view.now, limits.unlisted):
        return Finish(launch.name, _lost("the job is no longer in the pool, and wrote no status"))
    if outcome := _overdue(launch, view, limits):
        return Stop(launch.name, outcome)
    return None


def _starting(launch: Launch, view: View, limits: Limits) -> Command | None:
    if view.remote is not None:
        return Start(launch.name)  # adopted: a start does nothing if the job exists
    if view.now - launch.since >= limits.start_within:
        reason = f": {launch.problem}" if launch.problem else ""
        return Finish(launch.name, never_started(reason))
    if launch.tried_at is not None and view.now - launch.tried_at < limits.again:
        return None
    if view.listed_at is None:
        return None  # an earlier attempt may still run
    return Stop(view.older[0]) if view.older else Start(launch.name)


def _stopping(launch: Launch, view: View, limits: Limits, outcome: Outcome) -> Command | None:
    sent_at = launch.stop_sent_at
    if launch.tried_at is None and view.remote is None:  # neither started here nor listed by the pool
        return Finish(launch.name, outcome) if view.listed_at is not None else None
    listed = sent_at is not None and view.listed_at is not None and view.listed_at > sent_at
    if listed and (view.remote is None or view.remote.phase is Phase.ENDED):
        return Finish(launch.name, outcome)
    if sent_at is None or view.now - sent_at >= limits.again:
        return Stop(launch.name)
    return None


def _overdue(launch: Launch, view: View, limits: Limits) -> Outcome | None:
    began = launch.started_at if launch.started_at is not None else launch.since
    if launch.heard_at is None and view.now - began >= limits.start_within:
        detail = view.remote.detail if view.remote is not None else ""
        return never_started(f": {detail}" if detail else "")
    if launch.heard_at is not None and _is_silent(launch, view.now, limits.heartbeat_within):
        return Failed({"type": "HeartbeatTimeout", "message": "heartbeat timeout: the process sends no heartbeats"})
    if launch.timeout is not None and launch.running_at is not None:
        seconds = launch.timeout.total_seconds()
        if view.now - launch.running_at >= seconds + limits.margin:
            return Failed({"type": "Timeout", "message": f"timed out after {seconds:g} s"})
    return None


def _is_silent(launch: Launch, now: float, seconds: float) -> bool:
    return launch.heard_at is None or now - launch.heard_at >= seconds


# Failures


def never_started(reason: str) -> Failed:
    return Failed({"type": "NeverStarted", "message": f"job never started{reason}"})


def _lost(message: str) -> Failed:
    return Failed({"type": "Lost", "message": message})


def ended_without_status(remote: RemoteJob) -> Failed:
    """Return the failure of a job that ended and wrote no status."""
    detail = f" ({remote.detail})" if remote.detail else ""
    code = {} if remote.exit_code is None else {"exit_code": remote.exit_code}
    match remote.cause:
        case Cause.OUT_OF_MEMORY:
            return Failed({"type": "OutOfMemory", "message": f"killed: out of memory{detail}", **code})
        case Cause.EVICTED | Cause.PREEMPTED | Cause.NODE_LOST:
            words = {Cause.EVICTED: "evicted", Cause.PREEMPTED: "preempted", Cause.NODE_LOST: "lost with its node"}
            return _lost(f"the job was {words[remote.cause]}{detail}")
        case Cause.IMAGE | Cause.UNSCHEDULABLE:
            return never_started(f": {remote.detail or remote.cause}")
        case Cause.DEADLINE:
            return Failed({"type": "Timeout", "message": f"the pool ended the job at its deadline{detail}"})
        case _:
            return Failed({"type": "Lost", "message": f"the job ended without a status{detail}", **code})


# The specification that a launched process reads


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The specification of a launched task, in JSON. Values of secrets are not in it: the pool passes them."""

    name: str
    task_id: str
    run_id: str
    task_name: str
    workflow_name: str
    attempt: int
    fence: int
    parallel_index: int
    parallel_count: int
    executor: str  # command, python
    call: Mapping[str, Any]  # of the executor: {run, values}, {function} or {app, type}
    mailbox: str  # prefix of its objects
    input: Any = None
    upstream: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Sequence[Mapping[str, Any]] = ()  # artifacts that can be read: reference and all fields of each
    timeout: float | None = None  # seconds

    def encode(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}, allow_nan=False).encode()
