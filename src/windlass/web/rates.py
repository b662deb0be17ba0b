"""How much one caller may ask for, and everybody together: requests in a time, requests at a time, seconds for a body.

Callers are told apart by their key, or by their address where there is none. A bucket of tokens each: it is full at
first and fills again evenly, so that a burst is fine and a flood is not. Each process counts for itself.
"""

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.settings import Rate
from windlass.web import problems
from windlass.web.access_log import PROBES
from windlass.web.guard import Speaker, worded
from windlass.web.live import MEDIA_TYPE as STREAM

BEYOND_LOOPBACK = Rate(100, 1.0)  # unless WINDLASS_RATE_LIMIT says otherwise
MOST_CALLERS = 10_000  # remembered; who is forgotten begins with a full bucket


@dataclass(frozen=True, kw_only=True)
class RateOptions:
    rate: Rate | None = None  # None: as many as they like
    at_a_time: int = 1000  # requests under way, streams not counted
    body_within: float = 30.0  # seconds from the head of a request to the end of its body


class Buckets:
    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def take(self, caller: bytes) -> float:
        """What is left in the bucket after this request; less than nothing: it was too many."""
        now = self._clock()
        tokens, then = self._buckets.pop(caller, (float(self._rate.count), now))
        left = min(self._rate.count, tokens + (now - then) * self._rate.per_second) - 1
        self._buckets[caller] = (left if left >= 0 else left + 1, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return left


class Rates:
    """Pure ASGI. It stands behind the guard: who is refused there costs nothing here."""

    def __init__(self, app: ASGIApp, options: RateOptions, speakers: Mapping[str, Speaker] | None = None) -> None:
        self._app = app
        self._options = options
        self._speakers = speakers or {}
        self._buckets = Buckets(options.rate) if options.rate else None
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        left = self._buckets.take(_caller(scope)) if self._buckets else None
        refusal = self._refusal(left)
        if refusal is not None:
            answer = worded(scope, refusal, self._speakers)
            answer.headers["retry-after"] = refusal.headers["retry-after"]
            await answer(scope, receive, self._told(send, left))
            return
        self._under_way += 1
        counted = True

        def done() -> None:
            nonlocal counted
            self._under_way -= counted
            counted = False

        try:
            await self._app(scope, _in_time(receive, self._options.body_within), self._told(send, left, done))
        finally:
            done()

    def _refusal(self, left: float | None) -> Response | None:
        rate = self._options.rate
        if rate is not None and left is not None and left < 0:
            told = f"more than {rate.count} requests in {rate.seconds:g} s: wait as Retry-After says"
            return _later(problems.response(429, "Too many requests", told), math.ceil(-left / rate.per_second))
        if self._under_way >= self._options.at_a_time:
            told = f"{self._under_way} requests are under way in this process: try again in a moment"
            return _later(problems.response(503, "Busy", told), 1)
        return None

    def _told(self, send: Send, left: float | None, done: Callable[[], None] | None = None) -> Send:
        """Answers say what is left; one that is a stream is under way no more."""
        rate = self._options.rate

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if rate is not None and left is not None:
                    headers["ratelimit-limit"] = str(rate.count)
                    headers["ratelimit-remaining"] = str(max(0, math.floor(left)))
                    headers["ratelimit-reset"] = str(math.ceil((rate.count - max(left, 0)) / rate.per_second))
                if done is not None and headers.get("content-type", "").startswith(STREAM):
                    done()
            await send(message)

        return told


def _later(answer: Response, seconds: int) -> Response:
    answer.headers["retry-after"] = str(max(1, seconds))
    return answer


def _caller(scope: Scope) -> bytes:
    headers = Headers(scope=scope)
    if scope.get("state", {}).get("has_key"):  # the guard knows it: anybody can send something that looks like one
        key = headers.get("authorization") or headers.get("x-api-key", "")
        return hashlib.sha256(key.encode("latin-1", "replace")).digest()
    client = scope.get("client")
    return str(client[0]).encode() if client else b""


def _in_time(receive: Receive, within: float) -> Receive:
    """Bodies come in time or not at all: who sends a byte a minute would hold a place for ever."""
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
        return message

    return received
