"""The application object. It composes settings, database, handlers and background loops, and has no domain rules."""

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar
from uuid import UUID

from windlass import settings as settings_
from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import JobSpec, check_name
from windlass.core.orgs import DEFAULT_ORG
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects.command.run import CommandOptions, Commands
from windlass.effects.command.step import command_handler
from windlass.effects.handlers import Handler, Handlers
from windlass.effects.http.step import Http, HttpOptions, http_handler
from windlass.effects.vault import MasterKeys, key_file
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine import faults
from windlass.engine.database import ACTOR, Database, Tenant, prepare
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import submit as job_submit
from windlass.engine.maintenance import Place, check_commands
from windlass.engine.runs import control as runs
from windlass.engine.runs import start as run_start
from windlass.engine.runs.start import RunSpec, Started
from windlass.engine.workflows import Published
from windlass.errors import Invalid
from windlass.runtime.batching import JobSubmitter, RunStarter
from windlass.runtime.built_workflows import BuiltWorkflows
from windlass.runtime.collector import freeze_modules
from windlass.runtime.handle import Run, Waiters
from windlass.runtime.live import Live
from windlass.runtime.loops.deliveries import delivery_handler, ping
from windlass.runtime.loops.own_url import OwnUrl
from windlass.runtime.operations import Operations
from windlass.runtime.sync_bridge import SyncBridge
from windlass.runtime.worker import WorkerOptions
from windlass.settings import Settings
from windlass.store.postgres.pool import Connection, DatabaseOptions

if TYPE_CHECKING:  # a program that only submits jobs, or a command, imports neither the worker nor the cron scheduler
    from windlass.cron.cron import Cron
    from windlass.runtime.pools.pool import Pool
    from windlass.runtime.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Windlass(Operations):
    """Durable jobs and workflows on Postgres.

    `Windlass()` uses WINDLASS_DATABASE_URL, or starts (and shares) the embedded Postgres. It is opened on first use;
    `async with Windlass() as app` closes it at the end.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        org: str | None = None,
        actor: str = ACTOR,
        clock: Callable[[], datetime | None] | None = None,
    ) -> None:
        self.settings = settings or settings_.read()
        self._http = Http(HttpOptions(allow=self.settings.http_allow))
        self.handlers = Handlers()
        self.handlers.add(http_handler(self._http))
        self.handlers.add(delivery_handler(self._http, self.open))
        self._url = database_url or self.settings.database_url
        self._org = org or self.settings.org or DEFAULT_ORG
        self._actor = actor  # the name in event trails and in the audit log
        self._clock = clock  # lets tests control the time
        self._db: Tenant | None = None
        self._embedded: Embedded | None = None
        self._opening: asyncio.Lock | None = None
        self._sync: SyncBridge[Windlass] = SyncBridge(self._twin)
        self._waiters: Waiters | None = None
        self._starter: RunStarter | None = None
        self._submitter: JobSubmitter | None = None
        self._live: Live | None = None
        self._built = BuiltWorkflows(self.handlers)
        self._own_url: OwnUrl | None = None
        self.target: str | None = None  # "module:app" if a command has imported the app from there
        faults.arm(self.settings.fault)

    # Opening and closing

    async def open(self) -> Tenant:
        """Open the database, starting the embedded server if no URL is configured, and migrate its schema."""
        if self._db is not None:
            return self._db
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._db is None:
                options = self.database(await asyncio.to_thread(self.url))
                await prepare(options, self.master_keys)
                opened = await Database.open(
                    options,
                    public_url=self.settings.public_url,
                    tree_limit=self.settings.tree_limit,
                    keys=self.master_keys(),
                    objects_url=self.settings.objects,
                )
                self._db = opened.tenant(self._org, actor=self._actor)
                self._waiters, self._live = Waiters(self._db), Live(self._db)
                self._starter, self._submitter = RunStarter(), JobSubmitter(self._db)
            return self._db

    async def close(self) -> None:
        if self._own_url is not None:
            await self._own_url.close()
            self._own_url = None
        if self._live is not None:
            await self._live.close()
            self._live = None
        if self._waiters is not None:
            await self._waiters.close()
            self._waiters = None
        self._starter = self._submitter = None
        self._built.close()
        await self._http.close()
        if self._db is not None:
            await self._db.close()
            self._db = None
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.close)
            self._embedded = None
        self._opening = None

    def url(self) -> str:
        """Return the database's URL; join or start the embedded server if no other is configured."""
        if self._url is not None:
            return self._url
        if self._embedded is None:
            self._embedded = Embedded.start(EmbeddedOptions(home=self.settings.home, pg_bin=self.settings.pg_bin))
        return self._embedded.url

    def master_keys(self, needed: Collection[str] = ()) -> MasterKeys:
        """Return WINDLASS_MASTER_KEY, or the key of the embedded server, created on first use.

        `needed` has the ids of the master keys with which values in the database are sealed.
        """
        if self.settings.master_keys or self._url is not None:
            return self.settings.master_keys
        return key_file(self.settings.home, needed)

    def place(self) -> Place:
        """Return the configured location of the database, without opening it."""
        return Place(url=self._url, home=self.settings.home, pg_bin=self.settings.pg_bin)

    def database(self, url: str) -> DatabaseOptions:
        return DatabaseOptions(
            url=url,
            size=self.settings.pool_size,
            notify=self.settings.notify,
            pooler=self.settings.pooler,
            command_timeout=self.settings.command_timeout,
            search_timeout=self.settings.search_timeout,
            clock=self._clock,
            revive=self._revive if self._embedded is not None else None,
        )

    async def _revive(self) -> bool:
        """Start the embedded server again if it died."""
        return self._embedded is not None and await asyncio.to_thread(self._embedded.revive)

    async def listen_at(self, url: str) -> str:
        """Record the URL of this process until it is closed, and return the base URL of callbacks.

        The base URL is WINDLASS_PUBLIC_URL, else that of another server that has set it, else `url`.
        """
        db = await self.open()
        await db.check_master_keys()
        self._own_url = self._own_url or OwnUrl(db)
        return await self._own_url.listen_at(url)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def close_sync(self) -> None:
        """Close the background application of `submit_sync`. Called automatically at exit."""
        self._sync.close()

    def _twin(self) -> "Windlass":
        return Windlass(self._url, settings=self.settings, org=self._org, actor=self._actor, clock=self._clock)

    # Handlers and workers

    def job(
        self,
        type: str,  # noqa: A002
        *,
        max_attempts: int = 3,
        retry: Retry | None = None,
        timeout: timedelta | float | None = None,
        concurrency: int | None = None,
        queue: str = "default",
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Register a function as the handler of a type (or of a LIKE pattern such as `billing.%`).

        Its options are also the defaults of `submit` for that type.
        """
        check_name(type, "type", "name the work, for example content.thumbnail.v1")
        if concurrency is not None and concurrency < 1:
            raise Invalid(f"concurrency is {concurrency}: it must be 1 or more", field="concurrency")

        def register(function: Callable[P, R]) -> Callable[P, R]:
            limits = {"timeout": job_submit.as_timedelta(timeout), "concurrency": concurrency}
            self.handlers.add(Handler.of(type, function, max_attempts=max_attempts, retry=retry, queue=queue, **limits))
            return function

        return register

    async def worker(self, options: WorkerOptions | None = None) -> "Worker":
        from windlass.runtime.worker.worker import Worker

        if options is not None and options.allow_commands:
            check_commands(self.place())
            if self.handlers.find(COMMAND_TYPE) is None:
                commands = Commands(CommandOptions(environment=self.settings.command_environment))
                self.handlers.add(command_handler(commands))
        options = replace(options or WorkerOptions(), code_version=self.settings.code_version)
        return Worker((await self.open()).database, self.handlers, options)

    async def work(
        self,
        options: WorkerOptions | None = None,
        *,
        stop: asyncio.Event | None = None,
        at_once: asyncio.Event | None = None,
    ) -> "Worker":
        """Run a worker and the background loops until `stop`; `at_once` ends the grace period of its jobs early."""
        worker = await self.worker(options)
        pools = await self._pools(allow_commands=worker.options.allow_commands)
        await self._check_keys_and_publish()  # after opening the pools, which workflows may refer to
        freeze_modules()
        stop = stop or asyncio.Event()
        await self._run_loops(stop, worker.options.id, worker=worker, pools=pools, at_once=at_once)
        return worker

    async def _pools(self, *, allow_commands: bool) -> "Sequence[Pool]":
        """Open the pools of this process: those of the settings, and `subprocess` where commands are allowed."""
        from windlass.runtime.pools.pool import open_pools

        database = (await self.open()).database
        return await open_pools(
            database, self.settings.pools, home=self.settings.home, allow_commands=allow_commands, app=self.target
        )

    async def tend(self, *, stop: asyncio.Event) -> None:
        """Run the background loops without a worker until `stop`."""
        await self._check_keys_and_publish()
        await self._run_loops(stop, f"{socket.gethostname()}-{os.getpid()}")

    async def _check_keys_and_publish(self) -> None:
        await (await self.open()).check_master_keys()
        await self.publish()

    async def _run_loops(self, stop: asyncio.Event, holder: str, **worker: Any) -> None:
        from windlass.runtime.loops.background import run_loops
        from windlass.runtime.loops.upkeep import UpkeepOptions

        keep, keep_audit, keep_messages = self.settings.keep, self.settings.keep_audit, self.settings.keep_messages
        options = UpkeepOptions(
            archive_after=self.settings.archive_after, keep=keep, keep_audit=keep_audit, keep_messages=keep_messages
        )
        await run_loops((await self.open()).database, stop, holder=holder, options=options, **worker)

    # Workflows and runs

    def workflow(self, name: str, **options: Any) -> WorkflowBuilder:
        """Return a builder for a workflow. It is published when it is started, or when a worker starts.

        Options: cron, timezone, webhook, description, max_duration, concurrency, labels, input (a Python type or a JSON
        Schema that the input of a run must fit).
        """
        return self._built.add(name, **options)

    def adopt(self, cron: "Cron") -> Sequence[str]:
        """Convert the entries of an in-process scheduler to workflows and return the names of the workflows."""
        return self._built.adopt(cron)

    @property
    def built(self) -> Collection[str]:
        """The names of the workflows built with `workflow`."""
        return self._built.names

    async def publish(self, *names: str) -> Sequence[Published]:
        """Publish all workflows built here, or only those named, as live versions; skip workflows already published."""
        return await self._built.publish(await self.open(), names)

    async def start(
        self,
        workflow: str,
        input: Any = None,  # noqa: A002
        *,
        idempotency_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_duration: timedelta | float | None = None,
        connection: Connection | None = None,
    ) -> Run:
        """Start a run of a workflow; a known idempotency key returns the run that has it.

        With `connection` (asyncpg) the run becomes part of the caller's transaction.
        """
        spec = RunSpec(
            input={} if input is None else input,
            idempotency_key=idempotency_key,
            labels=labels or {},
            max_duration=job_submit.as_timedelta(max_duration, "max_duration"),
        )
        return (await self.start_many(workflow, [spec], connection=connection))[0]

    async def start_many(
        self, workflow: str, specs: Sequence[RunSpec], *, connection: Connection | None = None
    ) -> Sequence[Run]:
        """Start many runs of a workflow, all or none."""
        db = await self.open()
        await self.publish()
        if connection is None and len(specs) == 1 and self._starter is not None:
            return [self._run(db, (await self._starter.start(db, workflow, specs[0])).id)]
        return [self._run(db, id_) for id_ in await run_start.start(db, workflow, specs, connection=connection)]

    async def start_for(self, db: Tenant, workflow: str, spec: RunSpec) -> tuple[Run, Started]:
        """Start a run for the caller of a request; concurrent starts by the same caller share a transaction."""
        await self.open()
        await self.publish()
        assert self._starter is not None
        started = await self._starter.start(db, workflow, spec)
        return self._run(db, started.id), started

    async def live(self) -> Live:
        """Return the hub that streams events of runs, tasks and jobs."""
        await self.open()
        assert self._live is not None
        return self._live

    async def run(self, id: UUID) -> Run:  # noqa: A002
        """Return the handle of an existing run."""
        db = await self.open()
        return self._run(db, (await runs.get(db, id)).id)

    def _run(self, db: Tenant, id_: UUID) -> Run:
        assert self._waiters is not None
        return Run(db, self._waiters, id_)

    # Jobs

    async def submit(
        self,
        type: str,  # noqa: A002
        payload: Any = None,
        *,
        connection: Connection | None = None,
        **options: Any,
    ) -> UUID:
        """Record one job and return its id; a known idempotency key returns the id of the job that has it.

        Options: queue, priority, run_at or delay, max_attempts, retry, timeout, idempotency_key, tags, meta. Jobs
        submitted concurrently share a transaction. With `connection` (asyncpg) the job becomes part of the
        caller's transaction.
        """
        spec = self.spec(type, payload, **options)
        if connection is not None:
            return (await self.submit_many([spec], connection=connection))[0]
        await self.open()
        assert self._submitter is not None
        return await self._submitter.submit(spec)

    async def submit_many(
        self, specs: Iterable[JobSpec | Mapping[str, Any]], *, connection: Connection | None = None
    ) -> list[UUID]:
        """Record many jobs, all or none, in one statement."""
        return await jobs.submit(await self.open(), *job_submit.complete(self.handlers, specs), connection=connection)

    def submit_sync(self, type: str, payload: Any = None, **options: Any) -> UUID:  # noqa: A002
        """Submit a job from synchronous code; block until it is recorded."""
        spec = self.spec(type, payload, **options)
        return self._sync.run(lambda twin: twin.submit_many([spec]))[0]

    def spec(self, type: str, payload: Any = None, **options: Any) -> JobSpec:  # noqa: A002
        """Return the spec of a job, with the defaults of its handler; options as for `submit`."""
        return job_submit.job_spec(self.handlers, type, payload, **options)

    async def ping_subscription(self, id: UUID, *, tenant: Tenant | None = None) -> dict[str, Any]:  # noqa: A002
        """Send a signed test event to a subscription and return the response; `tenant` selects another org."""
        return await ping(self._http, tenant or await self.open(), id)
