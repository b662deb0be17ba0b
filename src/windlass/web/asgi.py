"""The HTTP application: the faces on one FastAPI app, behind the guard. The caller opens and closes Windlass."""

import asyncio

from fastapi import FastAPI
from starlette.types import ASGIApp

from windlass.app import Windlass
from windlass.web import health, hooks, problems
from windlass.web.guard import Guard, GuardOptions


def build(app: Windlass, guard: GuardOptions, *, stopping: asyncio.Event | None = None) -> ASGIApp:
    """`stopping` makes /ready say no while the process drains."""
    faces = FastAPI(title="Windlass", docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(faces)
    faces.include_router(health.routes(app, stopping or asyncio.Event()))
    faces.include_router(hooks.routes(app))
    return Guard(faces, guard)
