"""Executes one launched task, in a process that a pool has started with `python -m windlass.exec`.

It reads the specification at TASK_SPEC_PATH from the object store (WINDLASS_OBJECTS_URL), writes the status `running`,
then heartbeats and log lines while the task runs, then the output, and last the final status. The exit code is 0 if the
task succeeded, 1 if it failed. The process needs no database, and it imports little because each task starts one.

If the object store is unavailable at the end, writes are retried for PATIENCE seconds: completed work must not be lost.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.jobs.job import MAX_LINES, Failed, Outcome, Succeeded
from windlass.core.launches import (
    HEARTBEAT,
    HEARTBEAT_EVERY,
    LOCK_VARIABLE,
    OUTPUT,
    SECRETS,
    STATUS,
    STOP,
    STOPPED,
    TaskSpec,
    log_chunk,
)
from windlass.effects.command.run import CommandOptions, CommandRequest, Commands, inherited
from windlass.effects.objects import Objects, open_store
from windlass.effects.outcomes import failed
from windlass.errors import Invalid

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from windlass.effects.launched_artifacts import LaunchedArtifacts

SHIP_EVERY = 1.0  # seconds between two chunks of log lines
PATIENCE = 600.0  # seconds for which writes of the status, the output and the last log lines are retried

Keep = Callable[[str, str], None]
_log = logging.getLogger("windlass.exec")


class Mailbox:
    """Writes the status, the heartbeats and the log lines of the task to the object store."""

    def __init__(self, store: "ObjectStore", prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._lines: list[tuple[str, str, str]] = []
        self._count = 0  # log lines, including those beyond the limit
        self._chunks = 0
        self._beats = 0
        self._shipping = threading.Lock()
        self._over = threading.Event()

    def status(self, state: str, error: Mapping[str, Any] | None = None, **more: Any) -> None:
        document = {"state": state, "error": error, "at": datetime.now(UTC).isoformat(), **more}
        data = json.dumps(document).encode()
        persist(lambda: self._store.put(self._prefix + STATUS, data))

    def is_final(self) -> bool:
        """Return whether this task has already ended: a pool may start it twice."""
        try:
            document = json.loads(bytes(self._store.get(self._prefix + STATUS).bytes()))
        except FileNotFoundError:
            return False
        return bool(document["state"] != "running")

    def keep(self, level: str, message: str) -> None:
        self._count += 1
        if self._count <= MAX_LINES + 1:  # one more than is stored, so that the worker can note the truncation
            self._lines.append((datetime.now(UTC).isoformat(), level, message))

    def ship(self) -> None:
        """Write the log lines since the last chunk as a new chunk; keep them if the write fails."""
        with self._shipping:
            lines = self._lines[:]
            if lines:
                self._store.put(self._prefix + log_chunk(self._chunks + 1), json.dumps(lines).encode())
                self._chunks += 1
                del self._lines[: len(lines)]

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Write heartbeats and log lines in a thread until the block ends, even if the task blocks the event loop."""
        thread = threading.Thread(target=self._beat, name="windlass-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(SHIP_EVERY)
            persist(self.ship)

    def _beat(self) -> None:
        beat_at = time.monotonic() + HEARTBEAT_EVERY  # the status, just written, counts as the first
        while not self._over.wait(SHIP_EVERY):
            try:
                self.ship()
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + HEARTBEAT_EVERY
                    self._beats += 1
                    self._store.put(self._prefix + HEARTBEAT, str(self._beats).encode())
                    self._stop_if_told()
            except Exception as error:  # the store is unavailable: the next iteration retries
                _log.warning("the object store cannot be used: %s", error)

    def _stop_if_told(self) -> None:
        """Terminate this process if the worker has requested a stop: not every pool can stop a job."""
        with suppress(FileNotFoundError):
            self._store.head(self._prefix + STOP)
            os.kill(os.getpid(), signal.SIGTERM)


def persist(write: Callable[[], Any]) -> None:
    deadline, pause = time.monotonic() + PATIENCE, 0.2
    while True:
        try:
            write()
            return
        except Exception as error:
            if time.monotonic() > deadline:
                raise
            _log.warning("the object store cannot be used, trying again: %s", error)
            threading.Event().wait(pause)
            pause = min(30.0, pause * 2)


def record_pid(environ: Mapping[str, str]) -> None:
    """Write the pid to the lock file of the subprocess launcher, which may have died before it could do so itself."""
    with suppress(KeyError, ValueError, OSError):
        os.pwrite(int(environ[LOCK_VARIABLE]), str(os.getpid()).encode(), 0)


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    record_pid(os.environ)
    store = open_store(os.environ["WINDLASS_OBJECTS_URL"])
    document = json.loads(bytes(store.get(os.environ["TASK_SPEC_PATH"]).bytes()))
    document["call"] |= json.loads(os.environ.pop(SECRETS, "{}"))
    spec = TaskSpec(**document)
    mailbox = Mailbox(store, spec.mailbox)
    if mailbox.is_final():
        return 0
    mailbox.status("running")
    written: dict[str, str] = {}
    with mailbox.beating():
        outcome = asyncio.run(run(spec, mailbox.keep, Objects(os.environ["WINDLASS_OBJECTS_URL"], store), written))
    if isinstance(outcome, Succeeded):
        persist(lambda: store.put(spec.mailbox + OUTPUT, outcome.result.encode()))
        mailbox.status("success", artifacts=written)
        return 0
    assert isinstance(outcome, Failed)
    pause = outcome.retry_after
    mailbox.status(
        "failed",
        outcome.error,
        artifacts=written,
        retryable=outcome.retryable,
        retry_after=None if pause is None else pause.total_seconds(),
    )
    return 1


async def run(spec: TaskSpec, keep: Keep, objects: Objects, written: dict[str, str]) -> Outcome:
    """Execute the task; SIGTERM ends it and its command. `written` gets the media types of its artifacts by name."""
    task = asyncio.ensure_future(_perform(spec, keep, objects, written))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return Failed({"type": STOPPED, "message": "stopped: the process received SIGTERM"})
    except Exception as error:
        return failed(error)


async def _perform(spec: TaskSpec, keep: Keep, objects: Objects, written: dict[str, str]) -> Outcome:
    if spec.executor == "command":
        return await _command(spec, keep)
    if spec.executor == "python":
        from windlass.effects.launched_artifacts import LaunchedArtifacts  # not needed for commands

        return await _python(spec, keep, LaunchedArtifacts(objects, spec, written))
    raise Invalid(f"there is no executor {spec.executor!r}: it must be command or python", field="executor")


async def _command(spec: TaskSpec, keep: Keep) -> Outcome:
    request = CommandRequest(
        run=spec.call["run"],
        values=spec.call.get("values", {}),
        input=merged(spec),
        run_id=spec.run_id,
        workflow=spec.workflow_name,
        step=spec.task_name,
        attempt=spec.attempt,
        fence=spec.fence,
        index=spec.parallel_index,
        count=spec.parallel_count,
        timeout=None if spec.timeout is None else timedelta(seconds=spec.timeout),
    )
    passed_on = {"WINDLASS_LAUNCH", *spec.call.get("env", ())}  # WINDLASS_LAUNCH marks the processes of this task
    own = {name: value for name, value in os.environ.items() if name in passed_on}
    options = CommandOptions(environment=inherited(os.environ) | own, is_guarded=True)
    return await Commands(options).perform(request, keep)


async def _python(spec: TaskSpec, keep: Keep, artifacts: "LaunchedArtifacts") -> Outcome:
    """Call a function (`module:function`), or the handler of a job type in an app (`module:app`)."""
    from windlass.effects.context import Context, keep_lines  # not needed for commands
    from windlass.effects.handlers import Handler, Handlers, Threads, perform

    target = _load(spec.call.get("function") or spec.call["app"])
    if "function" in spec.call:
        handler: Handler | None = Handler.of(spec.call["function"], target)
        payload = merged(spec)
    else:
        handlers: Handlers = target.handlers
        handler, payload = handlers.find(spec.call["type"]), spec.input
    if handler is None:
        raise Invalid(f"{spec.call['app']} has no handler for {spec.call['type']}", field="app")
    context = Context(
        UUID(spec.task_id),
        handler.type,
        spec.attempt,
        spec.attempt,
        "",
        0,
        spec.fence,
        datetime.now(UTC),
        {},
        lambda row: keep(row.level, row.message),
        run_id=UUID(spec.run_id),
        workflow=spec.workflow_name,
        step_name=spec.task_name,
        index=spec.parallel_index,
        count=spec.parallel_count,
        item=spec.input.get("item") if isinstance(spec.input, dict) else None,
        upstream=spec.upstream,
        _job=artifacts.job,
        _artifact_store=artifacts,
    )
    keep_lines()
    threads = Threads(1)
    try:
        async with asyncio.timeout(spec.timeout):
            return await perform(handler, context, payload, threads, limit=MAX_OUTPUT)
    except TimeoutError:
        return Failed({"type": "Timeout", "message": f"timed out after {spec.timeout:g} s"})
    finally:
        threads.close()


def merged(spec: TaskSpec) -> Any:
    """Return the input merged with the results of the parent steps by name; keys of the input take precedence."""
    return {**spec.upstream, **spec.input} if isinstance(spec.input, dict) else spec.input


def _load(path: str) -> Any:
    from importlib import import_module

    module, _, name = path.partition(":")
    sys.path.insert(0, os.getcwd())
    target: Any = import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


if __name__ == "__main__":
    sys.exit(main())
