"""The HTTP application: the faces on one FastAPI app, behind the guard. The caller opens and closes Windlass."""

import asyncio
from dataclasses import replace

from fastapi import FastAPI
from starlette.types import ASGIApp

from windlass import __version__
from windlass.app import Windlass
from windlass.web import docs, health, hooks, openapi, problems
from windlass.web.api.routes import routes as api
from windlass.web.dashboard import routes as dashboard
from windlass.web.dashboard.pages import is_public
from windlass.web.dispatch import Dispatch
from windlass.web.middleware.access_log import AccessLog
from windlass.web.middleware.cors import Cors
from windlass.web.middleware.guard import Guard, GuardOptions, is_loopback
from windlass.web.middleware.rate_limit import BEYOND_LOOPBACK, RateOptions, Rates
from windlass.web.middleware.request_ids import RequestIds
from windlass.web.ojs import routes as ojs


def build(app: Windlass, guard: GuardOptions, *, stopping: asyncio.Event | None = None) -> ASGIApp:
    """`stopping` makes /ready say no while the process drains."""
    chosen, speakers = app.settings, {"/ojs/": ojs.refusal}
    guard = replace(guard, origins=chosen.cors_origins)
    rate = chosen.rate_limit or (None if is_loopback(guard.host) else BEYOND_LOOPBACK)
    options = RateOptions(rate=rate if rate is not None and rate.count else None)
    doors = Dispatch(faces(app, stopping or asyncio.Event()), {"/ojs/": ojs.build(app)})
    limited = Rates(doors, options, speakers)
    guarded = Guard(limited, guard, speakers, is_public)
    return RequestIds(AccessLog(Cors(guarded, guard.origins)))


def faces(app: Windlass, stopping: asyncio.Event) -> FastAPI:
    """What there is behind the guard, but for what has a door of its own."""
    faces = FastAPI(title="Windlass", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    faces.state.windlass = app
    problems.install(faces)
    openapi.install(faces)
    faces.include_router(api())
    faces.include_router(health.routes(app, stopping))
    faces.include_router(hooks.routes(app))
    faces.include_router(docs.routes())
    faces.include_router(dashboard.routes())
    return faces
