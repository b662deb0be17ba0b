"""Cron: jobs that are enqueued on a schedule."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.cron.schedule import Overlap
from windlass.core.jobs.spec import JobTemplate
from windlass.core.orgs import Scope
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules.ojs import CronRow
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, parse_job, times
from windlass.web.ojs.responses import answer, created, instant, pagination
from windlass.web.ojs.routing import Route

MAX_NAME = 255
MAX_ZONE = 64
OVERLAPS: Mapping[str, Overlap] = {
    "skip": Overlap.SKIP,
    "allow": Overlap.ALLOW,
    "cancel_previous": Overlap.REPLACE,
    "enqueue": Overlap.BUFFER,
}
OWN_KEYS = ("name", "expression", "cron", "timezone", "overlap_policy", "job_template", "enabled")
JOB_KEYS = ("type", "args", "meta", "options", "schema")
# Fields that the server sets. A client may send them back; they are ignored.
SYSTEM = ("specversion", "status", "run_count", "next_run_at", "last_run_at", "created_at")
POLICIES = {overlap: policy for policy, overlap in OVERLAPS.items()}
_name = re.compile(r"[a-z0-9][a-z0-9\-.]*").fullmatch
# Each part begins with a character that the part before it cannot contain. There is only one way to match, so matching
# takes linear time.
_zone = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[/_+-][A-Za-z0-9]+)*").fullmatch


async def put(request: Request) -> Response:
    body = await dependencies.body(request)
    _check_keys(body)
    name, expression = body.get("name"), body.get("expression", body.get("cron"))
    if not isinstance(name, str) or len(name) > MAX_NAME or not _name(name):
        raise Invalid("name must consist of a-z, 0-9, '-' and '.', and begin with a letter or digit", field="name")
    if not isinstance(expression, str):
        raise Invalid("expression must be a cron expression, for example */5 * * * *", field="expression")
    zone = body.get("timezone") or "UTC"
    if not isinstance(zone, str) or len(zone) > MAX_ZONE or zone.startswith(("UTC+", "UTC-")) or not _zone(zone):
        raise Invalid("timezone must be an IANA name such as Europe/Berlin", field="timezone")
    policy = body.get("overlap_policy", "skip")
    if not isinstance(policy, str) or policy not in OVERLAPS:
        raise Invalid(f"overlap_policy must be one of {', '.join(OVERLAPS)}", field="overlap_policy")
    job = _job(body)
    template = _template(job)
    row, is_new = await ojs_schedules.put(
        await dependencies.db(request), name, expression=expression, timezone=zone, overlap=OVERLAPS[policy],
        asked=job, template=template,
    )  # fmt: skip
    shown = _shown(row)
    status, headers = (201, created("cron", name)) if is_new else (200, None)
    return answer(request, {"cron": shown, "cron_job": shown}, status=status, headers=headers)


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    rows, total = await ojs_schedules.list_(await dependencies.db(request), limit=limit, offset=offset)
    shown, page = [_shown(row) for row in rows], pagination(len(rows), total, limit, offset)
    return answer(request, {"crons": shown, "cron_jobs": shown, "pagination": page})


async def delete(request: Request) -> Response:
    row = await ojs_schedules.delete(await dependencies.db(request), request.path_params["name"])
    return answer(request, {"cron": _shown(row), "deleted": True, "name": row.name})


def _check_keys(body: Mapping[str, Any]) -> None:
    """Refuse what would otherwise be ignored: unknown keys, and a job that is given in two different ways."""
    if unknown := [name for name in body if name not in (*OWN_KEYS, *JOB_KEYS, *SYSTEM)]:
        message = f"unknown field {unknown[0]}: a cron has {', '.join((*OWN_KEYS, *JOB_KEYS))}"
        raise Invalid(message, field=unknown[0])
    if body.get("enabled", True) is not True:
        raise Invalid("enabled must be true: delete a cron to stop it", field="enabled")
    if body.get("expression") is not None and body.get("cron") not in (None, body["expression"]):
        raise Invalid("expression and cron mean the same and differ: send one of them", field="cron")
    template = body.get("job_template")
    if isinstance(template, dict) and (
        twice := [name for name in JOB_KEYS if body.get(name, template.get(name)) != template.get(name)]
    ):
        raise Invalid(f"{twice[0]} and job_template.{twice[0]} differ: send one of them", field=twice[0])


def _job(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job, which may be given as `job_template` or at the top level."""
    template = body.get("job_template")
    if template is None:
        template = {name: body[name] for name in JOB_KEYS if name in body}
        template.setdefault("args", [])
    if not isinstance(template, dict):
        raise Invalid("job_template must be an object", field="job_template")
    return {name: value for name, value in template.items() if name != "id"}


def _template(job: Mapping[str, Any]) -> JobTemplate:
    options = job.get("options") or {}
    for name in ("scheduled_at", "delay_until", "expires_at"):
        if isinstance(options, dict) and options.get(name) and not times.is_relative(options[name]):
            field = f"job_template.options.{name}"
            raise Invalid(f"{field} must be relative to the tick, for example +PT5M", field=field)
    return parse_job.read_later(dict(job))


def _shown(row: CronRow) -> dict[str, Any]:
    schedule, job = row.schedule, row.asked
    times_ = (("next_run_at", schedule.next_run_at), ("last_run_at", row.last_run_at), ("created_at", row.created_at))
    return {
        "name": row.name,
        "expression": schedule.cron,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "overlap_policy": POLICIES[schedule.overlap],
        "enabled": row.enabled,
        "status": "active" if row.enabled else "disabled",
        "run_count": row.run_count,
        **{name: instant(at) for name, at in times_ if at is not None},
        "job_template": job,
        **{name: job[name] for name in ("type", "args", "meta", "options") if name in job},
    }


ROUTES = [
    Route("/cron", put, methods=["POST"], needs=Scope.DEPLOY),
    Route("/cron", list_, methods=["GET"], needs=Scope.READ),
    Route("/cron/{name}", delete, methods=["DELETE"], needs=Scope.DEPLOY),
]
