"""Server-sent events: read line by line, taken up again after the last one seen when the connection ends.

`Reader` is the whole of the format and of the reconnecting, without a connection; the two streams below feed it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from windlass.client.problems import refusal
from windlass.client.request import AGAIN, Call, unreachable
from windlass.client.transport import AsyncTransport, SyncTransport, answer_of, asked, reason, target
from windlass.errors import Unavailable, WindlassError

SILENCE = 60.0  # seconds; the server says something four times as often
END = "end"


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
    error = refusal(answer.status, answer.text, answer.json, call.address)
    if answer.status not in AGAIN:
        raise error
    return error
