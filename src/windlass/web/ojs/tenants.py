"""Tenants: a label on jobs, `meta.tenant_id`. Who names one in a header sees and gets only its jobs; who names none
sees all. It keeps tenants apart, it does not keep anybody out: that is what keys and orgs are for."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.spec import JobSpec
from windlass.engine import tenants
from windlass.engine.workers.remote import Job
from windlass.web.ojs import dependencies
from windlass.web.ojs.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from windlass.web.ojs.responses import answer

HEADER = "x-ojs-tenant"
LABEL = "tenant_id"
_name = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:-]{0,254}").fullmatch
# The words of this face for what is counted by our states; what waits is not told apart here.
WORDS = {"pending": "available", "leased": "active", "succeeded": "completed", "failed": "discarded",
         "cancelled": "cancelled"}  # fmt: skip


def named(request: Request) -> str | None:
    """The tenant that the request is for."""
    given_ = request.headers.get(HEADER)
    if given_ is not None and not _name(given_):
        raise Refusal(INVALID_REQUEST, "X-OJS-Tenant must be of letters, digits and . _ : -", details={"field": HEADER})
    return given_


def labelled(request: Request, spec: JobSpec) -> JobSpec:
    """The job with its tenant's label."""
    tenant = named(request)
    if tenant is None:
        return spec
    meta: Mapping[str, Any] = spec.meta or {}
    if meta.get(LABEL, tenant) != tenant:
        told = "meta.tenant_id and X-OJS-Tenant name different tenants"
        raise Refusal(INVALID_REQUEST, told, details={"field": "meta.tenant_id"})
    return replace(spec, meta={**meta, LABEL: tenant})


def check(request: Request, job: Job) -> None:
    """Jobs of others are not there."""
    tenant = named(request)
    if tenant is not None and job.meta.get(LABEL) != tenant:
        raise Refusal(NOT_FOUND, f"no job {job.id}")


async def list_(request: Request) -> Response:
    found = await tenants.list_(await dependencies.db(request))
    items = [{LABEL: name} for name in found]
    return answer(request, {"items": items, "tenants": items, "pagination": {"total": len(found), "page": 1}})


async def stats(request: Request) -> Response:
    tenant = request.path_params["id"]
    counts = await tenants.counts(await dependencies.db(request), tenant)
    jobs = {word: counts.get(state, 0) for state, word in WORDS.items()}
    return answer(request, {LABEL: tenant, "total_jobs": sum(counts.values()), "jobs": jobs})


ROUTES = [
    Route("/admin/tenants", list_, methods=["GET"]),
    Route("/admin/tenants/{id}/stats", stats, methods=["GET"]),
]
