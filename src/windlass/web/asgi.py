"""The HTTP application: the faces on one FastAPI app, behind the guard. The caller opens and closes Windlass."""

import asyncio

from fastapi import FastAPI
from starlette.types import ASGIApp

from windlass import __version__
from windlass.app import Windlass
from windlass.web import docs, health, hooks, openapi, problems
from windlass.web.access_log import AccessLog
from windlass.web.api.routes import routes as api
from windlass.web.guard import Guard, GuardOptions
from windlass.web.request_ids import RequestIds


def build(app: Windlass, guard: GuardOptions, *, stopping: asyncio.Event | None = None) -> ASGIApp:
    """`stopping` makes /ready say no while the process drains."""
    faces = FastAPI(title="Windlass", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    faces.state.windlass = app
    problems.install(faces)
    openapi.install(faces)
    faces.include_router(api())
    faces.include_router(health.routes(app, stopping or asyncio.Event()))
    faces.include_router(hooks.routes(app))
    faces.include_router(docs.routes())
    return RequestIds(AccessLog(Guard(faces, guard)))
