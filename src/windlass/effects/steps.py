"""Durable steps inside a handler: what a step gave is recorded before the handler goes on, so that an attempt after a
crash does not do it again. Where it is recorded is the runtime's business (`Ledger`)."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from windlass.core.jobs.spec import check_name
from windlass.core.json_value import RESULT_LIMIT, decode, encode
from windlass.errors import Invalid, NonRetryable


class ContextData(Protocol):
    """Keeps what must outlive an attempt. `fence` tells whether the attempt still holds its job."""

    async def steps(self, job: UUID) -> dict[str, Any]: ...

    async def save_step(self, job: UUID, fence: int, name: str, result: Any) -> None: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call a plain function in a thread."""

    def wait(self, answer: Any) -> Any:
        """For threads: what a coroutine gives on the worker's loop."""

    def progress(self, job: UUID, fence: int, fraction: float, message: str | None, data: Any) -> None: ...


class Steps:
    """The steps of one attempt. Without a ledger (a handler that is called in a test) nothing is recorded."""

    def __init__(self, job: UUID, fence: int, context_data: ContextData | None) -> None:
        self._job = job
        self._fence = fence
        self._context_data = context_data
        self._named: set[str] = set()
        self._known: dict[str, Any] | None = None
        self._loading = asyncio.Lock()

    async def run(self, name: str, function: Callable[[], Any], *, is_async: bool) -> Any:
        """What this step gave, now or in an earlier attempt."""
        found, value = await self._find(name)
        if not found:
            if is_async or self._context_data is None:
                value = function()
            else:
                value = await self._context_data.call(function)
            if inspect.isawaitable(value):
                value = await value
            value = await self._record(name, value)
        return value

    def run_sync(self, name: str, function: Callable[[], Any]) -> Any:
        """The same from a handler's thread."""
        if self._context_data is None:
            self._take(name)
            return _checked(name, function())
        found, value = self._context_data.wait(self._find(name))
        return value if found else self._context_data.wait(self._record(name, function()))

    async def _find(self, name: str) -> tuple[bool, Any]:
        self._take(name)
        if self._known is None and self._context_data is not None:
            async with self._loading:
                if self._known is None:
                    self._known = await self._context_data.steps(self._job)
        known = self._known or {}
        return name in known, known.get(name)

    def _take(self, name: str) -> None:
        try:
            check_name(name, "step", "name the step, for example charge")
        except Invalid as error:
            raise NonRetryable(str(error)) from None
        if name in self._named:
            raise NonRetryable(f"step {name!r} was called already in this attempt: give each call a name of its own")
        self._named.add(name)

    async def _record(self, name: str, value: Any) -> Any:
        """The value as it will be read again: the handler must not see anything else the first time."""
        value = _checked(name, value)
        if self._context_data is not None:
            await self._context_data.save_step(self._job, self._fence, name, value)
        return value


def _checked(name: str, value: Any) -> Any:
    try:
        return decode(encode(value, field="result", limit=RESULT_LIMIT))
    except Invalid as error:  # the work was done; doing it again would not help
        raise NonRetryable(f"what step {name!r} gave cannot be recorded: {error}") from None
