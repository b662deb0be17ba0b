"""What happens to jobs between being asked for and being recorded: the tenant's label, schemas, bounds of queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from starlette.requests import Request

from windlass.core.jobs.spec import JobSpec
from windlass.engine.jobs.schemas import Misfit, Schemas
from windlass.runtime.admission import Pressure, QueueFull
from windlass.web.ojs import dependencies, tenants
from windlass.web.ojs.errors import QUEUE_FULL, Kind, Refusal

DEMAND = "ojs_validate"  # in `meta`: take it only if a schema says that its arguments are right
RETRY_AFTER = 5  # seconds
WARNING = 0.8  # of the bound, unless the queue says otherwise
MISFIT = Kind(422, "validation_error", "OJS-1006", "Correct what details.validation_errors lists.", "validation_error")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Jobs as they will be recorded, and what the producer is told beside them."""

    specs: Sequence[JobSpec]
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


async def admit(request: Request, specs: Sequence[JobSpec]) -> Admitted:
    if tenants.HEADER in request.headers:
        specs = [tenants.labelled(request, spec) for spec in specs]
    admission = (await dependencies.remote_jobs(request)).admission
    misfits = await admission.misfits(specs)
    _refuse_misfits(specs, dict(misfits), await admission.schemas())
    headers = await make_room(request, [spec.queue for spec in specs])
    warnings = [f"{misfit.schema}: {path}: {told}" for _, misfit in misfits for path, told in misfit.problems]
    return Admitted(specs, headers, warnings)


async def make_room(request: Request, queues: Sequence[str]) -> Mapping[str, str]:
    """Count a job for each of these queues and return the headers that tell how full they are; refuse if one is."""
    try:
        pressure = await (await dependencies.remote_jobs(request)).admission.make_room(queues)
    except QueueFull as full:
        raise _full(full.pressure, str(full)) from None
    return _told(pressure) if pressure else {}


def _refuse_misfits(specs: Sequence[JobSpec], misfits: Mapping[int, Misfit], schemas: Schemas) -> None:
    """A misfit is refused if its schema or the producer says so; who demands to be checked needs a schema."""
    for n, spec in enumerate(specs):
        demands = bool(spec.meta and spec.meta.get(DEMAND))
        misfit, place = misfits.get(n), f"jobs[{n}]." if len(specs) > 1 else ""
        if misfit is not None and (misfit.is_refused or demands):
            errors = [{"path": place + path, "message": told} for path, told in misfit.problems]
            listed = "; ".join(f"{error['path']}: {error['message']}" for error in errors[:3])
            told = f"the arguments do not match the schema {misfit.schema}: {listed}"
            raise Refusal(MISFIT, told, details={"validation_errors": errors, "field": errors[0]["path"]})
        if demands and not schemas.has(spec.type):
            told = f"meta.{DEMAND} asks for a check, and there is no schema of {spec.type}"
            raise Refusal(MISFIT, told, details={"field": f"{place}meta.{DEMAND}"})


def _full(pressure: Pressure, told: str) -> Refusal:
    bound = pressure.bound.max_depth
    details: dict[str, Any] = {"queue": pressure.queue, "depth": pressure.depth, "bound": bound, "strategy": "reject"}
    return Refusal(QUEUE_FULL, told, details=details, headers={"retry-after": str(RETRY_AFTER), **_numbers(pressure)})


def _told(pressure: Pressure) -> dict[str, str]:
    threshold = (pressure.bound.config.get("backpressure") or {}).get("warning_threshold", WARNING)
    if pressure.share < threshold:
        return {}
    return {**_numbers(pressure), "x-ojs-queue-pressure": f"{ceil(pressure.share * 100) / 100:g}"}


def _numbers(pressure: Pressure) -> dict[str, str]:
    return {"x-ojs-queue-depth": str(pressure.depth), "x-ojs-queue-bound": str(pressure.bound.max_depth)}
