"""Reads for handlers from a request: the app and its database, ids, JSON bodies and their fields, and pagination."""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request

from windlass.app import Windlass
from windlass.core import ids
from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine.database import Tenant
from windlass.errors import Forbidden, Invalid
from windlass.runtime.admission import Admission
from windlass.runtime.batching import RemoteJobs
from windlass.web import json_bodies
from windlass.web.access import MOST_TENANTS, access_of, tenant
from windlass.web.ojs import times
from windlass.web.ojs.responses import INVALID_PAYLOAD, NOT_FOUND, TOO_LARGE, Refusal

TENANT_HEADER = "x-ojs-tenant"
MAX_NAME = 255
RESULT_ROOM = 16 * PAYLOAD_LIMIT + 65_536
BULK_LIMIT = json_bodies.BATCH_LIMIT
MAX_FENCE = 2**31 - 1
Parsed = TypeVar("Parsed")
_is_tenant = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:-]{0,254}").fullmatch


def app(request: Request) -> Windlass:
    app_: Windlass = request.app.state.windlass
    return app_


async def db(request: Request) -> Tenant:
    """Return the database of the org for which the request acts, restricted to the tenant that a header names. No other
    function of this API chooses the org."""
    access, label = access_of(request.scope), _label(request)
    if label is not None and access.label not in (None, label):
        raise Forbidden(f"{access.actor} is restricted to the tenant {access.label}: {TENANT_HEADER} names another")
    return await tenant(request, access if label is None else replace(access, label=label))


def _label(request: Request) -> str | None:
    """Return the tenant that the header names, if there is one."""
    name = request.headers.get(TENANT_HEADER)
    if name is not None and not _is_tenant(name):
        raise Invalid("X-OJS-Tenant must consist of letters, digits and . _ : -", field=TENANT_HEADER)
    return name


async def remote_jobs(request: Request) -> RemoteJobs:
    """Return the `RemoteJobs` that batches the requests of a caller. Queue limits are counted per org."""
    opened = await db(request)
    by_caller: dict[Tenant, RemoteJobs] = request.app.state.remote_jobs
    jobs = by_caller.get(opened)
    if jobs is None:
        if len(by_caller) >= MOST_TENANTS:
            by_caller.clear()
        admissions: dict[str, Admission] = request.app.state.admissions
        admission = admissions.get(opened.org)
        if admission is None or admission.db.pool is not opened.pool:
            admission = admissions[opened.org] = Admission(opened.database.tenant(opened.org))
        jobs = by_caller[opened] = RemoteJobs(opened, admission)
    return jobs


def host(request: Request) -> str:
    """Return the address of the client."""
    return request.client.host if request.client else ""


# Ids


def job_id(request: Request) -> UUID:
    """Return the id of the job that the path names."""
    return known_id(request.path_params["id"], "job")


def known_id(text: object, what: str) -> UUID:
    """Return an id as a UUID; refuse a string that cannot be an id with 404."""
    id_ = as_id(text)
    if id_ is not None:
        return id_
    raise Refusal(NOT_FOUND, f"no {what} {str(text)[:100]!a}")


def as_id(text: object) -> UUID | None:
    """Return the UUID of an id; None if it cannot be an id. A string that is not of the form 8-4-4-4-12 may be a
    client's own id of a job of a workflow."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME:
        return None
    try:
        return UUID(text) if len(text) == 36 else ids.of_name(text)
    except ValueError:
        return ids.of_name(text)


# Bodies


async def body(request: Request, *, limit: int = PAYLOAD_LIMIT, optional: bool = False) -> dict[str, Any]:
    """Return the body, a JSON object; with `optional` an empty body is an empty object."""
    raw = await _raw(request, limit)
    if optional and not raw.strip():
        return {}
    return _object(await _parsed(raw, json_bodies.parsed(raw)))


async def body_of_many(request: Request, name: str, *, limit: int) -> tuple[dict[str, Any], dict[int, Invalid]]:
    """Return a body whose list `name` has independent entries and, by index, the errors of entries that Postgres or
    JSON cannot hold: these are refused individually, and the others are processed."""
    raw = await _raw(request, limit)
    value, mistakes = await _parsed(raw, json_bodies.parsed_entries(raw, name))
    return _object(value), mistakes


async def _raw(request: Request, limit: int) -> bytes:
    try:
        return await json_bodies.read(request, limit=limit)
    except HTTPException as error:
        if error.status_code != 413:  # too slow, or too many large bodies: see `responses.on_http_exception`
            raise
        raise Refusal(TOO_LARGE, str(error.detail)) from None


async def _parsed(raw: bytes, parsing: Awaitable[Parsed]) -> Parsed:
    try:
        return await parsing
    except HTTPException as error:
        raise Refusal(TOO_LARGE, str(error.detail)) from None
    except Invalid as error:
        message = str(error) if raw.strip() else "the body is empty: send a JSON object"
        raise Refusal(INVALID_PAYLOAD, message) from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(INVALID_PAYLOAD, "the body must be a JSON object")
    return value


def entries(body: Mapping[str, Any], name: str, *, most: int) -> list[Any]:
    """Return the list `name` of a body, which may have at most `most` items."""
    value = body.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise Invalid(f"{name} must be a list of at most {most} objects", field=name)
    return value


def worker_id(body: Mapping[str, Any]) -> str | None:
    worker = string(body, "worker_id")
    if worker is not None and (len(worker) > MAX_NAME or not worker.isprintable()):
        raise Invalid(f"worker_id must be a printable string of at most {MAX_NAME} characters", field="worker_id")
    return worker


def holder(body: Mapping[str, Any]) -> str:
    """Return the required id of the worker."""
    return worker_id(body) or required(body, "worker_id")


def required_fence(body: Mapping[str, Any], prefix: str = "") -> int:
    value = body.get("fence")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_FENCE:
        raise Invalid(f"{prefix}fence must be the fence of the fetched job, an integer", field=f"{prefix}fence")
    return value


def fence(body: Mapping[str, Any]) -> int | None:
    return integer(body, "fence", least=1, most=MAX_FENCE)


def lease(body: Mapping[str, Any]) -> timedelta | None:
    value = body.get("visibility_timeout_ms")
    return None if value is None else times.milliseconds(value, field="visibility_timeout_ms")


def required(body: Mapping[str, Any], name: str) -> str:
    """Return a field that must be a non-empty string."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{name} must be a non-empty string", field=name)
    return value


def string(body: Mapping[str, Any], name: str) -> str | None:
    """Return a field that may be missing, else must be a non-empty string."""
    return None if body.get(name) is None else required(body, name)


def integer(body: Mapping[str, Any], name: str, *, least: int, most: int, default: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid(f"{name} must be an integer from {least} to {most}", field=name)
    return value


def strings(body: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of strings; an empty list if the field is missing."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"{name} must be a list of strings", field=name)
    return value


# Query parameters


def check_parameters(request: Request, *names: str) -> None:
    """Refuse unknown query parameters: ignoring a misspelt filter would return results that it was meant to exclude."""
    if unknown := [name[:100] for name in request.query_params if name not in names]:
        raise Invalid(f"{unknown[0]} is not a query parameter here: there are {', '.join(names)}", field=unknown[0])


def page(request: Request, *, most: int = 200) -> tuple[int, int]:
    """Return `limit` and `offset` of a list."""
    return _number(request, "limit", 50, 1, most), _number(request, "offset", 0, 0, 100_000)


def numbered_page(request: Request, items: Sequence[Any]) -> dict[str, Any]:
    """Return the requested page of a complete list. Lists below /admin have numbered pages."""
    number, size = _number(request, "page", 1, 1, 100_000), _number(request, "per_page", 20, 1, 100)
    has_more = number * size < len(items)
    pagination = {"total": len(items), "page": number, "per_page": size, "has_more": has_more}
    return {"items": items[(number - 1) * size : number * size], "pagination": pagination}


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text[:9]) < least:
        raise Invalid(f"{name} must be an integer, at least {least}", field=name)
    return min(int(text[:9]), most)
