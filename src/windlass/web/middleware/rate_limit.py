"""Limits: requests in a time for each caller, requests and bytes under way for all together, seconds for a body.

Callers are told apart by the key that matched, or by their address where there is none. Each process counts for itself.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.settings import Rate
from windlass.web import problems
from windlass.web.live import MEDIA_TYPE as STREAM
from windlass.web.middleware.access_log import PROBES
from windlass.web.middleware.buckets import Buckets
from windlass.web.middleware.guard import OUTSIDE, Speaker, address_of, key_of, worded
from windlass.web.middleware.slots import Slot, SlotOptions, Slots

BEYOND_LOOPBACK = Rate(100, 1.0)  # unless WINDLASS_RATE_LIMIT says otherwise
MIB = 1024 * 1024
FOR_KEYS = SlotOptions(requests=1000, body_bytes=32 * MIB)  # streams not counted
FOR_OUTSIDE = SlotOptions(requests=500, body_bytes=16 * MIB, per_address=250)  # /wh/ and /in/


@dataclass(frozen=True, kw_only=True)
class RateOptions:
    rate: Rate | None = None  # None: no limit
    slots: SlotOptions = FOR_KEYS
    outside: SlotOptions = FOR_OUTSIDE
    body_within: float = 30.0  # seconds from the head of a request to the end of its body


class Rates:
    """Pure ASGI, behind the guard: what is refused there costs nothing here."""

    def __init__(self, app: ASGIApp, options: RateOptions, speakers: Mapping[str, Speaker] | None = None) -> None:
        self._app = app
        self._options = options
        self._speakers = speakers or {}
        self._buckets = Buckets(options.rate) if options.rate else None
        self._slots, self._outside = Slots(options.slots), Slots(options.outside)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        left = self._buckets.take(key_of(scope) or address_of(scope).encode()) if self._buckets else None
        slot = None
        if left is None or left >= 0:
            slots = self._outside if scope["path"].startswith(OUTSIDE) else self._slots
            slot = slots.take(address_of(scope))
        if slot is None:
            refusal = self._refusal(left)
            answer = worded(scope, refusal, self._speakers)
            answer.headers["retry-after"] = refusal.headers["retry-after"]
            await answer(scope, receive, self._told(send, left))
            return
        try:
            received = _bounded(receive, slot, self._options.body_within)
            await self._app(scope, received, self._told(send, left, slot.release))
        finally:
            slot.release()

    def _refusal(self, left: float | None) -> Response:
        rate = self._options.rate
        if rate is not None and left is not None and left < 0:
            told = f"more than {rate.count} requests in {rate.seconds:g} s: wait as Retry-After says"
            return _later(problems.response(429, "Too many requests", told), math.ceil(-left / rate.per_second))
        told = "too many requests are under way in this process: try again in a moment"
        return _later(problems.response(503, "Busy", told), 1)

    def _told(self, send: Send, left: float | None, release: Callable[[], None] | None = None) -> Send:
        """Answers say what is left; one that is a stream gives its slot back."""
        rate = self._options.rate

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if rate is not None and left is not None:
                    headers["ratelimit-limit"] = str(rate.count)
                    headers["ratelimit-remaining"] = str(max(0, math.floor(left)))
                    headers["ratelimit-reset"] = str(math.ceil((rate.count - max(left, 0)) / rate.per_second))
                if release is not None and headers.get("content-type", "").startswith(STREAM):
                    release()
            await send(message)

        return told


def _later(answer: Response, seconds: int) -> Response:
    answer.headers["retry-after"] = str(max(1, seconds))
    return answer


def _bounded(receive: Receive, slot: Slot, within: float) -> Receive:
    """Bodies arrive in time or not at all, and not more of them at once than the process has memory for."""
    deadline = time.monotonic() + within
    whole = False

    async def received() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {within:g} s", {"Connection": "close"}) from None
        whole = not message.get("more_body", False)
        if not slot.has_room(len(message.get("body", b""))):
            told = "too many large bodies are under way in this process: try again in a moment"
            raise HTTPException(503, told, {"Connection": "close", "Retry-After": "1"})
        return message

    return received
