"""Builds the application for /ojs/: the routes of all nouns, each a module with `ROUTES`, and its error handlers."""

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
from windlass.web.ojs import admin, admission, cron, events, manifest, queues, responses, workers
from windlass.web.ojs.jobs import jobs, limits, progress
from windlass.web.ojs.jobs import schemas as job_schemas
from windlass.web.ojs.responses import PREFIX, VERSION
from windlass.web.ojs.workflows import workflows

# Starlette matches routes in order: those that are called most come first.
NOUNS: Sequence[Sequence[BaseRoute]] = (
    workers.ROUTES,
    jobs.ROUTES,
    manifest.ROUTES,
    workflows.ROUTES,
    queues.ROUTES,
    cron.ROUTES,
    events.ROUTES,
    progress.ROUTES,
    job_schemas.ROUTES,
    admission.ROUTES,
    limits.ROUTES,
    admin.ROUTES,
)


def build(app: Windlass) -> ASGIApp:
    routes = [route for noun in NOUNS for route in noun]
    ojs = Starlette(
        routes=[Mount(PREFIX, routes=routes), Route("/ojs/manifest", manifest.manifest, methods=["GET"])],
        exception_handlers={
            responses.Refusal: responses.on_refusal,
            WindlassError: responses.on_windlass_error,
            HTTPException: responses.on_http_exception,
            Exception: responses.on_defect,
        },
    )
    ojs.state.windlass = app
    ojs.state.remote_jobs = {}
    return RequestChecks(ojs)


def refusal(scope: Scope, status: int, message: str) -> Response:
    """Return a refusal of the guard as an error of the spec."""
    return responses.error(Request(scope), responses.BY_STATUS.get(status, responses.INVALID_REQUEST), message)


class RequestChecks:
    """Refuses requests of another version of the spec, and URLs with U+0000, which Postgres cannot store, before any
    handler sees them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = _version(scope) if scope["type"] == "http" else VERSION
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            message = f"OJS-Version is {version[:20]!a}: this server supports {VERSION}"
            await responses.error(Request(scope), responses.UNSUPPORTED, message)(scope, receive, send)
        elif scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in scope["query_string"]):
            message = "the URL contains the character U+0000 (%00), which cannot be stored"
            await responses.error(Request(scope), responses.INVALID_REQUEST, message)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@functools.lru_cache(maxsize=64)
def _read(raw: bytes) -> str:
    return raw.decode("latin-1").strip()


def _version(scope: Scope) -> str:
    return next((_read(value) for name, value in scope["headers"] if name == b"ojs-version"), VERSION)
