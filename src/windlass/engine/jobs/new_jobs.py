"""Validates new jobs and inserts their rows. Shared by `control` (idempotency keys) and `submit` (unique keys)."""

import functools
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import JobSpec, advice, check
from windlass.core.json_value import encode
from windlass.core.orgs import LABEL, stored
from windlass.engine.database import Tenant, new_ids
from windlass.errors import Duplicate, Invalid
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import jobs as store
from windlass.store.jobs import FAR, JobOptions, NewJob
from windlass.store.postgres.pool import TAKEN, UNSTORABLE, Connection

_log, _warned = logging.getLogger("windlass.jobs"), set[str]()


def labelled(db: Tenant, specs: Sequence[JobSpec]) -> Sequence[JobSpec]:
    """Return the specs with the label of the caller, if it has one; raise `Invalid` for a spec with another label."""
    if db.label is None:
        return specs
    for n, spec in enumerate(specs):
        if (spec.meta or {}).get(LABEL, db.label) != db.label:
            field = f"jobs[{n}].meta.{LABEL}" if len(specs) > 1 else f"meta.{LABEL}"
            raise Invalid(f"{field} differs from the tenant of the request, {db.label}", field=field)
    # Keyed by identity: jobs that share a spec still share one.
    with_label = {id(spec): replace(spec, meta={**(spec.meta or {}), LABEL: db.label}) for spec in specs}
    return [with_label[id(spec)] for spec in specs]


def new_rows(
    db: Tenant, specs: Sequence[JobSpec], payloads: Sequence[Any] | None = None, *, listed: bool = False
) -> list[store.NewJob]:
    """Return rows for new jobs, validated and with ids. Consecutive jobs with the same spec share its validation."""
    rows: list[store.NewJob] = []
    if payloads is None:
        payloads = [spec.payload for spec in specs]
    checked: JobSpec | None = None
    for id_, spec, payload in zip(new_ids(len(specs)), specs, payloads, strict=True):
        try:
            if spec is not checked:
                options, checked = _options(db.org, spec), spec
            rows.append(NewJob(spec.id or id_, encode(payload, field="payload", objects=True), options))
        except Invalid as error:
            if not listed:
                raise
            raise Invalid(f"jobs[{len(rows)}]: {error}", field=f"jobs.{len(rows)}.{error.field}") from None
    return rows


async def insert(conn: Connection, db: Tenant, rows: Sequence[store.NewJob]) -> store.Inserted:
    """Insert jobs, except those whose idempotency keys exist."""
    try:
        return await store.insert(conn, rows, org=db.org, actor=db.actor)
    except UNSTORABLE as error:
        raise Invalid(f"Postgres cannot store this: {error}") from None
    except TAKEN as error:
        id_ = next((row.id for row in rows if str(row.id) in str(error.detail)), None)
        raise Duplicate(f"a job {id_} already exists", existing=id_) from None


def _options(org: str, spec: JobSpec) -> JobOptions:
    """Validate a spec and return its options."""
    check(spec)
    _advise(spec.type)
    return JobOptions(
        spec.type,
        stored(org, spec.queue),
        spec.priority,
        FAR if spec.held else spec.run_at,
        spec.delay,
        spec.max_attempts,
        spec.timeout,
        _policy(spec.retry) if spec.retry else None,
        f"{org}/{spec.idempotency_key}" if spec.idempotency_key is not None else None,
        encode(list(spec.tags), field="tags") if spec.tags else None,
        encode(spec.meta, field="meta", limit=65_536) if spec.meta else None,
        encode(spec.envelope, field="envelope") if spec.envelope else None,
        spec.expires_at,
        f"{org}/{spec.unique.key}" if spec.unique else None,
        spec.visibility,
        f"{org}/{spec.limit.key}" if spec.limit else None,
    )


@functools.lru_cache(maxsize=256)
def _policy(retry: Retry) -> str:
    """Return the policy as JSON. Cached: there are many jobs and few policies."""
    return encode(retry.to_json(), field="retry")


def _advise(type_: str) -> None:
    """Warn once per type and process, for at most `PAGE_LIMIT` types."""
    if type_ not in _warned and len(_warned) < PAGE_LIMIT:
        _warned.add(type_)
        if warning := advice(type_):
            _log.warning(warning)
