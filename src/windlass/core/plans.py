"""Plans: the limits of the orgs that have them. A limit of None means unlimited."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from windlass.errors import Invalid

UNLIMITED = "unlimited"  # the plan of new orgs; it cannot be changed or deleted
MAX_NUMBER = 2**31 - 1
MAX_EXECUTIONS = 2**63 - 1
_is_name = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    workflows: int | None = None
    steps_per_workflow: int | None = None
    runs_at_once: int | None = None
    executions_per_month: int | None = None  # steps of runs and standalone jobs together
    executions_at_once: int | None = None
    schedules: bool = True  # whether workflows may have a cron trigger


NO_LIMITS = Limits()
NAMES = tuple(field.name for field in fields(Limits))
LEAST = {"steps_per_workflow": 1}
MOST = {"executions_per_month": MAX_EXECUTIONS}


def check_name(name: object) -> str:
    """Return the name of a plan, or raise `Invalid`."""
    if not isinstance(name, str) or not _is_name(name):
        raise Invalid(
            f"plan is {name!r}: use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at the ends",
            field="name",
        )
    return name


def check_limits(changes: Mapping[str, Any]) -> None:
    """Raise `Invalid` if a name is not that of a limit, or its value is not allowed."""
    for name, value in changes.items():
        if name not in NAMES:
            raise Invalid(f"there is no limit {name!r}: one of {', '.join(NAMES)}", field=name)
        if name == "schedules":
            if not isinstance(value, bool):
                raise Invalid(f"schedules is {value!r}: it must be true or false", field=name)
        elif value is not None:
            least, most = LEAST.get(name, 0), MOST.get(name, MAX_NUMBER)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                message = f"{name} is {value!r}: it must be a number from {least} to {most}, or null for no limit"
                raise Invalid(message, field=name)
