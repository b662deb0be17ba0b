"""A shop to try workflows against: it charges cards, sends receipts, ships, and calls back when somebody has paid.

    python -m examples.shop --port 8088

The card decides how a charge ends: `declined` and `bank-down` fail. `POST /pay/ORDER` plays the customer who pays.
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
    """A request that came in; the names of headers are in small letters."""

    path: str
    body: Any
    headers: dict[str, str]
    status: int


class Shop:
    def __init__(self, tell: Callable[[Call], None] = lambda _: None) -> None:
        self.url = ""
        self.calls: list[Call] = []
        self.callbacks: dict[str, str] = {}  # where to call when an order is paid
        self._tell = tell
        self._statuses: dict[str, deque[int]] = defaultdict(deque)
        self._done: dict[str, dict[str, Any]] = {}  # by idempotency key: asked again, the work is not done again
        self._news = asyncio.Condition()

    def will_answer(self, path: str, *statuses: int) -> None:
        """The next requests to `path` are answered so; after that as usual."""
        self._statuses[path].extend(statuses)

    def calls_to(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.path == path]

    async def called(self, path: str, times: int = 1) -> Call:
        """The call that made it so many; waits for it."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.calls_to(path)) >= times)
        return self.calls_to(path)[times - 1]

    async def pay(self, order: str, status: str = "paid") -> int:
        """Call back what waits for the payment of an order; the answer's status."""
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
            return web.json_response({"error": f"nobody waits for {order}"}, status=404)
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
        self._tell(call)
        if status >= 400:
            return web.json_response({"error": f"{request.path} did not work"}, status=status)
        key = f"{request.path} {headers.get('idempotency-key', len(self.calls))}"
        return web.json_response(self._done.setdefault(key, answer | {"number": len(self._done) + 1}), status=status)


@asynccontextmanager
async def serving(shop: Shop | None = None, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Shop]:
    """An open shop; port 0 is any that is free."""
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
    parser = argparse.ArgumentParser(description="A shop to try workflows against.")
    parser.add_argument("--port", type=int, default=8088)
    chosen = parser.parse_args()
    shop = Shop(lambda call: print(call.status, call.path, json.dumps(call.body), flush=True))
    async with serving(shop, port=chosen.port):
        print(f"the shop is open at {shop.url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("closed")
