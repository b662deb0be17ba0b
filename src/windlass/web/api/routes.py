"""The routers of /api/v1, in the order of the documentation. A new part of the API is a router here."""

from fastapi import APIRouter, Depends

from windlass.web.api import (
    dead_letters,
    deployments,
    jobs,
    live,
    logs,
    monitoring,
    run,
    runs,
    schedules,
    starts,
    tasks,
    workflows,
)
from windlass.web.api.dependencies import belongs

PREFIX = "/api/v1"


def routes() -> APIRouter:
    api = APIRouter(prefix=PREFIX)
    api.include_router(starts.router)  # first: routes are tried in turn, and these are requested most
    api.include_router(workflows.router)
    api.include_router(deployments.router)
    api.include_router(runs.router)
    api.include_router(live.router)
    for router in (run.router, tasks.router, logs.router, live.run_router):  # each run has two addresses
        api.include_router(router, prefix="/runs")
        api.include_router(router, prefix="/workflows/{ref}/runs", dependencies=[Depends(belongs)])
    for router in (jobs.router, schedules.router, monitoring.queues_router, monitoring.workers_router):
        api.include_router(router)
    for router in (dead_letters.router, monitoring.quarantine_router, monitoring.stats_router):
        api.include_router(router)
    return api
