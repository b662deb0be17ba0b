"""Artifacts of launched steps. The launched process has no database: its specification names the artifacts that it can
read, and those that it writes are objects of the launch, which are copied and recorded when the attempt ends.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from windlass.core.artifacts import (
    PREFIX,
    Artifact,
    Reference,
    check_media_type,
    guess_media_type,
    is_name,
    read_reference,
    refer,
)
from windlass.core.jobs.job import Claimed
from windlass.core.launches import ARTIFACTS, TaskSpec
from windlass.effects.context import Context
from windlass.effects.objects import Objects
from windlass.engine import artifacts
from windlass.engine.database import Database
from windlass.errors import Invalid, LeaseLost, NotFound

MOST = 1000  # artifacts that a launched process can read
_log = logging.getLogger("windlass.artifacts")


async def readable(ctx: Context, input_: Any) -> list[dict[str, Any]]:
    """Return, for `TaskSpec`, the artifacts of the steps that this step needs, and those that its input refers to."""
    job, store = _job(ctx), ctx._context_data
    assert store is not None
    known: dict[str, Artifact] = {}
    for row in await store.list_artifacts(job, None) if ctx.upstream and job.run_id is not None else ():
        if row.step in ctx.upstream:
            known[str(Reference(job.run_id or job.id, row.step, row.index, row.name))] = row
    for text in _references(input_):
        if text not in known:
            with suppress(Invalid, NotFound):  # the handler gets the error when it reads the artifact
                known[text] = await store.find_artifact(job, read_reference(text))
    return [
        {"reference": text, **asdict(row), "created_at": row.created_at.isoformat()}
        for text, row in list(known.items())[:MOST]
    ]


async def adopt(db: Database, objects: Objects, ctx: Context, spec: TaskSpec, written: Any) -> None:
    """Record the artifacts that a launched process has written. For an attempt that has lost its lease, record none.

    `written` has the media types by name, as the final status reports them; None if the process wrote no final status.
    May be repeated: an artifact that is recorded already is copied again.
    """
    if written == {}:
        return  # most processes write none, which then costs no request
    job, prefix, media_types = _job(ctx), spec.mailbox + ARTIFACTS, written if isinstance(written, dict) else {}
    try:
        for meta in await objects.list(prefix):
            name = meta.key.removeprefix(prefix)
            if not is_name(name):
                _log.warning("%s is not the name of an artifact: it is left out", meta.key)
                continue
            reference = refer(job, ctx.step_name, name)
            key = await artifacts.reserve(db, job, reference, media_type=_media_type(name, media_types.get(name)))
            await objects.copy(meta.key, key)
            await artifacts.complete(db, job, reference, meta.size)
    except LeaseLost:
        _log.info("the artifacts of %s are not recorded: its attempt has lost the lease", spec.name)
    except Invalid as error:
        ctx.keep("WARNING", f"not all artifacts are recorded: {error}")


def _references(value: Any) -> Iterator[str]:
    """Yield the references in an input, each once."""
    waiting, seen = [value], set[str]()
    while waiting and len(seen) < MOST:
        match waiting.pop():
            case str() as text if text.startswith(PREFIX) and text not in seen:
                seen.add(text)
                yield text
            case dict() as members:
                waiting += members.values()
            case list() as items:
                waiting += items
            case _:
                pass


def _media_type(name: str, reported: Any) -> str:
    try:
        return check_media_type(reported)
    except Invalid:
        return guess_media_type(name)


def _job(ctx: Context) -> Claimed:
    assert ctx._job is not None
    return ctx._job
