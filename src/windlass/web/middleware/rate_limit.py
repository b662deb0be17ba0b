"""Limits the rate of each caller, the requests and body bytes in progress, and the time in which a body must arrive.

A caller is the API key that matched, or the address if there is none. Each process counts only its own requests.
Requests to `/wh/`, `/in/` and `/approve/`, which need no key, have separate slots, so that they cannot block the
others.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.settings import Rate
from windlass.web.live import MEDIA_TYPE
from windlass.web.middleware.access_log import OUTSIDE, PROBES, address_of
from windlass.web.middleware.guard import Rejection, Render, key_of
from windlass.web.middleware.limits import Buckets, Slot, SlotOptions, Slots

BEYOND_LOOPBACK = Rate(100, 1.0)  # unless WINDLASS_RATE_LIMIT is set
STREAM = MEDIA_TYPE.encode()
MIB = 1024 * 1024
FOR_KEYS = SlotOptions(requests=1000, body_bytes=32 * MIB)  # streams are not counted
FOR_OUTSIDE = SlotOptions(requests=500, body_bytes=16 * MIB, per_address=250)  # /wh/, /in/, /approve/


@dataclass(frozen=True, kw_only=True)
class RateOptions:
    rate: Rate | None = None  # None: no limit
    slots: SlotOptions = FOR_KEYS
    outside: SlotOptions = FOR_OUTSIDE
    body_within: float = 30.0  # seconds from the head of a request to the end of its body


class Rates:
    """The middleware of the limits. It runs after the guard, so that rejected requests use no slot."""

    def __init__(self, app: ASGIApp, options: RateOptions, renderers: Mapping[str, Render] | None = None) -> None:
        self._app = app
        self._options = options
        self._renderers = renderers or {}
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
            answer = self._rejection(left).response(scope, self._renderers)
            await answer(scope, receive, self._with_headers(send, left))
            return
        try:
            bounded = _bounded(receive, slot, self._options.body_within)
            await self._app(scope, bounded, self._with_headers(send, left, slot.release))
        finally:
            slot.release()

    def _rejection(self, left: float | None) -> Rejection:
        rate = self._options.rate
        if rate is not None and left is not None and left < 0:
            detail = f"more than {rate.count} requests in {rate.seconds:g} s: wait for the time in Retry-After"
            return Rejection.too_many(detail, math.ceil(-left / rate.per_second))
        detail = "too many requests are in progress in this process: try again in a moment"
        return Rejection(503, "Busy", detail, {"retry-after": "1"})

    def _with_headers(self, send: Send, left: float | None, release: Callable[[], None] | None = None) -> Send:
        """Add the rate limit's headers to the response; call `release` as soon as it turns out to be a stream."""
        rate = self._options.rate

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if rate is not None and left is not None:
                    headers = MutableHeaders(scope=message)
                    headers["ratelimit-limit"] = str(rate.count)
                    headers["ratelimit-remaining"] = str(max(0, math.floor(left)))
                    headers["ratelimit-reset"] = str(math.ceil((rate.count - max(left, 0)) / rate.per_second))
                if release is not None and is_stream(message):
                    release()
            await send(message)

        return send_with_headers


def is_stream(message: Message) -> bool:
    """Return whether the head of a response announces a stream of events."""
    return any(name == b"content-type" and value.startswith(STREAM) for name, value in message["headers"])


def _bounded(receive: Receive, slot: Slot, within: float) -> Receive:
    """Return a `receive` that refuses a body which does not arrive in time, or exceeds the memory for all bodies."""
    deadline = time.monotonic() + within
    is_complete = False

    async def received() -> Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {within:g} s", {"Connection": "close"}) from None
        is_complete = not message.get("more_body", False)
        if not slot.has_room(len(message.get("body", b""))):
            detail = "too many large bodies are in progress in this process: try again in a moment"
            raise HTTPException(503, detail, {"Connection": "close", "Retry-After": "1"})
        return message

    return received
