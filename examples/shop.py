"""A web shop to try workflows with: it charges cards, sends receipts, ships, and calls back when an order is paid.

    python -m examples.shop --port 8088

The cards `declined` and `bank-down` fail. `POST /pay/ORDER` simulates the payment of an order.
"""

import argparse
import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, web

CARDS = {"declined": 402, "bank-down": 503}
PRICE = 1999
ERRANDS = ("/receipt", "/ship", "/payment-failed", "/fulfill", "/checkout-expired")
ACCOUNTS = ("/trials/open", "/trials/close", "/mails")


@dataclass(frozen=True)
class Call:
    """A received request; header names are in lower case."""

    path: str
    body: Any
    headers: dict[str, str]
    status: int


class Shop:
    def __init__(self, on_call: Callable[[Call], None] = lambda _: None) -> None:
        self.url = ""
        self.calls: list[Call] = []
        self.callbacks: dict[str, str] = {}  # callback URLs by order
        self._on_call = on_call
        self._statuses: dict[str, deque[int]] = defaultdict(deque)
        self._done: dict[str, dict[str, Any]] = {}  # responses by idempotency key, so that work is done once
        self._news = asyncio.Condition()

    def will_answer(self, path: str, *statuses: int) -> None:
        """Return these statuses for the next requests to `path`."""
        self._statuses[path].extend(statuses)

    def calls_to(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.path == path]

    async def called(self, path: str, times: int = 1) -> Call:
        """Wait for the n-th call of `path` and return it."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.calls_to(path)) >= times)
        return self.calls_to(path)[times - 1]

    async def pay(self, order: str, status: str = "paid") -> int:
        """Send the callback for the payment of an order; return the status of the response."""
        message = {"order": order, "status": status, "payment_id": f"pay-{order}"}
        async with ClientSession() as session, session.post(self.callbacks[order], json=message) as answer:
            return answer.status

    def routes(self) -> list[web.RouteDef]:
        routes = [web.post(path, self._errand) for path in (*ERRANDS, *ACCOUNTS)]
        routes += [web.post("/charge", self._charge), web.post("/create-checkout", self._checkout)]
        return [*routes, web.post("/pay/{order}", self._pay)]

    async def _charge(self, request: web.Request) -> web.Response:
        body = await _json(request)
        status = CARDS.get(str(body.get("card")), 200)
        return await self._answer(request, body, status, {"order": body.get("order"), "amount": PRICE})

    async def _checkout(self, request: web.Request) -> web.Response:
        body = await _json(request)
        if "order" not in body or "callback_url" not in body:
            return await self._answer(request, body, 422, {})
        self.callbacks[str(body["order"])] = str(body["callback_url"])
        return await self._answer(request, body, 200, {"checkout": f"checkout-{body['order']}"})

    async def _errand(self, request: web.Request) -> web.Response:
        return await self._answer(request, await _json(request), 200, {"done": True})

    async def _pay(self, request: web.Request) -> web.Response:
        order = request.match_info["order"]
        if order not in self.callbacks:
            return web.json_response({"error": f"no callback registered for order {order}"}, status=404)
        status = str((await _json(request)).get("status", "paid"))
        return web.json_response({"answered": await self.pay(order, status)})

    async def _answer(self, request: web.Request, body: Any, status: int, answer: dict[str, Any]) -> web.Response:
        if self._statuses[request.path]:
            status = self._statuses[request.path].popleft()
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(request.path, body, headers, status)
        async with self._news:
            self.calls.append(call)
            self._news.notify_all()
        self._on_call(call)
        if status >= 400:
            return web.json_response({"error": f"{request.path} failed"}, status=status)
        key = f"{request.path} {headers.get('idempotency-key', len(self.calls))}"
        return web.json_response(self._done.setdefault(key, answer | {"number": len(self._done) + 1}), status=status)


@asynccontextmanager
async def serving(shop: Shop | None = None, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Shop]:
    """Serve a shop; port 0 picks a free port."""
    shop = shop or Shop()
    app = web.Application()
    app.add_routes(shop.routes())
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        shop.url = f"http://{host}:{runner.addresses[0][1]}"
        yield shop
    finally:
        await runner.cleanup()


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.text() or "{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="send a JSON object")
    return body


async def main() -> None:
    parser = argparse.ArgumentParser(description="A web shop to try workflows with.")
    parser.add_argument("--port", type=int, default=8088)
    options = parser.parse_args()
    shop = Shop(lambda call: print(call.status, call.path, json.dumps(call.body), flush=True))
    async with serving(shop, port=options.port):
        print(f"listening on {shop.url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
