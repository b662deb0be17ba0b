"""The routers of /api/v1, in the order of the documentation. A new face of the API is a router here."""

from fastapi import APIRouter, Depends

from windlass.web.api import bulk, run, runs, starts, tasks, workflows
from windlass.web.api.given import belongs

PREFIX = "/api/v1"


def routes() -> APIRouter:
    api = APIRouter(prefix=PREFIX)
    api.include_router(workflows.router)
    api.include_router(starts.router)
    api.include_router(runs.router)
    api.include_router(bulk.router)
    for one in (run.router, tasks.router):  # each run has two addresses; the second one says whose it is
        api.include_router(one, prefix="/runs")
        api.include_router(one, prefix="/workflows/{ref}/runs", dependencies=[Depends(belongs)])
    return api
