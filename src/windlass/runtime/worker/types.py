"""The job types that a worker serves, and the schemas of their payloads, which it publishes."""

import logging
import re

from windlass.effects.handlers import Handler, Handlers, like
from windlass.engine.database import Database
from windlass.engine.jobs import types
from windlass.engine.jobs.types import UNTYPED, HandlerSchema
from windlass.engine.workers import turn
from windlass.engine.workers.turn import OrgPages, Served
from windlass.runtime.worker import WorkerOptions
from windlass.runtime.worker.heartbeat import Registration

_LITERAL = re.compile(r"[^%_\\]*")
_log = logging.getLogger("windlass.worker")


class ServedTypes:
    """The job types that a worker serves: those that have a handler and match one of `prefixes` (LIKE patterns; none
    match all), and that the registry of types neither disables nor assigns to another runtime."""

    def __init__(self, db: Database, handlers: Handlers, options: WorkerOptions, pages: OrgPages) -> None:
        """`pages.several` is kept current: whether there are several orgs is read together with the registry."""
        self._db = db
        self._pages = pages
        self._handlers = handlers
        self._options = options
        self._patterns = [like(prefix) for prefix in options.prefixes]
        self._registry: dict[str, tuple[str, bool]] = {}
        self._published: list[HandlerSchema] | None = None  # None: not registered yet

    async def register(self, registration: Registration) -> None:
        """Register the worker with the types that it serves."""
        await self._read_registry()
        queues, concurrency = self._options.queues, self._options.concurrency
        await registration.register(self._db, queues=queues, types=self.names(), concurrency=concurrency)
        self._published = []

    async def refresh(self) -> None:
        """Read the registry of types, which operators may change at any time, and whether there are several orgs."""
        if self._published is not None:  # else `register` reads it
            await self._read_registry()
            await self.publish()

    async def _read_registry(self) -> None:
        self._registry, self._pages.several = await turn.registry(self._db)

    async def publish(self) -> None:
        """Publish the schemas of the served types, if they have changed. A failure is only logged, and the
        next refresh tries again: the worker can run jobs without it."""
        schemas = [_schema(handler) for handler in self._handlers.exact() if self.serves(handler.type)]
        if schemas == self._published:
            return
        try:
            await types.publish(self._db, self._options.id, schemas, version=self._options.code_version)
            self._published = schemas
        except Exception as error:
            _log.warning("the schemas of the handlers cannot be published, trying again: %s", error)

    def serves(self, type_: str) -> bool:
        runtime, enabled = self._registry.get(type_, (self._options.runtime, True))
        return (
            enabled
            and runtime == self._options.runtime
            and self._handlers.find(type_) is not None
            and (not self._patterns or any(pattern.fullmatch(type_) for pattern in self._patterns))
        )

    def names(self) -> list[str]:
        """Return the served types and the patterns that handlers are registered for."""
        return [type_ for type_ in self._handlers.types() if "%" in type_ or self.serves(type_)]

    def search(self) -> Served:
        """Return the types to search lanes for: the served types, and the literal prefixes of the patterns.

        A prefix may match types that are not served: `Lanes.found` filters the result again.
        """
        names = self.names()
        prefixes = [f"{_begins(type_)}%" for type_ in names if "%" in type_]
        return Served([type_ for type_ in names if "%" not in type_], prefixes)


def _schema(handler: Handler) -> HandlerSchema:
    payload_type = handler.payload_type
    if payload_type is None:
        return HandlerSchema(handler.type, UNTYPED, None)
    return HandlerSchema(handler.type, payload_type.digest, payload_type.schema_text)


def _begins(pattern: str) -> str:
    literal = _LITERAL.match(pattern)
    return literal[0] if literal else ""
