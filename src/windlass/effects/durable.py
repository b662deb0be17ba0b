"""The durable calls of a handler: steps, whose results are recorded before the handler continues, and waits, which
suspend it.

A call that waits raises `Suspend`, which ends the attempt. When the wait is over, the handler runs again from its
beginning: calls with a recorded result return it (core/jobs/replay.py). Steps that run concurrently with a wait finish
first, so that their results are recorded.
"""

import asyncio
import inspect
import queue
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.core.jobs.job import Claimed
from windlass.core.jobs.replay import Call, CallKind, MessageWait, NewRecord, Recorded, Replay, Suspended
from windlass.core.jobs.spec import MAX_NAME, check_name
from windlass.core.json_value import RESULT_LIMIT, decode, encode
from windlass.core.runs.run import RunResult, RunState
from windlass.effects.call_store import CallStore, RunRequest, SyncConnection
from windlass.errors import Conflict, Invalid, NonRetryable, WaitTimeout

MAX_KEY = 400  # characters of a message's key
MOST_MESSAGES = 1000  # that one call waits for
RUN_ENDED = "windlass.run"  # name of the event that ends the wait for a run
QUIET_TURNS = 3  # iterations of the event loop without a new call


class Suspend(BaseException):
    """Raised to suspend the handler. Not an `Exception`, so that `except Exception` does not catch it."""


class Wait(NamedTuple):
    """A call that suspends the handler."""

    record: NewRecord | None  # None: the call is recorded already
    message: MessageWait | None  # None: the call is a sleep


class DurableCalls:
    """The durable calls of one attempt. Without a store (a handler called directly in a test) nothing is recorded."""

    def __init__(
        self,
        job: UUID,
        fence: int,
        store: CallStore | None,
        recorded: Sequence[Recorded] = (),
        *,
        claim: Claimed | None = None,
        executor: object = None,
    ) -> None:
        """`executor` is the task or the thread that runs the handler; `claim` is None only without a store."""
        self._executor = executor
        self._job = job
        self._fence = fence
        self._claim = claim
        self._store = store
        self._replay = Replay(recorded)
        self._lock = threading.Lock()  # guards the replay: a sync handler may make calls from several threads
        self._unsaved: list[NewRecord] = []  # written with the next record
        self._made = 0  # calls made so far
        self._running = 0  # async steps in progress
        self._idle = asyncio.Event()  # set when `_running` becomes 0
        self._drawn = 0  # random numbers returned so far
        self._waits: dict[str, Wait] = {}  # by name of the call
        self._is_over = False

    @property
    def is_replaying(self) -> bool:
        return self._replay.is_behind

    @property
    def suspended(self) -> Suspended | None:
        """The outcome of the attempt, if a call has suspended it."""
        if not self._is_over:
            return None
        records = [wait.record for wait in self._waits.values() if wait.record is not None]
        messages = [wait.message for wait in self._waits.values() if wait.message is not None]
        return Suspended(list(self._waits), [*self._unsaved, *records], messages)

    async def step(self, name: str, function: Callable[[], Any], *, is_async: bool) -> Any:
        """Return the result of this step, recorded by an earlier attempt or computed now."""
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        with self._step():
            await self._save()
            if is_async or self._store is None:
                value = function()
            else:
                value = await self._store.call(function)
            if inspect.isawaitable(value):
                value = await value
            text = _encoded(name, value)
            await self._save(call.record(text))
            return decode(text)  # as a later attempt will read it: both must see the same value

    def step_sync(self, name: str, function: Callable[[], Any]) -> Any:
        """Like `step`, from a handler's thread."""
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        if self._store is None:
            return decode(_encoded(name, function()))
        if self._unsaved:
            self._store.wait(self._save())
        text = _encoded(name, function())
        self._store.wait(self._save(call.record(text)))
        return decode(text)

    async def transaction(self, name: str, function: Callable[[Any], Awaitable[Any]]) -> Any:
        """Like `step`, but call the function with a database connection and commit its writes in the transaction that
        records the result."""
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        store = self._recording()

        async def work(conn: Any) -> str:
            return _encoded(name, await function(conn))

        with self._step():
            records = list(self._unsaved)
            value = await store.transact(self._job, self._fence, records, call, work)
            del self._unsaved[: len(records)]
            return value

    def transaction_sync(self, name: str, function: Callable[[SyncConnection], Any]) -> Any:
        """Like `transaction`, from a handler's thread, in which the function runs.

        The event loop opens the transaction, passes its connection to this thread and waits for the result.
        """
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        store = self._recording()
        begun: queue.SimpleQueue[tuple[Any, asyncio.Future[str]] | None] = queue.SimpleQueue()

        async def work(conn: Any) -> str:
            result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            begun.put((conn, result))
            return await result

        async def transact() -> Any:
            try:
                return await store.transact(self._job, self._fence, list(self._unsaved), call, work)
            finally:
                begun.put(None)

        future = store.begin(transact())
        while (transaction := begun.get()) is not None:  # more than one if the transaction is retried after an outage
            conn, result = transaction
            try:
                text = _encoded(name, function(SyncConnection(conn, store)))
            except BaseException as error:
                result.get_loop().call_soon_threadsafe(_fail, result, error)
            else:
                result.get_loop().call_soon_threadsafe(_resolve, result, text)
        value = future.result()
        self._unsaved.clear()
        return value

    async def sleep(self, length: Duration, name: str) -> None:
        """Suspend the handler for this time."""
        if (wait := self._sleep(length, name)) is not None:
            await self._suspend(*wait)

    def sleep_sync(self, length: Duration, name: str) -> None:
        """Like `sleep`, from a handler's thread."""
        if (wait := self._sleep(length, name)) is not None:
            self._recording().wait(self._suspend(*wait))

    def _sleep(self, length: Duration, name: str) -> tuple[Call, NewRecord | None] | None:
        """Return the call and its record, if it is new; return None if the sleep has ended."""
        delay = _positive(length, "sleep")
        call = self._begin(name, CallKind.SLEEP)
        if call.recorded is None:
            return call, call.record(waits=True, delay=delay)
        return None if call.recorded.over else (call, None)

    async def wait_for(self, name: str, key: str | None, timeout: Duration | None, number: int) -> Any:
        """Return the payload of a message; suspend the handler until it has arrived."""
        return await self._received(*self._wait_for(name, key, timeout, number))

    def wait_for_sync(self, name: str, key: str | None, timeout: Duration | None, number: int) -> Any:
        """Like `wait_for`, from a handler's thread."""
        return self._recording().wait(self._received(*self._wait_for(name, key, timeout, number)))

    def _wait_for(
        self, name: str, key: str | None, timeout: Duration | None, number: int
    ) -> tuple[Call, NewRecord | None, MessageWait]:
        with _mistakes():
            check_name(name, "name", "name the message, for example paid")
            if key:
                check_name(key, "key", "leave it out for a signal, or give a key", limit=MAX_KEY)
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_MESSAGES:
                raise Invalid(f"count is {number!r}: it must be 1 to {MOST_MESSAGES}", field="count")
        delay = None if timeout is None else _positive(timeout, "timeout")
        call = self._begin(f"wait_for {name}", CallKind.WAIT)
        wait = MessageWait(call.name, name, key or "", key is None, number)
        return call, call.record(waits=True, delay=delay) if call.recorded is None else None, wait

    async def _received(self, call: Call, record: NewRecord | None, wait: MessageWait) -> Any:
        row = call.recorded
        if row is None or (row.waits and not row.over):
            await self._suspend(call, record, wait)
        value, timed_out = row.value, row.over
        if row.waits:
            value, timed_out = await self._recording().end_wait(self._job, self._fence, call.name)
        if timed_out:
            raise WaitTimeout(wait.name)
        return value

    async def run(self, request: RunRequest) -> Any:
        """Return the output of a run; start it, and suspend the handler until it has ended."""
        return await self._run(self._begin(request.title, CallKind.RUN), request)

    def run_sync(self, request: RunRequest) -> Any:
        """Like `run`, from a handler's thread."""
        call = self._begin(request.title, CallKind.RUN)
        return self._recording().wait(self._run(call, request))

    async def _run(self, call: Call, request: RunRequest) -> Any:
        """Start or watch a run. Its record holds the id while the run is live, and the result afterwards."""
        row, store, claim = call.recorded, self._recording(), self._claim
        assert claim is not None
        if row is not None and "state" in row.value:
            return _output(row.value)
        with self._step():
            if row is None:
                await self._save()
                with _mistakes():
                    run = await store.start_run(claim, f"{claim.epoch}/{call.name}", request)
            else:
                run = UUID(row.value["run"])
            result = await store.watch_run(claim, run)
            if result is not None:
                value = {"run": str(run), "state": result.state, "output": result.output, "steps": result.steps}
                await self._save(call.record(_encoded(call.name, value)))
                return _output(value)
        record = call.record(encode({"run": str(run)}, field="run"), waits=True) if row is None else None
        return await self._suspend(call, record, MessageWait(call.name, RUN_ENDED, str(run), is_signal=False, number=1))

    def now(self) -> datetime:
        """Return the time, which is recorded: it is the same in all attempts."""
        call = self._begin("now", CallKind.NOW)
        if call.recorded is not None:
            return datetime.fromisoformat(call.recorded.value)
        now = datetime.now(UTC) if self._store is None else self._store.now()
        self._unsaved.append(call.record(encode(now.isoformat(), field="now")))
        return now

    def random(self, seed: str) -> float:
        """Return a number in [0, 1) derived from the seed and the number of earlier calls, so that all attempts get the
        same value."""
        with self._lock:
            self._drawn += 1
            return random.Random(f"{seed}/{self._drawn}").random()

    def _begin(self, name: str, kind: CallKind) -> Call:
        """Return the next call with this name; raise `Suspend` if the handler is suspended already."""
        with _mistakes():
            check_name(name, "step", "name the step, for example charge", limit=MAX_NAME + 20)
        if self._is_over:
            raise Suspend
        with self._lock:
            self._made += 1
            return self._replay.call(name, kind, in_order=self._executor is _executor())

    async def _suspend(self, call: Call, record: NewRecord | None, message: MessageWait | None = None) -> NoReturn:
        """Suspend the handler in this call, after the steps that run in other tasks have finished."""
        self._recording()
        self._waits[call.name] = Wait(record, message)
        try:
            await self._quiet()
        except BaseException:
            if not self._is_over:  # cancelled: the handler no longer waits for this call
                del self._waits[call.name]
            raise
        self._is_over = True
        self._idle.set()
        raise Suspend

    async def _quiet(self) -> None:
        """Wait until no step runs, and until tasks that the handler has just started have made their first calls."""
        made, turns = -1, 0
        while not self._is_over and (self._running or turns < QUIET_TURNS):
            if self._running:
                self._idle.clear()
                await self._idle.wait()
            else:
                await asyncio.sleep(0)
            made, turns = self._made, turns + 1 if made == self._made else 0

    @contextmanager
    def _step(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _save(self, *records: NewRecord) -> None:
        """Write records, and the unsaved ones before them: the function that is called next may depend on their
        values."""
        unsaved = list(self._unsaved)
        if self._store is not None and (unsaved or records):
            await self._store.record(self._job, self._fence, [*unsaved, *records])
            del self._unsaved[: len(unsaved)]

    def _recording(self) -> CallStore:
        if self._store is None:
            raise Conflict("only a worker can do this: the handler was called without one (see windlass.testing)")
        return self._store


def _executor() -> object:
    """Return the current task, or the current thread if it runs no event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.current_thread()


def _output(record: dict[str, Any]) -> Any:
    """Return the output of a run that has ended; raise `RunFailed` if it did not complete."""
    return RunResult(UUID(record["run"]), RunState(record["state"]), record["output"], record["steps"]).value


def _resolve(future: "asyncio.Future[str]", text: str) -> None:
    if not future.done():
        future.set_result(text)


def _fail(future: "asyncio.Future[str]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


@contextmanager
def _mistakes() -> Iterator[None]:
    """Fail the job without a retry if the handler passes an invalid argument: a retry would pass it again."""
    try:
        yield
    except Invalid as error:
        raise NonRetryable(str(error)) from None


def _positive(length: Duration, field: str) -> timedelta:
    with _mistakes():
        span = duration.read(length, field=field)
        if span <= timedelta():
            raise Invalid(f"{field} is {length!r}: it must be positive", field=field)
        return span


def _encoded(name: str, value: Any) -> str:
    try:
        return encode(value, field="result", limit=RESULT_LIMIT)
    except Invalid as error:  # the work was done; a retry would return the same
        raise NonRetryable(f"the result of step {name!r} cannot be recorded: {error}") from None
