"""The durable calls of a handler: steps, whose results are recorded before the handler continues, and waits, which
suspend it.

A call that waits raises `Suspend`, which ends the attempt. When the wait is over, the handler runs again from its
beginning: calls with a recorded result return it (core/jobs/replay.py). Steps that run concurrently with a wait finish
first, so that their results are recorded.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn, Protocol
from uuid import UUID

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.core.jobs.replay import Call, CallKind, NewRecord, Recorded, Replay, Suspended
from windlass.core.jobs.spec import check_name
from windlass.core.json_value import RESULT_LIMIT, decode, encode
from windlass.errors import Conflict, Invalid, NonRetryable

QUIET_TURNS = 3  # turns of the event loop without a new call


class Suspend(BaseException):
    """Ends an attempt whose handler waits. Not an `Exception`, so that `except Exception` does not catch it."""


class CallStore(Protocol):
    """Records the durable calls of handlers. `fence` identifies the claim: writes of a lost claim are refused."""

    async def record(self, job: UUID, fence: int, records: Sequence[NewRecord]) -> None: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call a sync function in a thread."""

    def wait(self, answer: Any) -> Any:
        """Run a coroutine in the worker's event loop and return its result. For calls from threads."""


class DurableCalls:
    """The durable calls of one attempt. Without a store (a handler called directly in a test) nothing is recorded."""

    def __init__(self, job: UUID, fence: int, store: CallStore | None, recorded: Sequence[Recorded] = ()) -> None:
        self.executor: object = None  # the task or the thread that runs the handler; None: not known
        self._job = job
        self._fence = fence
        self._store = store
        self._replay = Replay(recorded)
        self._lock = threading.Lock()  # guards the replay: a sync handler may make calls from several threads
        self._unsaved: list[NewRecord] = []  # written with the next record
        self._made = 0  # calls
        self._running = 0  # async steps
        self._idle = asyncio.Event()  # set when `_running` becomes 0
        self._waits: dict[str, NewRecord | None] = {}  # the calls that wait
        self._is_over = False

    @property
    def is_replaying(self) -> bool:
        return self._replay.is_behind

    @property
    def suspended(self) -> Suspended | None:
        """The outcome of the attempt, if a call has suspended it."""
        if not self._is_over:
            return None
        waits = [record for record in self._waits.values() if record is not None]
        return Suspended(list(self._waits), [*self._unsaved, *waits])

    async def step(self, name: str, function: Callable[[], Any], *, is_async: bool) -> Any:
        """Return the result of this step, recorded by an earlier attempt or computed now."""
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        with self._step():
            await self._save_pending()
            if is_async or self._store is None:
                value = function()
            else:
                value = await self._store.call(function)
            if inspect.isawaitable(value):
                value = await value
            return await self._record(call, value)

    def step_sync(self, name: str, function: Callable[[], Any]) -> Any:
        """Like `step`, from a handler's thread."""
        call = self._begin(name, CallKind.STEP)
        if call.recorded is not None:
            return call.recorded.value
        if self._store is None:
            return decode(_encoded(name, function()))
        if self._unsaved:
            self._store.wait(self._save_pending())
        return self._store.wait(self._record(call, function()))

    async def sleep(self, length: Duration, name: str) -> None:
        """Suspend the handler for this time."""
        if (wait := self._sleep(length, name)) is not None:
            await self._suspend(*wait)

    def sleep_sync(self, length: Duration, name: str) -> None:
        """Like `sleep`, from a handler's thread."""
        if (wait := self._sleep(length, name)) is not None:
            self._recording().wait(self._suspend(*wait))

    def _sleep(self, length: Duration, name: str) -> tuple[Call, NewRecord | None] | None:
        """Return the call and its new record, if any; None if the time is over."""
        delay = _positive(length, "sleep")
        call = self._begin(name, CallKind.SLEEP)
        if call.recorded is None:
            return call, call.record(waits=True, delay=delay)
        return (call, None) if call.recorded.waits and not call.recorded.over else None

    def _begin(self, name: str, kind: CallKind) -> Call:
        """Return the next call with this name; raise `Suspend` if the attempt has ended."""
        try:
            check_name(name, "step", "name the step, for example charge")
        except Invalid as error:
            raise NonRetryable(str(error)) from None
        if self._is_over:
            raise Suspend
        with self._lock:
            self._made += 1
            return self._replay.call(name, kind, in_order=self.executor is _executor())

    async def _suspend(self, call: Call, record: NewRecord | None = None) -> NoReturn:
        """End the attempt until this call's wait is over. Steps in other tasks finish first."""
        self._recording()
        self._waits[call.name] = record
        try:
            await self._quiet()
        except BaseException:
            if not self._is_over:  # the handler no longer waits for this call
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

    async def _save_pending(self) -> None:
        """Write what was recorded without waiting: the function called next may depend on it."""
        if self._unsaved and self._store is not None:
            records = list(self._unsaved)
            await self._store.record(self._job, self._fence, records)
            del self._unsaved[: len(records)]

    async def _record(self, call: Call, value: Any) -> Any:
        """Record a value and return it as a later attempt will read it: both must see the same value."""
        text = _encoded(call.name, value)
        if self._store is not None:
            records = [*self._unsaved, call.record(text)]
            await self._store.record(self._job, self._fence, records)
            del self._unsaved[: len(records) - 1]
        return decode(text)

    def _recording(self) -> CallStore:
        if self._store is None:
            raise Conflict("the handler cannot wait here: only a worker can suspend it (see windlass.testing)")
        return self._store


def _executor() -> object:
    """Return the task that runs, or the thread if it runs no event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.current_thread()


def _positive(length: Duration, field: str) -> timedelta:
    try:
        span = duration.read(length, field=field)
        if span <= timedelta():
            raise Invalid(f"{field} is {length!r}: it must be positive", field=field)
    except Invalid as error:
        raise NonRetryable(str(error)) from None
    return span


def _encoded(name: str, value: Any) -> str:
    try:
        return encode(value, field="result", limit=RESULT_LIMIT)
    except Invalid as error:  # the work was done; a retry would return the same
        raise NonRetryable(f"the result of step {name!r} cannot be recorded: {error}") from None
