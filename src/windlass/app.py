"""Windlass: the one object a user holds. It composes settings, database, handlers and loops, and has no rules."""

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Self, TypeVar
from uuid import UUID

from windlass import settings as settings_
from windlass.core.definition.builder import Served, WorkflowBuilder
from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import JobSpec, check_name
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.cron.cron import Cron
from windlass.effects.command.step import CommandOptions, Commands
from windlass.effects.handlers import Handler, Handlers
from windlass.effects.http.step import Http, HttpOptions
from windlass.effects.own_steps import command_handler, http_handler
from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine import faults
from windlass.engine.database import DEFAULT_ORG, Database, prepare
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import progress, specs
from windlass.engine.jobs.control import Page
from windlass.engine.jobs.progress import Progress
from windlass.engine.maintenance import Place, check_commands
from windlass.engine.public_url import REPEAT
from windlass.engine.runs import control as runs
from windlass.engine.runs import start as run_start
from windlass.engine.runs.control import RunPage
from windlass.engine.runs.start import RunSpec
from windlass.engine.workers import registry as workers
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Published
from windlass.errors import Invalid
from windlass.runtime.adoption import adopt
from windlass.runtime.catalogue import Catalogue
from windlass.runtime.handle import Run
from windlass.runtime.live import Live
from windlass.runtime.loops.deliveries import delivery_handler, ping
from windlass.runtime.loops.loop import run_periodically
from windlass.runtime.loops.supervisor import Supervisor
from windlass.runtime.starting import Starting
from windlass.runtime.switchboard import Switchboard
from windlass.runtime.sync_bridge import Door
from windlass.runtime.waiters import Waiters
from windlass.runtime.worker.worker import Worker, WorkerOptions
from windlass.settings import Settings
from windlass.store.postgres.pool import Connection, DatabaseOptions
from windlass.store.rows import Event, Job, LogLine, WorkerRow

P = ParamSpec("P")
R = TypeVar("R")


class Windlass(Catalogue, Switchboard):
    """Jobs recorded first and executed later.

    `Windlass()` uses WINDLASS_DATABASE_URL, or starts (and shares) the embedded Postgres. It opens itself on first use;
    `async with Windlass() as app` closes it again.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        settings: Settings | None = None,
        org: str = DEFAULT_ORG,
        clock: Callable[[], datetime | None] | None = None,
    ) -> None:
        self.settings = settings or settings_.read()
        self._http = Http(HttpOptions(allow=self.settings.http_allow))
        self.handlers = Handlers()
        self.handlers.add(http_handler(self._http))
        self.handlers.add(delivery_handler(self._http, self.open))
        self._url = database_url or self.settings.database_url
        self._org = org
        self._clock = clock  # tests move time with it
        self._db: Database | None = None
        self._embedded: Embedded | None = None
        self._opening: asyncio.Lock | None = None
        self._door = Door(self._twin)
        self._waiters: Waiters | None = None
        self._starting: Starting | None = None
        self._live: Live | None = None
        self._builders: dict[str, WorkflowBuilder] = {}
        self._recording: asyncio.Task[None] | None = None  # repeats where this process is reached
        self._published: set[str] = set()  # builders whose workflow is in this database by now
        faults.arm(self.settings.fault)

    # Opening and closing

    async def open(self) -> Database:
        """Connect, start the embedded server if there is no other, bring the schema up to date."""
        if self._db is not None:
            return self._db
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._db is None:
                options = self.database(await asyncio.to_thread(self.url))
                await prepare(options)
                self._db = await Database.open(
                    options,
                    org=self._org,
                    public_url=self.settings.public_url,
                    tree_limit=self.settings.tree_limit,
                )
                self._waiters, self._live = Waiters(self._db), Live(self._db)
                self._starting = Starting(self._db)
            return self._db

    async def close(self) -> None:
        if self._recording is not None:
            self._recording.cancel()
            await asyncio.gather(self._recording, return_exceptions=True)
            self._recording = None
        if self._live is not None:
            await self._live.close()
            self._live = None
        if self._waiters is not None:
            await self._waiters.close()
            self._waiters = None
        self._starting = None
        self._published.clear()
        await self._http.close()
        if self._db is not None:
            await self._db.close()
            self._db = None
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.close)
            self._embedded = None
        self._opening = None

    def url(self) -> str:
        """Where the database is; joins or starts the embedded server if it is that one."""
        if self._url is not None:
            return self._url
        if self._embedded is None:
            self._embedded = Embedded.start(EmbeddedOptions(home=self.settings.home, pg_bin=self.settings.pg_bin))
        return self._embedded.url

    def place(self) -> Place:
        """What is known about the database before it is opened."""
        return Place(url=self._url, home=self.settings.home, pg_bin=self.settings.pg_bin)

    def database(self, url: str) -> DatabaseOptions:
        chosen = self.settings
        return DatabaseOptions(
            url=url,
            size=chosen.pool_size,
            notify=chosen.notify,
            pooler=chosen.pooler,
            command_timeout=chosen.command_timeout,
            search_timeout=chosen.search_timeout,
            clock=self._clock,
            revive=self._revive if self._embedded is not None else None,
        )

    async def _revive(self) -> bool:
        """Start the embedded server again if it died."""
        return self._embedded is not None and await asyncio.to_thread(self._embedded.revive)

    async def listen_at(self, url: str) -> str:
        """Record where this process is reached from outside, for as long as it is open; returns the URL of callbacks.

        That is WINDLASS_PUBLIC_URL, or what another server has configured, or `url`.
        """
        db = await self.open()
        db.public_url.listening = url
        await self._record_url()
        if self._recording is None:
            self._recording = asyncio.create_task(
                run_periodically(self._record_url, every=REPEAT, stop=asyncio.Event())
            )
        async with db.once() as conn:
            return await db.public_url.get(conn)

    async def _record_url(self) -> None:
        db = await self.open()
        async with db.once() as conn:
            await db.public_url.record(conn)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def close_sync(self) -> None:
        """Close what `submit_sync` opened; happens by itself when the program ends."""
        self._door.close()

    def _twin(self) -> "Windlass":
        return Windlass(self._url, settings=self.settings, org=self._org, clock=self._clock)

    # Handlers and workers

    def job(
        self,
        type: str,  # noqa: A002 - the domain's word
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
            limits = {"timeout": specs.span(timeout), "concurrency": concurrency}
            self.handlers.add(Handler.of(type, function, max_attempts=max_attempts, retry=retry, queue=queue, **limits))
            return function

        return register

    async def worker(self, options: WorkerOptions | None = None) -> Worker:
        if options is not None and options.allow_commands:
            check_commands(self.place())
        if options is not None and options.allow_commands and self.handlers.find(COMMAND_TYPE) is None:
            commands = Commands(CommandOptions(environment=self.settings.command_environment))
            self.handlers.add(command_handler(commands))
        return Worker(await self.open(), self.handlers, options)

    async def work(
        self,
        options: WorkerOptions | None = None,
        *,
        stop: asyncio.Event | None = None,
        at_once: asyncio.Event | None = None,
    ) -> Worker:
        """Run a worker and the loops it needs (timers, settling, upkeep) until `stop`."""
        await self.publish()
        worker = await self.worker(options)
        supervisor = Supervisor(
            await self.open(), holder=worker.options.id, keep=self.settings.keep, lease=worker.options.lease
        )
        await supervisor.run(stop or asyncio.Event(), worker=worker, at_once=at_once)
        return worker

    async def tend(self, *, stop: asyncio.Event) -> None:
        """Run the loops (timers, settling, upkeep, schedules) without a worker until `stop`."""
        await self.publish()
        holder = f"{socket.gethostname()}-{os.getpid()}"
        await Supervisor(await self.open(), holder=holder, keep=self.settings.keep).run(stop)

    # Workflows and runs

    def workflow(self, name: str, **options: Any) -> WorkflowBuilder:
        """A workflow to be built here, step by step; it is published when it is started or worked for.

        Options: cron, timezone, webhook, description, max_duration, concurrency, labels.
        """
        if name in self._builders:
            raise Invalid(f"there is a workflow {name!r} in this app already", field="name")
        self._builders[name] = WorkflowBuilder(name, register=self._served, **options)
        return self._builders[name]

    def adopt(self, cron: Cron) -> Sequence[str]:
        """Move an in-process scheduler here; it is left empty. The names of the workflows that its entries are now."""
        adopted = adopt(cron, self.handlers, self._builders)
        self._builders |= adopted
        return list(adopted)

    @property
    def built(self) -> Collection[str]:
        """The names of the workflows that are built here."""
        return self._builders.keys()

    async def publish(self, *names: str) -> Sequence[Published]:
        """Make the workflows built here (or these of them) the live versions of their names."""
        db = await self.open()
        wanted = [name for name in names or self._builders if name in self._builders and name not in self._published]
        found = await workflows.publish_many(db, [self._builders[name].build() for name in wanted]) if wanted else []
        self._published.update(wanted)
        return found

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
        """Start a run of a workflow; a known idempotency key answers with the run that has it.

        With `connection` (asyncpg) the run becomes part of the caller's transaction.
        """
        spec = RunSpec(
            input={} if input is None else input,
            idempotency_key=idempotency_key,
            labels=labels or {},
            max_duration=specs.span(max_duration, "max_duration"),
        )
        return (await self.start_many(workflow, [spec], connection=connection))[0]

    async def start_many(
        self, workflow: str, specs: Sequence[RunSpec], *, connection: Connection | None = None
    ) -> Sequence[Run]:
        """Start many runs of a workflow, all or none."""
        db = await self.open()
        await self.publish()
        if connection is None and len(specs) == 1 and self._starting is not None:
            return [self._run(db, await self._starting.start(workflow, specs[0]))]
        return [self._run(db, id_) for id_ in await run_start.start(db, workflow, specs, connection=connection)]

    async def live(self) -> Live:
        """What happens to runs, tasks and jobs, as it happens."""
        await self.open()
        assert self._live is not None
        return self._live

    async def run(self, id: UUID) -> Run:  # noqa: A002
        """A run that exists."""
        db = await self.open()
        return self._run(db, (await runs.get(db, id)).id)

    async def runs(self, **filters: Any) -> RunPage:
        """Newest first: workflow, states, labels, before, limit."""
        return await runs.list_(await self.open(), **filters)

    def _run(self, db: Database, id_: UUID) -> Run:
        assert self._waiters is not None
        return Run(db, self._waiters, id_)

    def _served(self, type_: str, function: Callable[..., Any]) -> Served:
        """What a function serves; one without a type becomes the handler of this one."""
        handler = self.handlers.of_function(function)
        if handler is None:
            handler = Handler.of(type_, function)
            self.handlers.add(handler)
        return Served(handler.type, {"queue": handler.queue, "max_attempts": handler.max_attempts})

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

        Options: queue, priority, run_at or delay, max_attempts, retry, timeout, idempotency_key, tags, meta. With
        `connection` (asyncpg) the job becomes part of the caller's transaction.
        """
        return (await self.submit_many([self.spec(type, payload, **options)], connection=connection))[0]

    async def submit_many(
        self, specs: Iterable[JobSpec | Mapping[str, Any]], *, connection: Connection | None = None
    ) -> list[UUID]:
        """Record many jobs, all or none, in one statement."""
        wanted = [spec if isinstance(spec, JobSpec) else self.spec(**spec) for spec in specs]
        return await jobs.submit(await self.open(), wanted, connection=connection)

    def submit_sync(self, type: str, payload: Any = None, **options: Any) -> UUID:  # noqa: A002
        """`submit` for plain scripts: blocks until the job is recorded."""
        wanted = [self.spec(type, payload, **options)]
        return self._door.run(lambda twin: twin.submit_many(wanted))[0]

    def spec(self, type: str, payload: Any = None, **options: Any) -> JobSpec:  # noqa: A002
        """A job to be, with the defaults its handler declares; options as of `submit`."""
        return specs.job_spec(self.handlers, type, payload, **options)

    async def get(self, id: UUID) -> Job:  # noqa: A002
        return await jobs.get(await self.open(), id)

    async def list(self, **filters: Any) -> Page:
        """Newest first: statuses, queue, type_ (a LIKE pattern), tag, before, limit."""
        return await jobs.list_(await self.open(), **filters)

    async def cancel(self, id: UUID, *, reason: str | None = None) -> None:  # noqa: A002
        await jobs.cancel(await self.open(), id, reason=reason)

    async def retry(self, id: UUID) -> None:  # noqa: A002
        """Start a failed or cancelled job over."""
        await jobs.reopen(await self.open(), id)

    async def delete(self, id: UUID) -> None:  # noqa: A002
        await jobs.delete(await self.open(), id)

    async def progress(self, id: UUID) -> Progress | None:  # noqa: A002
        """How far a job is, by its own words; None: it has said nothing."""
        return await progress.find(await self.open(), id)

    async def events(self, id: UUID) -> Sequence[Event]:  # noqa: A002
        return await jobs.events(await self.open(), id)

    async def ping_subscription(self, id: UUID) -> dict[str, Any]:  # noqa: A002
        """Send a subscriber a signed test event now; what came back."""
        return await ping(self._http, await self.open(), id)

    async def workers(self) -> Sequence[WorkerRow]:
        """Workers and their signs of life, the latest first."""
        return await workers.list_(await self.open())

    async def logs(self, id: UUID, *, attempt: int | None = None) -> Sequence[LogLine]:  # noqa: A002
        return await jobs.logs(await self.open(), id, attempt=attempt)
