"""Durable steps inside a handler: a step's result is recorded before the handler continues, so that a later attempt
does not repeat the step. The runtime provides the storage (`ContextData`)."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from windlass.core.jobs.spec import check_name
from windlass.core.json_value import RESULT_LIMIT, decode, encode
from windlass.errors import Invalid, NonRetryable


class ContextData(Protocol):
    """Stores data that must outlive an attempt. `fence` identifies the claim: writes of a lost claim are refused."""

    async def steps(self, job: UUID) -> dict[str, Any]: ...

    async def save_step(self, job: UUID, fence: int, name: str, result: Any) -> None: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call a sync function in a thread."""

    def wait(self, answer: Any) -> Any:
        """Run a coroutine in the worker's event loop and return its result. For calls from threads."""

    def progress(self, job: UUID, fence: int, fraction: float, message: str | None, data: Any) -> None: ...


class Steps:
    """The steps of one attempt. Without `context_data` (a handler called directly in a test) nothing is recorded."""

    def __init__(self, job: UUID, fence: int, context_data: ContextData | None) -> None:
        self._job = job
        self._fence = fence
        self._context_data = context_data
        self._named: set[str] = set()
        self._known: dict[str, Any] | None = None
        self._loading = asyncio.Lock()

    async def run(self, name: str, function: Callable[[], Any], *, is_async: bool) -> Any:
        """Return the result of this step, recorded by an earlier attempt or computed now."""
        known, value = await self._find(name)
        if not known:
            if is_async or self._context_data is None:
                value = function()
            else:
                value = await self._context_data.call(function)
            if inspect.isawaitable(value):
                value = await value
            value = await self._record(name, value)
        return value

    def run_sync(self, name: str, function: Callable[[], Any]) -> Any:
        """Like `run`, from a handler's thread."""
        if self._context_data is None:
            self._take(name)
            return _checked(name, function())
        known, value = self._context_data.wait(self._find(name))
        return value if known else self._context_data.wait(self._record(name, function()))

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
            raise NonRetryable(f"step {name!r} was already called in this attempt: give each call its own name")
        self._named.add(name)

    async def _record(self, name: str, value: Any) -> Any:
        """Record a value and return it as a later attempt will read it: both must see the same value."""
        value = _checked(name, value)
        if self._context_data is not None:
            await self._context_data.save_step(self._job, self._fence, name, value)
        return value


def _checked(name: str, value: Any) -> Any:
    try:
        return decode(encode(value, field="result", limit=RESULT_LIMIT))
    except Invalid as error:  # the work was done; a retry would return the same
        raise NonRetryable(f"the result of step {name!r} cannot be recorded: {error}") from None
