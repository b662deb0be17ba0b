"""The addresses of this face, and its own way of saying no. A noun is a module with `ROUTES`."""

import functools
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.app import Windlass
from windlass.errors import WindlassError
from windlass.web.ojs import (
    backpressure,
    cron,
    errors,
    events,
    manifest,
    queues,
    shutdown,
    tenants,
    test_mode,
    webhooks,
)
from windlass.web.ojs.admin import admin
from windlass.web.ojs.admin import jobs as admin_jobs
from windlass.web.ojs.jobs import checkpoints, dead_letter, jobs, progress, rate_limits, workers
from windlass.web.ojs.jobs import schemas as job_schemas
from windlass.web.ojs.responses import PREFIX, VERSION
from windlass.web.ojs.workflows import workflows

NOUNS: Sequence[Sequence[BaseRoute]] = (
    workers.ROUTES,
    jobs.ROUTES,
    dead_letter.ROUTES,
    manifest.ROUTES,
    workflows.ROUTES,
    queues.ROUTES,
    cron.ROUTES,
    events.ROUTES,
    test_mode.ROUTES,
    checkpoints.ROUTES,
    progress.ROUTES,
    webhooks.ROUTES,
    shutdown.ROUTES,
    backpressure.ROUTES,
    job_schemas.ROUTES,
    tenants.ROUTES,
    rate_limits.ROUTES,
    admin.ROUTES,
    admin_jobs.ROUTES,
)


def build(app: Windlass) -> ASGIApp:
    """The face: everything whose path begins with /ojs/."""
    routes = [route for noun in NOUNS for route in noun]
    face = Starlette(
        routes=[Mount(PREFIX, routes=routes), Route("/ojs/manifest", manifest.manifest, methods=["GET"])],
        exception_handlers={
            errors.Refusal: errors.refused,
            WindlassError: errors.ours,
            HTTPException: errors.http,
            Exception: errors.defect,
        },
    )
    face.state.windlass = app
    face.state.remote_jobs = {}
    return Versions(face)


def refusal(scope: Scope, status: int, message: str) -> Response:
    """What the guard says, in the words of this face."""
    return errors.told(Request(scope), errors.BY_STATUS.get(status, errors.INVALID_REQUEST), message)


class Versions:
    """Refuses requests of another version of the spec, and addresses that Postgres cannot hold as text, before any
    handler sees them."""

    def __init__(self, face: ASGIApp) -> None:
        self._face = face

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = _version(scope) if scope["type"] == "http" else VERSION
        if given.partition(".")[0] != VERSION.partition(".")[0]:
            told = f"OJS-Version is {given[:20]!a}: this server speaks {VERSION}"
            await errors.told(Request(scope), errors.UNSUPPORTED, told)(scope, receive, send)
            return
        if scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in scope["query_string"]):
            told = "the address has a character U+0000 (%00), which no name here can have"
            await errors.told(Request(scope), errors.INVALID_REQUEST, told)(scope, receive, send)
            return
        await self._face(scope, receive, send)


@functools.lru_cache(maxsize=64)
def _read(raw: bytes) -> str:
    return raw.decode("latin-1").strip()


def _version(scope: Scope) -> str:
    return next((_read(value) for name, value in scope["headers"] if name == b"ojs-version"), VERSION)
