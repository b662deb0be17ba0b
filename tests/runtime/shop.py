"""A shop on loopback with scripted responses, and an app whose HTTP steps may reach it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from tests.effects.server import ClientConnection, Received, Server, reply, serving
from tests.keys import KEYS
from windlass import Windlass
from windlass.settings import Settings
from windlass.testing import Clock

LOCAL = ip_network("127.0.0.1/32")
Reply = bytes | Callable[[Received, ClientConnection], Awaitable[None]]


@dataclass
class Shop:
    """A server with responses by path. Responses of a list are sent in order, and the last one is repeated."""

    answers: dict[str, Any] = field(default_factory=dict)
    server: Server | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def requests(self) -> list[Received]:
        assert self.server is not None
        return self.server.received

    def paths(self) -> list[str]:
        return [request.target for request in self.requests]

    def asked(self, path: str) -> list[Received]:
        return [request for request in self.requests if request.target == path]

    def body(self, path: str) -> Any:
        """Return the body of the only request to this path."""
        [request] = self.asked(path)
        return json.loads(request.body) if request.body else None

    async def answer(self, request: Received, connection: ClientConnection) -> None:
        known = self.answers.get(request.target, ok())
        if isinstance(known, list):
            known = known.pop(0) if len(known) > 1 else known[0]
        if isinstance(known, bytes):
            await connection.send(known)
        else:
            await known(request, connection)


def ok(body: Any = None, *headers: str, status: int = 200) -> bytes:
    text = b"" if body is None else json.dumps(body).encode()
    return reply(status, text, "Content-Type: application/json", *headers)


@asynccontextmanager
async def opened(**answers: Any) -> AsyncIterator[Shop]:
    """Serve a shop with these responses by path, without the slash."""
    shop = Shop({f"/{path}": known for path, known in answers.items()})
    async with serving(shop.answer) as shop.server:
        yield shop


def app_for(database: str, clock: Clock | None = None, **settings: Any) -> Windlass:
    """Return an app whose HTTP steps may reach loopback."""
    chosen = Settings(**{"http_allow": (LOCAL,), "master_keys": KEYS, **settings})
    return Windlass(database, settings=chosen, clock=None if clock is None else clock.now)


async def deploy(app: Windlass, name: str = "w", **tasks: Any) -> None:
    """Deploy a workflow of these tasks; two underscores in a name stand for a hyphen."""
    await app.deploy({"name": name, "tasks": {key.replace("__", "-"): value for key, value in tasks.items()}})
