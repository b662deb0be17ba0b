"""Webhook subscriptions. The secret is told when it is made, and never again."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.events import subscriptions
from windlass.engine.events.subscriptions import Subscription
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.paging import pagination
from windlass.web.ojs.responses import answer, created, instant

PATH = "/webhooks/subscriptions"


async def create(request: Request) -> Response:
    made, secret = await subscriptions.create(await dependencies.db(request), await bodies.object_(request))
    told = {**shown(made), "secret": secret}
    return answer(request, {**told, "subscription": told}, status=201, headers=created(PATH[1:], made.id))


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    found, total = await subscriptions.list_(await dependencies.db(request), limit=limit, offset=offset)
    listed = [shown(one) for one in found]
    return answer(request, {"subscriptions": listed, "pagination": pagination(len(found), total, limit, offset)})


async def get(request: Request) -> Response:
    return _one(request, await subscriptions.get(await dependencies.db(request), _id(request)))


async def change(request: Request) -> Response:
    body = await bodies.object_(request)
    return _one(request, await subscriptions.change(await dependencies.db(request), _id(request), body))


async def rotate(request: Request) -> Response:
    body = await bodies.object_(request, optional=True)
    secret = bodies.text(body, "secret")
    found, secret = await subscriptions.rotate(await dependencies.db(request), _id(request), secret=secret)
    told = {**shown(found), "secret": secret}
    return answer(request, {**told, "subscription": told})


async def remove(request: Request) -> Response:
    id_ = _id(request)
    await subscriptions.remove(await dependencies.db(request), id_)
    return answer(request, {"deleted": True, "id": str(id_)})


async def test(request: Request) -> Response:
    return answer(request, await dependencies.app(request).ping_subscription(_id(request)))


def shown(found: Subscription) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": str(found.id),
        "url": found.url,
        "events": found.events,
        "active": found.active,
        "created_at": instant(found.created_at),
        "updated_at": instant(found.updated_at),
    }
    if found.queues or found.types:
        told["filter"] = {n: value for n, value in (("queues", found.queues), ("job_types", found.types)) if value}
    if found.metadata is not None:
        told["metadata"] = found.metadata
    if found.delivered_at is not None:
        told["last_delivered_at"] = instant(found.delivered_at)
    if found.off_reason is not None:
        told["inactive_reason"] = found.off_reason
    return told


def _one(request: Request, found: Subscription) -> Response:
    told = shown(found)
    return answer(request, {**told, "subscription": told})


def _id(request: Request) -> Any:
    return dependencies.known_id(request.path_params["id"], "subscription")


ROUTES = [
    Route(PATH, create, methods=["POST"]),
    Route(PATH, list_, methods=["GET"]),
    Route(f"{PATH}/{{id}}", get, methods=["GET"]),
    Route(f"{PATH}/{{id}}", change, methods=["PATCH", "PUT"]),
    Route(f"{PATH}/{{id}}", remove, methods=["DELETE"]),
    Route(f"{PATH}/{{id}}/rotate-secret", rotate, methods=["POST"]),
    Route(f"{PATH}/{{id}}/rotate", rotate, methods=["POST"]),
    Route(f"{PATH}/{{id}}/test", test, methods=["POST"]),
]
