"""The workflows that an app builds in code: their builders, the handlers of their steps, and which are published."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, get_origin

from windlass.core.definition.builder import Served, WorkflowBuilder
from windlass.effects.handlers import Handler, Handlers
from windlass.effects.payload_types import schema_of
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.workflows import Published
from windlass.errors import Invalid

if TYPE_CHECKING:  # most apps do not use the in-process scheduler
    from windlass.cron.cron import Cron


def _is_type(value: object) -> bool:
    """Return whether a value is a type: a class, or a form such as list[Order] and Annotated[Order, ...]."""
    return isinstance(value, type) or get_origin(value) is not None


class BuiltWorkflows:
    """Builders by the names of their workflows. Functions that are steps become handlers of the app."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._builders: dict[str, WorkflowBuilder] = {}
        self._published: set[str] = set()  # names of the workflows published to the open database

    @property
    def names(self) -> Collection[str]:
        return self._builders.keys()

    def add(self, name: str, *, input: Any = None, **options: Any) -> WorkflowBuilder:  # noqa: A002
        """Return a new builder. `input` is a Python type or a JSON Schema."""
        if name in self._builders:
            raise Invalid(f"this app already has a workflow {name!r}", field="name")
        schema = schema_of(input, "input") if _is_type(input) else input
        self._builders[name] = WorkflowBuilder(name, register=self._served, input=schema, **options)
        return self._builders[name]

    def adopt(self, cron: "Cron") -> Sequence[str]:
        """Convert the entries of an in-process scheduler; return the names of their workflows."""
        from windlass.runtime.adoption import adopt

        adopted = adopt(cron, self._handlers, self._builders)
        self._builders |= adopted
        return list(adopted)

    async def publish(self, db: Tenant, names: Collection[str] = ()) -> Sequence[Published]:
        """Publish all workflows, or those with these names, as live versions; skip those published before."""
        pending = [name for name in names or self._builders if name in self._builders and name not in self._published]
        if not pending:
            return []
        published = await workflows.publish_many(db, [self._builders[name].build() for name in pending])
        self._published.update(pending)
        return published

    def close(self) -> None:
        """Forget what is published: the app may open another database."""
        self._published.clear()

    def _served(self, type_: str, function: Callable[..., Any]) -> Served:
        """Return the type that a function handles; register it as the handler of `type_` if it handles none."""
        handler = self._handlers.of_function(function)
        if handler is None:
            handler = Handler.of(type_, function)
            self._handlers.add(handler)
        return Served(handler.type, {"queue": handler.queue, "max_attempts": handler.max_attempts})
