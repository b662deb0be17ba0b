"""The routers of /api/v1, in the order of the documentation. A new face of the API is a router here."""

from fastapi import APIRouter, Depends

from windlass.web.api import (
    bulk,
    dead_letters,
    deployments,
    graphs,
    jobs,
    live,
    logs,
    previews,
    quarantine,
    queues,
    run,
    runs,
    schedules,
    starts,
    stats,
    tasks,
    workers,
    workflows,
)
from windlass.web.api.request.dependencies import belongs

PREFIX = "/api/v1"


def routes() -> APIRouter:
    api = APIRouter(prefix=PREFIX)
    api.include_router(starts.router)  # first: routes are tried in turn, and these are asked for most
    api.include_router(workflows.router)
    api.include_router(deployments.router)
    api.include_router(previews.router)
    api.include_router(graphs.of_workflow)
    api.include_router(runs.router)
    api.include_router(bulk.router)
    api.include_router(live.router)
    for one in (
        run.router,
        graphs.router,
        tasks.router,
        logs.router,
        live.run_router,
    ):  # each run has two addresses; the second one says whose it is
        api.include_router(one, prefix="/runs")
        api.include_router(one, prefix="/workflows/{ref}/runs", dependencies=[Depends(belongs)])
    for noun in (jobs, schedules, queues, workers, dead_letters, quarantine, stats):
        api.include_router(noun.router)
    return api
