"""Performs calls over httpx with kept-alive connections, blocking or awaiting, and reads streams of events.

`Reader` has the format of server-sent events and the rules of reconnecting; the two streams feed it lines.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from windlass.client.request import AGAIN, NOTHING, Answer, Call, Flow, Pause, error_of, performed, unreachable
from windlass.errors import Unavailable, WindlassError

T = TypeVar("T")
SILENCE = 60.0  # seconds; the server says something four times as often
END = "end"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a client talks. `timeout` is for one answer, in seconds; `retries` are those after the first try."""

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    retries: int = 3

    @property
    def headers(self) -> dict[str, str]:
        return {"X-API-Key": self.key} if self.key is not None else {}


class SyncTransport:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.http = httpx.Client(**_settings(options))

    def call(self, call: Call[T]) -> T:
        return self.carry_out(performed(call, self.options.url, self.options.retries))

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
            return answer_of(self.http.request(*target(call), **asked(call, self.options)))
        except httpx.HTTPError as error:
            return _nothing(self.options, error)

    def close(self) -> None:
        self.http.close()


class AsyncTransport:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.http = httpx.AsyncClient(**_settings(options))

    async def call(self, call: Call[T]) -> T:
        return await self.carry_out(performed(call, self.options.url, self.options.retries))

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
            return answer_of(await self.http.request(*target(call), **asked(call, self.options)))
        except httpx.HTTPError as error:
            return _nothing(self.options, error)

    async def close(self) -> None:
        await self.http.aclose()


def _settings(options: Options) -> dict[str, Any]:
    """Return the arguments of httpx's clients. Loading the certificates takes 50 ms, which only https needs."""
    verify = not options.url.startswith("http://")
    return {"base_url": options.url, "headers": options.headers, "timeout": options.timeout, "verify": verify}


def target(call: Call[Any]) -> tuple[str, str]:
    return call.method, call.address


def asked(call: Call[Any], options: Options) -> dict[str, Any]:
    """Return the other arguments of httpx for a request."""
    body = {} if call.body is NOTHING else {"json": call.body}
    return {
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
    """Return why there was no answer."""
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError() if "attempts failed" in str(error) or not str(error):
            return "nothing listens there, or something between keeps us from it"
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return str(error)
        case httpx.TimeoutException():
            return f"no answer within {options.timeout:g} s"
        case _:
            return str(error) or type(error).__name__


# Server-sent events


@dataclass(frozen=True, slots=True)
class Streamed:
    """An event: `id` is where to go on after it, `event` a word, `data` what it says."""

    id: str
    event: str
    data: Any


class Reader:
    """Lines in, events out; remembers where it was, and when to give up."""

    def __init__(self, retries: int) -> None:
        self.last_id: str | None = None
        self.pause = 1.0  # seconds before a new connection, until the server says otherwise
        self.ended = False
        self._retries = retries
        self._failures = 0
        self._event, self._id = "", ""
        self._data: list[str] = []

    def headers(self) -> dict[str, str]:
        found = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return found if self.last_id is None else {**found, "Last-Event-ID": self.last_id}

    def line(self, text: str) -> Streamed | None:
        """An event, at the blank line that ends it."""
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
        """The connection is gone: the pause before the next; raises when it is not worth it."""
        self._failures += 1
        self._event, self._data, self._id = "", [], self.last_id or ""  # half an event is none
        if self._failures > self._retries + 1:
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


class SyncStream:
    def __init__(self, transport: SyncTransport, call: Call[None]) -> None:
        self._transport, self._call = transport, call
        self._reader = Reader(transport.options.retries)

    def events(self) -> Iterator[Streamed]:
        reader = self._reader
        while not reader.ended:
            error: WindlassError = Unavailable(f"{self._transport.options.url} ended the stream again and again")
            try:
                with self._transport.http.stream(*target(self._call), **self._asked()) as response:
                    if response.status_code == 204:  # there is nothing to come any more
                        return
                    if response.status_code != 200:
                        response.read()
                        error = _refused(response, self._call)
                    else:
                        yield from filter(None, map(reader.line, response.iter_lines()))
            except httpx.HTTPError as broken:
                error = unreachable(self._transport.options.url, reason(broken, self._transport.options))
            if not reader.ended:
                time.sleep(reader.lost(error))  # noqa: TID251 - the caller chose the client that blocks

    def _asked(self) -> dict[str, Any]:
        return _asked(self._call, self._transport, self._reader)


class AsyncStream:
    def __init__(self, transport: AsyncTransport, call: Call[None]) -> None:
        self._transport, self._call = transport, call
        self._reader = Reader(transport.options.retries)

    async def events(self) -> AsyncIterator[Streamed]:
        reader = self._reader
        while not reader.ended:
            error: WindlassError = Unavailable(f"{self._transport.options.url} ended the stream again and again")
            try:
                async with self._transport.http.stream(*target(self._call), **self._asked()) as response:
                    if response.status_code == 204:  # there is nothing to come any more
                        return
                    if response.status_code != 200:
                        await response.aread()
                        error = _refused(response, self._call)
                    else:
                        async for line in response.aiter_lines():
                            if event := reader.line(line):
                                yield event
            except httpx.HTTPError as broken:
                error = unreachable(self._transport.options.url, reason(broken, self._transport.options))
            if not reader.ended:
                await asyncio.sleep(reader.lost(error))

    def _asked(self) -> dict[str, Any]:
        return _asked(self._call, self._transport, self._reader)


def _asked(call: Call[None], transport: SyncTransport | AsyncTransport, reader: Reader) -> dict[str, Any]:
    found = asked(call, transport.options)
    patience = httpx.Timeout(transport.options.timeout, read=SILENCE)
    return {**found, "headers": {**found["headers"], **reader.headers()}, "timeout": patience}


def _refused(response: httpx.Response, call: Call[None]) -> WindlassError:
    """Raises what will not become better by asking again."""
    answer = answer_of(response)
    error = error_of(answer.status, answer.text, answer.json, call.address)
    if answer.status not in AGAIN:
        raise error
    return error
