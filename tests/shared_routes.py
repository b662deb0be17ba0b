"""Lets the servers of all tests in a process share the routes of the API.

They do not depend on the app, and FastAPI takes a quarter of a second of CPU time to analyse them for each server.
"""

import functools
from typing import Any

from fastapi import APIRouter, FastAPI

from windlass.web import server
from windlass.web.api.routes import routes

api_routes = functools.cache(routes)


class SharingApp(FastAPI):
    def include_router(self, router: APIRouter, **options: Any) -> None:
        if router is api_routes():
            self.router.routes.extend(router.routes)  # not include_router, which analyses them again
        else:
            super().include_router(router, **options)


def share() -> None:
    vars(server).update(api=api_routes, FastAPI=SharingApp)  # the names that `server.main_app` uses
