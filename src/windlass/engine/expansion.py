"""How many instances a fanned-out step has: the answer to `Expand`. Items are made in SQL: they may be many."""

from uuid import UUID

from windlass.core.event import Ended, Event, Expanded
from windlass.core.plan import Plan
from windlass.core.reason import Reason
from windlass.core.run import Letter
from windlass.core.step import Foreach, Parallel
from windlass.store import steps
from windlass.store.pool import Connection
from windlass.store.steps import Expansion

MAX_INSTANCES = 1_000_000
KINDS = {"string": "a text", "number": "a number", "boolean": "true or false", "object": "an object", "null": "null"}


async def expand(conn: Connection, plan: Plan, run: UUID, number: int) -> Event:
    fan_out = plan.steps[number].fan_out
    path = fan_out.items if isinstance(fan_out, Foreach) else str(fan_out.count if fan_out else "")
    source, inner = split(plan, path)
    if source is not None and plan.steps[source].fan_out is not None and not inner and isinstance(fan_out, Foreach):
        return _limited(number, path, await steps.expand_instances(conn, run, number, source))
    make = isinstance(fan_out, Foreach)
    found = await steps.expand(conn, run, number, source, inner, make=make, value=None)
    if isinstance(fan_out, Parallel):
        return _counted(number, path, found)
    if found.kind != "array":
        return _refused(number, f"{path} is {_shown(found)}, not a list")
    return _limited(number, path, found.many)


def split(plan: Plan, path: str) -> tuple[int | None, list[str]]:
    """The step a path begins with (None: the run's input), and the way from there."""
    head, *inner = path.split(".")
    if head in plan.number:
        return plan.number[head], inner
    if head == "trigger" and inner[:1] == ["body"]:
        inner = inner[1:]
    return None, inner


def _counted(number: int, path: str, found: Expansion) -> Event:
    if found.kind != "number" or not found.value or not found.value.isdigit():
        return _refused(number, f"{path} is {_shown(found)}, not a whole number of 0 or more")
    return _limited(number, path, int(found.value))


def _limited(number: int, path: str, count: int) -> Event:
    if count > MAX_INSTANCES:
        return _refused(number, f"{path} asks for {count} instances, the limit is {MAX_INSTANCES}")
    return Expanded(number, count)


def _refused(number: int, why: str) -> Event:
    return Ended(number, Letter.FAILED, Reason("expansion", f"cannot expand: {why}"))


def _shown(found: Expansion) -> str:
    if found.kind is None:
        return "missing"
    told = "a list" if found.kind == "array" else KINDS[found.kind]
    return f"{told} ({found.value})" if found.kind in ("number", "boolean") else told
