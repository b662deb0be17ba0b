"""The scope that each route needs. The table is the specification: a route that is not in it fails the first test."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from windlass import Windlass
from windlass.core.orgs import ALL_SCOPES, Scope
from windlass.engine.orgs import keys
from windlass.web import server
from windlass.web.api.shared import needs_of
from windlass.web.health import router as health_router
from windlass.web.middleware.guard import GuardOptions
from windlass.web.ojs import routes as ojs
from windlass.web.ojs.responses import PREFIX
from windlass.web.server import API_PREFIX, FIRST_ROUTERS, OTHER_ROUTERS, RUN_ROUTERS, listen, serving

OPERATOR = "operator"  # the scope admin, of the operator of the installation
OPEN = frozenset(
    {
        "GET /health",
        "GET /ready",
        "GET /auth/session",
        "POST /auth/login",
        "POST /auth/logout",
        "POST /auth/org",
        "GET /auth/oidc/start",
        "GET /auth/oidc/callback",
    }
)
SCOPES = """
start POST /api/v1/workflows/{ref}/trigger
start POST /api/v1/workflows/{ref}/runs
read GET /api/v1/workflows
deploy POST /api/v1/workflows
read GET /api/v1/workflows/{ref}
deploy PUT /api/v1/workflows/{ref}
deploy DELETE /api/v1/workflows/{ref}
operate POST /api/v1/workflows/{ref}/enable
operate POST /api/v1/workflows/{ref}/disable
read GET /api/v1/workflows/{ref}/versions
read GET /api/v1/workflows/{ref}/versions/{number}
read GET /api/v1/workflows/{ref}/diff
read GET /api/v1/workflows/{ref}/graph
deploy POST /api/v1/workflows/{ref}/rotate
deploy POST /api/v1/deployments
deploy POST /api/v1/workflows/preview
read GET /api/v1/runs
read GET /api/v1/workflows/{ref}/runs
operate POST /api/v1/runs/cancel
operate POST /api/v1/runs/retry
read GET /api/v1/stream
start POST /api/v1/jobs
start POST /api/v1/jobs/batch
read GET /api/v1/jobs
read GET /api/v1/jobs/{job_id}
operate POST /api/v1/jobs/{job_id}/cancel
operate POST /api/v1/jobs/{job_id}/retry
operate DELETE /api/v1/jobs/{job_id}
read GET /api/v1/jobs/{job_id}/events
read GET /api/v1/jobs/{job_id}/steps
read GET /api/v1/jobs/{job_id}/logs
read GET /api/v1/jobs/{job_id}/stream
read GET /api/v1/jobs/{job_id}/artifacts
read GET /api/v1/jobs/{job_id}/artifacts/{name}/content
read GET /api/v1/approvals
read GET /api/v1/approvals/{approval_id}
read POST /api/v1/approvals/{approval_id}/approve
read POST /api/v1/approvals/{approval_id}/reject
read GET /api/v1/schedules
read GET /api/v1/schedules/{ref}
operate POST /api/v1/schedules/{ref}/pause
operate POST /api/v1/schedules/{ref}/resume
start POST /api/v1/schedules/{ref}/run
start POST /api/v1/schedules/{ref}/backfill
read GET /api/v1/job-types
read GET /api/v1/job-types/{type}
read GET /api/v1/queues
read GET /api/v1/queues/{name}
operate POST /api/v1/queues/{name}/pause
operate POST /api/v1/queues/{name}/resume
read GET /api/v1/workers
read GET /api/v1/workers/{worker_id}
read GET /api/v1/pools
read GET /api/v1/pools/{name}
operator DELETE /api/v1/pools/{name}
read GET /api/v1/dead-letters
read GET /api/v1/dead-letters/jobs
operate POST /api/v1/dead-letters/retry
operate POST /api/v1/dead-letters/drop
read GET /api/v1/quarantine
operate POST /api/v1/quarantine/{kind}/{key}/retry
read GET /api/v1/stats
operator GET /api/v1/orgs
operator POST /api/v1/orgs
operator GET /api/v1/orgs/{name}
operator POST /api/v1/orgs/{name}/disable
operator POST /api/v1/orgs/{name}/enable
operator GET /api/v1/sql-roles
operator PUT /api/v1/sql-roles/{role}
operator DELETE /api/v1/sql-roles/{role}
admin GET /api/v1/keys
admin POST /api/v1/keys
admin POST /api/v1/keys/{key}/revoke
admin POST /api/v1/keys/{key}/rotate
admin GET /api/v1/members
admin PUT /api/v1/members/{email}
admin DELETE /api/v1/members/{email}
admin GET /api/v1/audit
operator GET /api/v1/plans
operator GET /api/v1/plans/{name}
operator PUT /api/v1/plans/{name}
operator DELETE /api/v1/plans/{name}
operator PUT /api/v1/plans/{name}/orgs/{org}
read GET /api/v1/usage
operator GET /api/v1/usage/orgs
operator GET /api/v1/usage/orgs/{org}
admin GET /api/v1/secrets
admin PUT /api/v1/secrets/{name}
admin DELETE /api/v1/secrets/{name}
admin POST /api/v1/secrets/rotate
operator POST /api/v1/secrets/rotate-master
read GET /api/v1/runs/{run_id}
read GET /api/v1/runs/{run_id}/events
read GET /api/v1/runs/{run_id}/explain
read GET /api/v1/runs/{run_id}/output
read GET /api/v1/runs/{run_id}/graph
read GET /api/v1/runs/{run_id}/timeline
start POST /api/v1/events
start POST /api/v1/runs/{run_id}/signals/{signal}
operate POST /api/v1/runs/{run_id}/cancel
operate POST /api/v1/runs/{run_id}/pause
read GET /api/v1/runs/{run_id}/restart
operate POST /api/v1/runs/{run_id}/resume
operate POST /api/v1/runs/{run_id}/retry
operate POST /api/v1/runs/{run_id}/rerun
read GET /api/v1/runs/{run_id}/tasks
read GET /api/v1/runs/{run_id}/tasks/{task}
read GET /api/v1/runs/{run_id}/tasks/{task}/instances
read GET /api/v1/runs/{run_id}/tasks/{task}/output
operate GET /api/v1/runs/{run_id}/tasks/{task}/callback
read GET /api/v1/runs/{run_id}/logs
read GET /api/v1/runs/{run_id}/tasks/{task}/logs
read GET /api/v1/runs/{run_id}/logs/stream
read GET /api/v1/runs/{run_id}/tasks/{task}/logs/stream
read GET /api/v1/runs/{run_id}/artifacts
read GET /api/v1/runs/{run_id}/tasks/{task}/artifacts
read GET /api/v1/runs/{run_id}/tasks/{task}/artifacts/{name}/content
read GET /api/v1/runs/{run_id}/stream
read GET /api/v1/workflows/{ref}/runs/{run_id}
read GET /api/v1/workflows/{ref}/runs/{run_id}/events
read GET /api/v1/workflows/{ref}/runs/{run_id}/explain
read GET /api/v1/workflows/{ref}/runs/{run_id}/output
read GET /api/v1/workflows/{ref}/runs/{run_id}/graph
read GET /api/v1/workflows/{ref}/runs/{run_id}/timeline
start POST /api/v1/workflows/{ref}/runs/{run_id}/signals/{signal}
operate POST /api/v1/workflows/{ref}/runs/{run_id}/cancel
operate POST /api/v1/workflows/{ref}/runs/{run_id}/pause
read GET /api/v1/workflows/{ref}/runs/{run_id}/restart
operate POST /api/v1/workflows/{ref}/runs/{run_id}/resume
operate POST /api/v1/workflows/{ref}/runs/{run_id}/retry
operate POST /api/v1/workflows/{ref}/runs/{run_id}/rerun
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/instances
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/output
operate GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/callback
read GET /api/v1/workflows/{ref}/runs/{run_id}/logs
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/logs
read GET /api/v1/workflows/{ref}/runs/{run_id}/logs/stream
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/logs/stream
read GET /api/v1/workflows/{ref}/runs/{run_id}/artifacts
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/artifacts
read GET /api/v1/workflows/{ref}/runs/{run_id}/tasks/{task}/artifacts/{name}/content
read GET /api/v1/workflows/{ref}/runs/{run_id}/stream
operator GET /metrics
work POST /ojs/v1/workers/fetch
work POST /ojs/v1/workers/ack
work POST /ojs/v1/workers/nack
work POST /ojs/v1/workers/suspend
work POST /ojs/v1/jobs/{id}/ack
work POST /ojs/v1/jobs/{id}/nack
work POST /ojs/v1/workers/heartbeat
work POST /ojs/v1/workers/beat
read GET /ojs/v1/workers/{id}/health
work POST /ojs/v1/workers/logs
work POST /ojs/v1/jobs/{id}/steps
read GET /ojs/v1/admin/workers
read GET /ojs/v1/admin/workers/{id}
operate DELETE /ojs/v1/admin/workers/{id}
operate POST /ojs/v1/admin/workers/{id}/{directive}
start POST /ojs/v1/jobs
start POST /ojs/v1/jobs/batch
read GET /ojs/v1/jobs/{id}
operate DELETE /ojs/v1/jobs/{id}
operate POST /ojs/v1/jobs/{id}/cancel
start POST /ojs/v1/jobs/{id}/activate
read GET /ojs/v1/dead-letter
operate POST /ojs/v1/dead-letter/{id}/retry
operate DELETE /ojs/v1/dead-letter/{id}
read GET /ojs/v1/health
start POST /ojs/v1/workflows
read GET /ojs/v1/workflows
read GET /ojs/v1/workflows/{id}
operate DELETE /ojs/v1/workflows/{id}
read GET /ojs/v1/queues
read GET /ojs/v1/queues/{name}
read GET /ojs/v1/queues/{name}/stats
operate POST /ojs/v1/queues/{name}/pause
operate POST /ojs/v1/queues/{name}/resume
read GET /ojs/v1/admin/queues
read GET /ojs/v1/admin/queues/{name}
operate POST /ojs/v1/admin/queues/{name}/pause
operate POST /ojs/v1/admin/queues/{name}/resume
operate PUT /ojs/v1/admin/queues/{name}/config
read GET /ojs/v1/admin/queues/{name}/config
read GET /ojs/v1/rate-limits
read GET /ojs/v1/rate-limits/{key:path}
deploy POST /ojs/v1/cron
read GET /ojs/v1/cron
deploy DELETE /ojs/v1/cron/{name}
read GET /ojs/v1/events
deploy POST /ojs/v1/webhooks/subscriptions
read GET /ojs/v1/webhooks/subscriptions
read GET /ojs/v1/webhooks/subscriptions/{id}
deploy PATCH /ojs/v1/webhooks/subscriptions/{id}
deploy PUT /ojs/v1/webhooks/subscriptions/{id}
deploy DELETE /ojs/v1/webhooks/subscriptions/{id}
deploy POST /ojs/v1/webhooks/subscriptions/{id}/rotate-secret
deploy POST /ojs/v1/webhooks/subscriptions/{id}/rotate
deploy POST /ojs/v1/webhooks/subscriptions/{id}/test
work POST /ojs/v1/jobs/{id}/progress
work PUT /ojs/v1/jobs/{id}/progress
read GET /ojs/v1/jobs/{id}/progress
work POST /ojs/v1/workers/progress
work POST /ojs/v1/jobs/{id}/checkpoint
work PUT /ojs/v1/jobs/{id}/checkpoint
work GET /ojs/v1/jobs/{id}/checkpoint
work DELETE /ojs/v1/jobs/{id}/checkpoint
work POST /ojs/v1/checkpoints/{id}
work PUT /ojs/v1/checkpoints/{id}
work GET /ojs/v1/checkpoints/{id}
work DELETE /ojs/v1/checkpoints/{id}
work GET /ojs/v1/checkpoints/{id}/resume
work POST /ojs/v1/ojs/v1/checkpoints/{id}
work PUT /ojs/v1/ojs/v1/checkpoints/{id}
work GET /ojs/v1/ojs/v1/checkpoints/{id}
work DELETE /ojs/v1/ojs/v1/checkpoints/{id}
work GET /ojs/v1/ojs/v1/checkpoints/{id}/resume
read GET /ojs/v1/admin/schemas
deploy POST /ojs/v1/admin/schemas
read GET /ojs/v1/admin/schemas/{type}/versions
read GET /ojs/v1/admin/schemas/{type}/latest
deploy PUT /ojs/v1/admin/schemas/{type}/{version}
read GET /ojs/v1/admin/schemas/{type}/{version}
deploy DELETE /ojs/v1/admin/schemas/{type}/{version}
read GET /ojs/v1/schemas
deploy POST /ojs/v1/schemas
read GET /ojs/v1/schemas/{type}/versions
read GET /ojs/v1/schemas/{type}/latest
deploy PUT /ojs/v1/schemas/{type}/{version}
read GET /ojs/v1/schemas/{type}/{version}
deploy DELETE /ojs/v1/schemas/{type}/{version}
read GET /ojs/v1/admin/schemas/{type}
read GET /ojs/v1/schemas/{type:path}
deploy DELETE /ojs/v1/schemas/{type:path}
read GET /ojs/v1/admin/tenants
read GET /ojs/v1/admin/tenants/{id}/stats
read GET /ojs/v1/admin/stats
read GET /ojs/v1/admin/jobs
operate POST /ojs/v1/admin/jobs/bulk/retry
operate POST /ojs/v1/admin/jobs/bulk/cancel
read GET /ojs/v1/admin/jobs/{id}
operate POST /ojs/v1/admin/jobs/{id}/cancel
operate POST /ojs/v1/admin/jobs/{id}/retry
read GET /ojs/v1/admin/dead-letter
read GET /ojs/v1/admin/dead-letter/stats
read GET /ojs/v1/admin/dead-letter/{id}
operate DELETE /ojs/v1/admin/dead-letter/{id}
operate POST /ojs/v1/admin/dead-letter/{id}/retry
operator POST /ojs/v1/admin/reset
read GET /ojs/manifest
"""


def scopes() -> dict[str, str]:
    return {route: scope for scope, route in (line.split(" ", 1) for line in SCOPES.split("\n") if line)}


def api_routes(prefix: str, router: APIRouter) -> Iterator[tuple[str, str]]:
    for route in router.routes:
        assert isinstance(route, APIRoute)
        path = f"{prefix}{route.path}"
        for method in sorted(route.methods or ()):
            if f"{method} {path}" not in OPEN:
                needs = needs_of(route.endpoint)
                yield f"{method} {path}", OPERATOR if needs.operator else needs.scope


def routes() -> dict[str, str]:
    """Return the scope of every route; fail for a route without exactly one scope."""
    listed = [
        *((API_PREFIX, router) for router in (*FIRST_ROUTERS, *OTHER_ROUTERS)),
        *((f"{API_PREFIX}/runs", router) for router in RUN_ROUTERS),
        *((f"{API_PREFIX}/workflows/{{ref}}/runs", router) for router in RUN_ROUTERS),
        ("", health_router),
    ]
    found = {name: scope for prefix, router in listed for name, scope in api_routes(prefix, router)}
    for route in ojs.ROUTES:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            found[f"{method} {PREFIX}{route.path}"] = OPERATOR if route.operator else route.needs
    return found | {"GET /ojs/manifest": Scope.READ}


def test_every_route_has_the_scope_of_the_table() -> None:
    assert routes() == scopes()


def test_the_table_contains_every_operation_of_the_openapi_document() -> None:
    document = server.main_app(Windlass("postgresql://nowhere.invalid/none"), asyncio.Event()).openapi()
    operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert {one for one in operations if not one.split(" ")[1].startswith(("/wh/", "/in/"))} - OPEN <= scopes().keys()


@contextlib.asynccontextmanager
async def client(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0)
    web = server.build(app, GuardOptions(host=listener.host, keys=("the-key-of-the-operator",)))
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url) as opened:
        yield opened


async def test_a_key_without_the_scope_of_a_route_is_rejected_with_the_key_and_the_scope(
    app: Windlass,
) -> None:
    db = await app.open()
    lacking = {
        scope: str((await keys.create(db, name=f"no-{scope}", scopes=ALL_SCOPES - {scope})).key) for scope in ALL_SCOPES
    }
    whole = str((await keys.create(db, name="all", scopes=ALL_SCOPES)).key)
    async with client(app) as http:
        for route, scope in scopes().items():
            method, template = route.split(" ")
            path = re.sub(r"\{[^}]*\}", "x", template)
            of_operator = scope == OPERATOR
            for key in [lacking[Scope.ADMIN if of_operator else Scope(scope)], *([whole] if of_operator else ())]:
                answer = await http.request(method, path, headers={"x-api-key": key})
                assert answer.status_code == 403, (route, answer.text)
                if key is whole:
                    assert "only the operator" in answer.text
                else:
                    word = Scope.ADMIN if of_operator else scope
                    assert f"key:no-{word} lacks the scope {word}" in answer.text, route
                    assert path.startswith("/ojs") or answer.json()["scope"] == word
                assert (answer.json().get("error") is not None) == path.startswith("/ojs")


async def test_a_key_with_every_scope_may_use_every_route_except_those_of_the_operator(app: Windlass) -> None:
    whole = str((await keys.create(await app.open(), scopes=ALL_SCOPES)).key)
    async with client(app) as http:
        for route, scope in scopes().items():
            method, template = route.split(" ")
            if scope != OPERATOR and not template.endswith("/stream"):
                answer = await http.request(method, re.sub(r"\{[^}]*\}", "x", template), headers={"x-api-key": whole})
                assert answer.status_code not in (401, 403, 500), (route, answer.text)


@pytest.mark.parametrize("method", ["PATCH", "TRACE"])
async def test_an_unsupported_method_is_405_regardless_of_the_scopes(app: Windlass, method: str) -> None:
    key = str((await keys.create(await app.open(), scopes=["work"])).key)
    async with client(app) as http:
        for path in ("/api/v1/jobs", "/ojs/v1/jobs"):
            assert (await http.request(method, path, headers={"x-api-key": key})).status_code == 405
