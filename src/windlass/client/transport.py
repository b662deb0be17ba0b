"""Performs calls with httpx over kept-alive connections, blocking or async, and reads streams of server-sent events.

`Reader` parses the events and decides when to reconnect; both transports pass it the lines of the response.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from windlass.client.request import AGAIN, NOTHING, Answer, Call, Flow, Pause, error_of, perform, unreachable
from windlass.errors import Unavailable, WindlassError

T = TypeVar("T")
SILENCE = 60.0  # seconds without data after which a stream is lost: the server sends at least a comment every 15
END = "end"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a client. `timeout`: seconds for one response; `retries`: attempts after the first one."""

    url: str
    key: str | None = field(default=None, repr=False)
    org: str | None = None
    timeout: float = 30.0
    retries: int = 3

    @property
    def headers(self) -> dict[str, str]:
        sent = {"X-API-Key": self.key, "X-Windlass-Org": self.org}
        return {name: value for name, value in sent.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Streamed:
    """A server-sent event: `id` is the position to resume from after it, `event` its type, `data` its JSON value."""

    id: str
    event: str
    data: Any


class SyncTransport:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.http = httpx.Client(**_settings(options))

    def call(self, call: Call[T]) -> T:
        return self.carry_out(perform(call, self.options.url, self.options.retries))

    def carry_out(self, flow: Flow[T]) -> T:
        answer: Any = None
        try:
            while True:
                step = flow.send(answer)
                if isinstance(step, Pause):
                    time.sleep(step.seconds)  # noqa: TID251 - the caller chose the client that blocks
                    answer = None
                else:
                    answer = self._ask(step)
        except StopIteration as end:
            result: T = end.value
            return result

    def _ask(self, call: Call[Any]) -> Answer:
        try:
            return answer_of(self.http.request(**_request(call, self.options)))
        except httpx.HTTPError as error:
            return _nothing(self.options, error)

    def stream(self, call: Call[None]) -> Iterator[Streamed]:
        """Yield events until the stream has ended; resume a lost connection after the last event."""
        reader = Reader(self.options)
        while not reader.ended:
            error = reader.cut_off()
            try:
                with self.http.stream(**reader.request(call)) as response:
                    if response.status_code == 204:  # the source ended, and no events are left
                        return
                    if response.status_code != 200:
                        response.read()
                        error = _refused(response, call)
                    else:
                        yield from filter(None, map(reader.line, response.iter_lines()))
            except httpx.HTTPError as broken:
                error = unreachable(self.options.url, reason(broken, self.options))
            if not reader.ended:
                time.sleep(reader.lost(error))  # noqa: TID251 - the caller chose the client that blocks

    def download(self, call: Call[None]) -> Iterator[bytes]:
        """Yield the content of a file in chunks."""
        try:
            with self.http.stream(**_request(call, self.options)) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refused(response, call)
                yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise unreachable(self.options.url, reason(error, self.options)) from None

    def close(self) -> None:
        self.http.close()


class AsyncTransport:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.http = httpx.AsyncClient(**_settings(options))

    async def call(self, call: Call[T]) -> T:
        return await self.carry_out(perform(call, self.options.url, self.options.retries))

    async def carry_out(self, flow: Flow[T]) -> T:
        answer: Any = None
        try:
            while True:
                step = flow.send(answer)
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    answer = None
                else:
                    answer = await self._ask(step)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _ask(self, call: Call[Any]) -> Answer:
        try:
            return answer_of(await self.http.request(**_request(call, self.options)))
        except httpx.HTTPError as error:
            return _nothing(self.options, error)

    async def stream(self, call: Call[None]) -> AsyncIterator[Streamed]:
        """Yield events until the stream has ended; resume a lost connection after the last event."""
        reader = Reader(self.options)
        while not reader.ended:
            error = reader.cut_off()
            try:
                async with self.http.stream(**reader.request(call)) as response:
                    if response.status_code == 204:  # the source ended, and no events are left
                        return
                    if response.status_code != 200:
                        await response.aread()
                        error = _refused(response, call)
                    else:
                        async for line in response.aiter_lines():
                            if event := reader.line(line):
                                yield event
            except httpx.HTTPError as broken:
                error = unreachable(self.options.url, reason(broken, self.options))
            if not reader.ended:
                await asyncio.sleep(reader.lost(error))

    async def download(self, call: Call[None]) -> AsyncIterator[bytes]:
        """Yield the content of a file in chunks."""
        try:
            async with self.http.stream(**_request(call, self.options)) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise _refused(response, call)
                async for chunk in response.aiter_bytes():
                    yield chunk
        except httpx.HTTPError as error:
            raise unreachable(self.options.url, reason(error, self.options)) from None

    async def close(self) -> None:
        await self.http.aclose()


def _settings(options: Options) -> dict[str, Any]:
    """Return the arguments for httpx's clients. Certificates are loaded only for https: that takes 50 ms."""
    verify = not options.url.startswith("http://")
    return {"base_url": options.url, "headers": options.headers, "timeout": options.timeout, "verify": verify}


def _request(call: Call[Any], options: Options) -> dict[str, Any]:
    """Return the arguments with which httpx sends a request."""
    body = {} if call.body is NOTHING else {"json": call.body}
    return {
        "method": call.method,
        "url": call.address,
        "params": call.parameters,
        "headers": dict(call.headers),
        "timeout": options.timeout + call.patience,
        **body,
    }


def answer_of(response: httpx.Response) -> Answer:
    media = response.headers.get("content-type", "").partition(";")[0]
    document: Any = response.text if media.startswith("text/") else None
    if media.endswith("json"):
        try:
            document = response.json()
        except ValueError:
            document = None
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, response.text, headers, document)


def _nothing(options: Options, error: httpx.HTTPError) -> Answer:
    return Answer(0, str(unreachable(options.url, reason(error, options))), {})


def reason(error: httpx.HTTPError, options: Options) -> str:
    """Return the reason why no response arrived."""
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError() if "attempts failed" in str(error) or not str(error):
            return "nothing listens there, or a firewall blocks the connection"
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return str(error)
        case httpx.TimeoutException():
            return f"no response within {options.timeout:g} s"
        case _:
            return str(error) or type(error).__name__


# Server-sent events


class Reader:
    """Parses lines into events, keeps the position to resume from, and counts consecutive failures."""

    def __init__(self, options: Options) -> None:
        self.last_id: str | None = None
        self.pause = 1.0  # seconds before reconnecting; the server may send another value
        self.ended = False
        self._options = options
        self._failures = 0
        self._event, self._id = "", ""
        self._data: list[str] = []

    def request(self, call: Call[None]) -> dict[str, Any]:
        """Return the arguments with which httpx opens the next connection."""
        resumed = {} if self.last_id is None else {"Last-Event-ID": self.last_id}
        headers = {**call.headers, "Accept": "text/event-stream", "Cache-Control": "no-store", **resumed}
        timeout = httpx.Timeout(self._options.timeout, read=SILENCE)
        return {**_request(call, self._options), "headers": headers, "timeout": timeout}

    def cut_off(self) -> WindlassError:
        """Return the error of a connection that ended without an `end` event."""
        return Unavailable(f"{self._options.url} closed the stream repeatedly")

    def line(self, text: str) -> Streamed | None:
        """Read a line; return an event if this is the blank line that ends it."""
        if not text:
            return self._finished()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id":
                self._id = value
            case "retry" if value.isdigit():
                self.pause = int(value) / 1000
        return None

    def lost(self, error: WindlassError) -> float:
        """Count a failure and return the seconds before reconnecting; raise the error after too many in a row."""
        self._failures += 1
        self._event, self._data, self._id = "", [], self.last_id or ""  # an incomplete event is dropped
        if self._failures > self._options.retries + 1:
            raise error
        return self.pause

    def _finished(self) -> Streamed | None:
        event, data, self._event, self._data = self._event, self._data, "", []
        if self._id:
            self.last_id = self._id
        if not data:
            return None
        self._failures = 0
        self.ended = event == END
        return Streamed(self.last_id or "", event or "message", json.loads("\n".join(data)))


def _refused(response: httpx.Response, call: Call[None]) -> WindlassError:
    """Return the error of a response if its status may be temporary; raise it otherwise."""
    answer = answer_of(response)
    error = error_of(answer.status, answer.text, answer.json, call.address)
    if answer.status not in AGAIN:
        raise error
    return error
