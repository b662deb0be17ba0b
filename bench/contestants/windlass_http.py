"""The server of Windlass, without a worker: `POST /workflows/{name}/trigger` starts runs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bench.contestants.http import measure
from bench.contestants.http import serve as serve_app
from bench.contestants.stage import POOL, Turn, perform
from windlass import Windlass
from windlass.settings import Settings
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions

WORKFLOW: dict[str, Any] = {"name": "orders", "tasks": {"charge": {"job": "orders.charge.v1"}}}


async def http(turn: Turn) -> dict[str, Any]:
    return await measure("bench.contestants.windlass_http", "/api/v1/workflows/orders/trigger", turn)


async def serve(turn: Turn) -> dict[str, Any]:
    return await serve_app(_app(turn))


@contextlib.asynccontextmanager
async def _app(turn: Turn) -> AsyncIterator[Any]:
    async with Windlass(turn.url, settings=Settings(pool_size=POOL)) as app:
        await app.deploy(WORKFLOW)
        yield server.build(app, GuardOptions(host="127.0.0.1"))


if __name__ == "__main__":
    perform({"http": http, "serve": serve}, {})
