"""Admits jobs before they are recorded: checks schemas and queue limits.

A tenant is a label on jobs, `meta.tenant_id`. A request that names a tenant in a header can read and fetch only its
jobs; a request that names none can access all jobs, unless its key is restricted to a tenant. The engine enforces the
label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.spec import JobSpec
from windlass.core.json_value import encode
from windlass.core.orgs import LABEL, Scope
from windlass.engine import stats
from windlass.engine.database import Tenant
from windlass.engine.jobs import schemas as job_schemas
from windlass.engine.jobs import types
from windlass.engine.jobs.schemas import Misfit, Schemas
from windlass.runtime.admission import Pressure, QueueFull
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import QUEUE_FULL, Kind, Refusal, answer
from windlass.web.ojs.routing import Route

DEMAND = "ojs_validate"  # in `meta`: refuse the job unless a schema accepts its arguments
RETRY_AFTER = 5  # seconds
WARNING = 0.8  # share of the limit from which responses carry a warning, unless the queue configures another
MISFIT = Kind(422, "validation_error", "OJS-1006", "Fix the errors in details.validation_errors.", "validation_error")
# Counts are by row state, so waiting jobs are not divided into available, scheduled, retryable and pending.
_TENANT_STATES = {"pending": "available", "leased": "active", "succeeded": "completed", "failed": "discarded",
                  "cancelled": "cancelled"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Admitted:
    """Jobs as they will be recorded, and the headers and warnings for their producer."""

    specs: Sequence[JobSpec]
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


async def admit(request: Request, specs: Sequence[JobSpec]) -> Admitted:
    admission = (await dependencies.remote_jobs(request)).admission
    misfits = await admission.misfits(specs)
    _refuse_misfits(specs, dict(misfits), await admission.schemas())
    await _check_types(await dependencies.db(request), specs)
    headers = await make_room(request, [spec.queue for spec in specs])
    warnings = [f"{misfit.schema}: {path}: {problem}" for _, misfit in misfits for path, problem in misfit.problems]
    return Admitted(specs, headers, warnings)


async def make_room(request: Request, queues: Sequence[str]) -> Mapping[str, str]:
    """Count a job for each of these queues and return headers with their depth; refuse if a queue is full."""
    try:
        pressure = await (await dependencies.remote_jobs(request)).admission.make_room(queues)
    except QueueFull as full:
        raise _full(full.pressure, str(full)) from None
    if pressure is None:
        return {}
    threshold = (pressure.bound.config.get("backpressure") or {}).get("warning_threshold", WARNING)
    if pressure.share < threshold:
        return {}
    return {**_depth_headers(pressure), "x-ojs-queue-pressure": f"{ceil(pressure.share * 100) / 100:g}"}


def _refuse_misfits(specs: Sequence[JobSpec], misfits: Mapping[int, Misfit], schemas: Schemas) -> None:
    """Refuse a job that does not match its schema if the schema or the producer requires a check. Refuse a job whose
    producer requires a check if its type has no schema."""
    for n, spec in enumerate(specs):
        demands = bool(spec.meta and spec.meta.get(DEMAND))
        misfit, place = misfits.get(n), f"jobs[{n}]." if len(specs) > 1 else ""
        if misfit is not None and (misfit.is_refused or demands):
            raise _misfit(misfit.schema, [(place + path, problem) for path, problem in misfit.problems])
        if demands and not schemas.has(spec.type):
            message = f"meta.{DEMAND} requires validation, but {spec.type} has no schema"
            raise Refusal(MISFIT, message, details={"field": f"{place}meta.{DEMAND}"})


async def _check_types(db: Tenant, specs: Sequence[JobSpec]) -> None:
    """Refuse a job whose arguments do not match the schema that the workers of its type have published."""
    names = [spec.type for spec in specs]
    misfit = await types.first_misfit(db, names, lambda n: encode(specs[n].payload, field="args"))
    if misfit is not None:
        place = f"jobs[{misfit.index}].args" if len(specs) > 1 else "args"
        problems = [(job_schemas.path_text(place, path), message) for path, message in misfit.problems]
        raise _misfit(f"that the workers of {names[misfit.index]} have published", problems)


def _misfit(schema: str, problems: Sequence[tuple[str, str]]) -> Refusal:
    errors = [{"path": path, "message": message} for path, message in problems]
    listed = "; ".join(f"{path}: {message}" for path, message in problems[:3])
    message = f"the arguments do not match the schema {schema}: {listed}"
    return Refusal(MISFIT, message, details={"validation_errors": errors, "field": problems[0][0]})


def _full(pressure: Pressure, message: str) -> Refusal:
    limit = pressure.bound.max_depth
    details: dict[str, Any] = {"queue": pressure.queue, "depth": pressure.depth, "bound": limit, "strategy": "reject"}
    headers = {"retry-after": str(RETRY_AFTER), **_depth_headers(pressure)}
    return Refusal(QUEUE_FULL, message, details=details, headers=headers)


def _depth_headers(pressure: Pressure) -> dict[str, str]:
    return {"x-ojs-queue-depth": str(pressure.depth), "x-ojs-queue-bound": str(pressure.bound.max_depth)}


# Tenants


async def list_tenants(request: Request) -> Response:
    names = await stats.tenants(await dependencies.db(request))
    items = [{LABEL: name} for name in names]
    return answer(request, {"items": items, "tenants": items, "pagination": {"total": len(names), "page": 1}})


async def tenant_stats(request: Request) -> Response:
    name = request.path_params["id"]
    counts = await stats.jobs_of_tenant(await dependencies.db(request), name)
    jobs = {shown: counts.get(state, 0) for state, shown in _TENANT_STATES.items()}
    return answer(request, {LABEL: name, "total_jobs": sum(counts.values()), "jobs": jobs})


ROUTES = [
    Route("/admin/tenants", list_tenants, methods=["GET"], needs=Scope.READ),
    Route("/admin/tenants/{id}/stats", tenant_stats, methods=["GET"], needs=Scope.READ),
]
