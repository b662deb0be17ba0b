"""Performs one request and returns its outcome: follows redirects, reads the body and handles errors."""

import asyncio
import io
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import aiohttp
from multidict import MultiMapping

from windlass.core.jobs.job import Failed, Outcome
from windlass.core.json_value import plain
from windlass.effects.http.addresses import AddressRefused
from windlass.effects.http.answer import Answer, outcome_of, told
from windlass.effects.http.body import Body
from windlass.effects.http.redirect import FOLLOWED, redirected
from windlass.effects.http.request import HttpRequest, Message, prepare
from windlass.errors import Invalid

MAX_TIMEOUT = timedelta(hours=24)  # per attempt, whatever the step's timeout: no connection is held forever


class Exchange:
    def __init__(self, session: aiohttp.ClientSession, *, max_body: int, max_redirects: int) -> None:
        self._session = session
        self._max_body = max_body
        self._max_redirects = max_redirects
        self._began = time.monotonic()
        self._message: Message | None = None
        self._answer: Answer | None = None

    async def run(self, request: HttpRequest, user_agent: str) -> Outcome:
        timeout = min(request.timeout, MAX_TIMEOUT).total_seconds()
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._run(prepare(request, user_agent))
        except Invalid as mistake:
            return self._failed("Invalid", str(mistake), retryable=False)
        except Exception as error:
            if refusal := _refusal(error):
                return self._failed("AddressRefused", str(refusal), retryable=False)
            if limit.expired():
                error = TimeoutError(f"timed out after {timeout:g} s")
            return self._broken(error)

    async def _run(self, message: Message) -> Outcome:
        for _ in range(self._max_redirects + 1):
            self._message = message
            answer = await self._send(message)
            location = answer.headers.get("location")
            if location is None or answer.status not in FOLLOWED:
                return outcome_of(answer, message.name, self._took, datetime.now(UTC))
            message = redirected(message, answer.status, location)
        raise Invalid(f"more than {self._max_redirects} redirects")

    async def _send(self, message: Message) -> Answer:
        body = None if message.body is None else io.BytesIO(message.body)  # streamed: it may be large
        response = await self._session.request(
            message.method, message.url, headers=message.headers, data=body, allow_redirects=False
        )
        try:
            self._answer = answer = self._begun(response)
            async for data in response.content.iter_any():
                if not answer.body.feed(data):
                    break
            answer.is_whole = answer.body.is_cut or answer.body.is_whole
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()
        if not answer.is_whole:
            raise zlib.error("the packed body stops before its end")
        return answer

    def _begun(self, response: aiohttp.ClientResponse) -> Answer:
        headers = _joined(response.headers)
        return Answer(response.status, headers, response.charset, Body(headers.get("content-encoding"), self._max_body))

    def _broken(self, error: Exception) -> Outcome:
        """Return the outcome after an error: an error status counts even if its body is incomplete; a success status
        with an incomplete body is a failure."""
        answer, name = self._answer, self._message.name if self._message else "the request"
        if answer is not None and not answer.is_whole and not answer.succeeded:
            return outcome_of(answer, name, self._took, datetime.now(UTC))
        return self._failed(
            "Timeout" if isinstance(error, TimeoutError) else "NetworkError", f"{name}: {_words(error)}"
        )

    def _failed(self, kind: str, message: str, *, retryable: bool = True) -> Failed:
        kept = None if self._answer is None else self._answer.document(self._took)
        return Failed(told(kind, message), retryable=retryable, result=kept)

    @property
    def _took(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._began)


def _joined(headers: MultiMapping[str]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        name, value = plain(name).lower(), plain(value)
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _refusal(error: BaseException | None) -> AddressRefused | None:
    while error is not None and not isinstance(error, AddressRefused):
        error = error.__cause__
    return error


def _words(error: Exception) -> str:
    """Return the error message without the URL, which aiohttp's own messages contain."""
    match error:
        case aiohttp.ClientConnectorError():
            return str(error.os_error) or type(error.os_error).__name__
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP: {error.message}"
        case _:
            return str(error) or type(error).__name__
