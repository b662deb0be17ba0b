"""Functions that run inside a Dask cluster. They are pickled by value, so that the scheduler needs no Windlass: only
the standard library and `distributed` may be used here.

The scheduler keeps a record of each launch: which worker has claimed it, and how it ended. Dask runs a task again when
its worker is lost; the second run finds the claim of the first and does nothing. Records outlive the tasks, so a name
is not started twice, and the end of a job can be read until it is removed.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RECORDS = "windlass_launches"  # attribute of the scheduler: key -> record
PROCESSES = "windlass_processes"  # attribute of a worker: key -> process
MARKER = "WINDLASS_LAUNCH"  # in the environment of a job and of its child processes
LOG_TAIL = 4096  # bytes
GRACE = 8.0  # seconds between SIGTERM and SIGKILL of a job that has reached its deadline
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class Environment(dict[str, str]):
    """The environment of a process, without values in its `repr`: Dask logs the arguments of a failed task."""

    def __repr__(self) -> str:
        return f"<{len(self)} variables>"


# On the scheduler, in its event loop


def accepted(key: str, dask_scheduler: Any) -> bool:
    """Return whether the scheduler has the job; record it, so that `snapshot` need not scan all tasks."""
    records = _records(dask_scheduler)
    if key in dask_scheduler.tasks:
        records.setdefault(key, {"worker": None, "end": None})
    return key in records


def claim(key: str, worker: str, dask_scheduler: Any) -> bool:
    """Record that a worker starts the job; return False if another worker has claimed it, or if it was stopped."""
    record = _records(dask_scheduler).setdefault(key, {"worker": None, "end": None})
    if record["worker"] is not None or record["end"] is not None:
        return False
    record["worker"] = worker
    return True


def finish(key: str, topic: str, end: Mapping[str, Any], dask_scheduler: Any) -> None:
    """Record how the job ended: `code`, `detail`, `log`."""
    if (record := _records(dask_scheduler).get(key)) is not None:
        record["end"] = end
    dask_scheduler.log_event(topic, key)


def snapshot(prefix: str, dask_scheduler: Any) -> list[dict[str, Any]]:
    """Return the records of the launches whose key begins with `prefix`, with the states of their tasks."""
    workers = {state.server_id for state in dask_scheduler.workers.values()}
    jobs = []
    for key, record in _records(dask_scheduler).items():
        if key.startswith(prefix):
            task = dask_scheduler.tasks.get(key)
            jobs.append(
                {
                    "key": key,
                    "end": record["end"],
                    "worker": record["worker"],
                    "is_lost": record["worker"] is not None and record["worker"] not in workers,
                    "state": None if task is None else task.state,
                    "error": None if task is None else task.exception_text,
                    "resources": None if task is None else task.resource_restrictions,
                }
            )
    return jobs


def withdraw(key: str, dask_scheduler: Any) -> str | None:
    """Stop the job if no worker has claimed it; else return the address of the worker that runs it, if any."""
    if not accepted(key, dask_scheduler):
        return None
    record = _records(dask_scheduler)[key]
    if record["worker"] is None and record["end"] is None:
        record["end"] = {"code": None, "detail": "stopped before it was started", "log": ""}
        _release(key, dask_scheduler)
    if record["end"] is not None:
        return None
    addresses = [address for address, state in dask_scheduler.workers.items() if state.server_id == record["worker"]]
    return addresses[0] if addresses else None


def forget(key: str, dask_scheduler: Any) -> None:
    _records(dask_scheduler).pop(key, None)
    _release(key, dask_scheduler)


def log_of(key: str, dask_scheduler: Any) -> str:
    record = _records(dask_scheduler).get(key)
    return record["end"]["log"] if record is not None and record["end"] is not None else ""


def _release(key: str, scheduler: Any) -> None:
    """Release the task for all clients that hold it: a launcher that still has its future must not keep it alive."""
    task = scheduler.tasks.get(key)
    for client in list(task.who_wants or ()) if task is not None else ():
        scheduler.client_releases_keys(keys=[key], client=client.client_key)


def _records(scheduler: Any) -> dict[str, dict[str, Any]]:
    records: dict[str, dict[str, Any]] = scheduler.__dict__.setdefault(RECORDS, {})
    return records


# On a worker


def run(key: str, topic: str, command: Sequence[str] | None, env: Environment, deadline: float | None) -> int | None:
    """Run the job as a process and return its exit code. This is the function of the Dask task."""
    import distributed

    worker: Any = distributed.get_worker()
    client: Any = distributed.get_client()
    if not client.run_on_scheduler(claim, key, worker.id):
        return None
    code, detail = None, ""
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - the command comes from a definition by design
                command or [sys.executable, "-m", "windlass.exec"],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_ends_with_its_parent(),
            )
        except OSError as error:
            detail = f"the process cannot be started: {error}"
        else:
            processes = worker.__dict__.setdefault(PROCESSES, {})
            processes[key] = process
            detail = _wait(process, deadline)
            code = process.returncode
            del processes[key]
            if code not in (0, 1):  # windlass.exec exits with 0 or 1 after it has ended its children
                _kill_leftovers(env[MARKER])
        log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
        tail = log.read().decode(errors="replace")
    client.run_on_scheduler(finish, key, topic, {"code": code, "detail": detail, "log": tail})
    return code


def kill(key: str, hard: bool, dask_worker: Any) -> None:
    """Signal the process group of a job: SIGTERM, or SIGKILL if `hard`."""
    process = dask_worker.__dict__.get(PROCESSES, {}).get(key)
    if process is not None:
        _signal(process, signal.SIGKILL if hard else signal.SIGTERM)


def _wait(process: "subprocess.Popen[bytes]", deadline: float | None) -> str:
    try:
        process.wait(deadline)
        return ""
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    _signal(process, signal.SIGKILL)
    process.wait()
    return f"deadline of {deadline:g} s"


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if process.returncode is None:  # afterwards the pid may be that of another process
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def _kill_leftovers(name: str) -> None:
    """Kill the processes that a killed job has left behind, where /proc exists."""
    marker = f"{MARKER}={name}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if marker in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


def _ends_with_its_parent() -> Callable[[], Any] | None:
    """Return a `preexec_fn` that makes the process end when its Dask worker is killed; None if not on Linux."""
    if sys.platform != "linux":
        return None
    import ctypes

    library = ctypes.CDLL(None)
    return lambda: library.prctl(DEATH_SIGNAL, signal.SIGTERM)
