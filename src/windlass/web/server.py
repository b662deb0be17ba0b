"""Builds the HTTP application, and listens and serves inside the running event loop. The caller opens and closes
`Windlass` and handles signals."""

import asyncio
import contextlib
import errno
import functools
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import uvicorn
from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass import __version__
from windlass.app import Windlass
from windlass.errors import Invalid, Unavailable
from windlass.runtime.access import Authority
from windlass.runtime.collector import freeze_modules
from windlass.runtime.loops.loop import until
from windlass.web import approvals as approval_pages
from windlass.web import auth, dashboard, docs, health, hooks, openapi, problems
from windlass.web.api import (
    approvals,
    artifacts,
    dead_letters,
    job_types,
    jobs,
    live,
    messages,
    monitoring,
    orgs,
    plans,
    runs,
    schedules,
    secrets,
    starts,
    tasks,
    workflows,
)
from windlass.web.api.shared import belongs
from windlass.web.middleware.access_log import AccessLog, RequestIds
from windlass.web.middleware.connections import KEEP_ALIVE, Connection, Connections, ListeningSocket
from windlass.web.middleware.guard import (
    Cors,
    Guard,
    GuardOptions,
    check_binding,
    check_test_mode,
    digest_of,
    is_loopback,
)
from windlass.web.middleware.rate_limit import BEYOND_LOOPBACK, RateOptions, Rates
from windlass.web.ojs import routes as ojs

API_PREFIX = "/api/v1"
FIRST_ROUTERS = (starts.router, workflows.router, workflows.deployments_router, runs.router, live.router)
RUN_ROUTERS = (
    runs.run_router,
    tasks.router,
    tasks.logs_router,
    artifacts.router,
    live.run_router,
    messages.run_router,
)  # mounted at both paths of runs
OTHER_ROUTERS = (
    jobs.router,
    job_types.router,
    artifacts.jobs_router,
    messages.router,
    approvals.router,
    schedules.router,
    monitoring.queues_router,
    monitoring.workers_router,
    monitoring.pools_router,
    dead_letters.router,
    monitoring.quarantine_router,
    monitoring.stats_router,
    orgs.orgs_router,
    orgs.sql_roles_router,
    orgs.keys_router,
    orgs.members_router,
    orgs.audit_router,
    plans.plans_router,
    plans.usage_router,
    secrets.router,
)
GRACE = 5  # seconds for requests in progress when the server stops


def build(app: Windlass, guard: GuardOptions, *, stopping: asyncio.Event | None = None) -> ASGIApp:
    """Return the application behind its middleware. While `stopping` is set, /ready returns 503."""
    settings, renderers = app.settings, {"/ojs/": ojs.refusal}
    guard = replace(guard, origins=settings.cors_origins)
    rate = settings.rate_limit or (None if is_loopback(guard.host) else BEYOND_LOOPBACK)
    options = RateOptions(rate=rate if rate is not None and rate.count else None)
    authority = Authority(app.open, operator_keys=[digest_of(key) for key in guard.keys], admins=settings.oidc_admins)
    main = main_app(app, stopping or asyncio.Event())
    dispatch = Dispatch(main, {"/ojs/": ojs.build(app)})
    guarded = Guard(Rates(dispatch, options, renderers), guard, authority, renderers, dashboard.is_public)
    main.state.authority, main.state.wrong_keys = authority, guarded.wrong_keys
    return RequestIds(AccessLog(Cors(guarded, guard.origins) if guard.origins else guarded))


def main_app(app: Windlass, stopping: asyncio.Event) -> FastAPI:
    """Return the application with all routes except /ojs/."""
    main = FastAPI(
        title="Windlass",
        version=__version__,
        routes=_routes(),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    main.state.windlass, main.state.stopping, main.state.tenants = app, stopping, {}
    main.state.provider = auth.provider_of(app)
    problems.install(main)
    openapi.install(main)
    return main


@functools.cache
def _routes() -> list[BaseRoute]:
    """Return the routes, which all applications in this process share: analysing them takes FastAPI a third of a
    second, and they read `Windlass` from the application's state. Routes are matched in order, so those that are
    requested most come first; the others are in the order of the documentation."""
    api = APIRouter(prefix=API_PREFIX)
    for router in FIRST_ROUTERS:
        api.include_router(router)
    for router in RUN_ROUTERS:
        api.include_router(router, prefix="/runs")
        api.include_router(router, prefix="/workflows/{ref}/runs", dependencies=[Depends(belongs)])
    for router in OTHER_ROUTERS:
        api.include_router(router)
    others = (health.router, auth.router, hooks.router, approval_pages.router, docs.router, dashboard.routes())
    return [*api.routes, *(route for router in others for route in router.routes)]


class Dispatch:
    """Chooses the application by the prefix of the path. /ojs/ is a separate application because its workers send
    thousands of requests per second, which should not be matched against all other routes first."""

    def __init__(self, main: ASGIApp, others: Mapping[str, ASGIApp]) -> None:
        self._main, self._others = main, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = next((app for prefix, app in self._others.items() if path.startswith(prefix)), self._main)
        await app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket; `port` is the actual one if 0 was requested."""

    socket: ListeningSocket
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def listen(
    host: str, port: int, *, keys: tuple[str, ...] = (), option: str = "--port", test_mode: bool = False
) -> Listener:
    """Bind a socket, before anything else is started. `option` is the command-line option to name in errors."""
    family, address = _resolve(host, port, keys)
    if test_mode:
        check_test_mode(host, address[0])
    try:
        bound = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise Unavailable(_listen_error(host, port, error, option)) from None
    # Connections inherit TCP_NODELAY. asyncio sets it only on sockets whose protocol is TCP, which this one does not
    # report. Head and body of a response are two packets: without it the second waits 40 ms for an ACK of the first.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening = ListeningSocket(fileno=bound.detach())
    return Listener(listening, host, listening.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listener: Listener) -> AsyncIterator[None]:
    """Serve until the block ends. Then requests in progress have GRACE seconds to end, and streams end immediately."""
    freeze_modules()
    stopping = asyncio.Event()

    async def app_with_stop(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["stopping"] = stopping
        await app(scope, receive, send)

    server = _Server(
        uvicorn.Config(
            app_with_stop,
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener.socket]), name="windlass-http")
    listener.socket.make_room = server.connections.close_idle
    try:
        await server.up.wait()
        yield
    finally:
        stopping.set()
        server.stop()
        await task


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = self.connections = Connections()
        self.up = asyncio.Event()
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        """Update the Date header every second until `stop`. Uvicorn's own loop wakes up ten times a second."""
        while not await self.on_tick(0):
            await until(self._stop, timedelta(seconds=1))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command that runs the server: it drains its worker first."""
        yield


def _resolve(host: str, port: int, keys: tuple[str, ...]) -> tuple[int, tuple[str, int]]:
    try:
        resolved = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"host {host!r} is not an address of this machine: {error}", field="host") from None
    addresses = [(family, str(address[0])) for family, _, _, _, address in resolved]
    check_binding(host or "all addresses", [address for _, address in addresses], keys)
    # localhost often resolves to both families; clients try 127.0.0.1 first or second.
    family, address = next((item for item in addresses if item[0] == socket.AF_INET), addresses[0])
    return family, (address, port)


def _listen_error(host: str, port: int, error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use: stop the program that uses it, or choose another with {option} (0: any)"
        )
    if error.errno == errno.EACCES:
        return f"permission denied for port {port}: choose one above 1023 with {option}"
    return f"cannot listen on {host}, port {port}: {error.strerror or error}"
