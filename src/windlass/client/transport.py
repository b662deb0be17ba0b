"""The two who carry out what `calls` says: over httpx, connections kept and used again."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from windlass.client.request import NOTHING, Answer, Call, Flow, Pause, performed, unreachable

T = TypeVar("T")


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
        self.http = httpx.Client(base_url=options.url, headers=options.headers, timeout=options.timeout)

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
        self.http = httpx.AsyncClient(base_url=options.url, headers=options.headers, timeout=options.timeout)

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


def target(call: Call[Any]) -> tuple[str, str]:
    return call.method, call.address


def asked(call: Call[Any], options: Options) -> dict[str, Any]:
    """The rest of a request, in httpx's words."""
    body = {} if call.body is NOTHING else {"json": call.body}
    return {
        "params": call.parameters,
        "headers": dict(call.headers),
        "timeout": options.timeout + call.patience,
        **body,
    }


def answer_of(response: httpx.Response) -> Answer:
    media = response.headers.get("content-type", "").partition(";")[0]
    json: Any = response.text if media.startswith("text/") else None
    if media.endswith("json"):
        try:
            json = response.json()
        except ValueError:
            json = None
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, response.text, headers, json)


def _nothing(options: Options, error: httpx.HTTPError) -> Answer:
    return Answer(0, str(unreachable(options.url, reason(error, options))), {})


def reason(error: httpx.HTTPError, options: Options) -> str:
    """Why nothing came, in words that help."""
    match error:
        case httpx.ConnectTimeout() | httpx.ConnectError() if "attempts failed" in str(error) or not str(error):
            return "nothing listens there, or something between keeps us from it"
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return str(error)
        case httpx.TimeoutException():
            return f"no answer within {options.timeout:g} s"
        case _:
            return str(error) or type(error).__name__
