"""What handlers are given: the app, and the open database on behalf of whoever asks."""

from uuid import UUID

from starlette.requests import Request

from windlass.app import Windlass
from windlass.core import ids
from windlass.engine.database import Database
from windlass.runtime.batching import RemoteJobs
from windlass.web.ojs.errors import INVALID_REQUEST, NOT_FOUND, Refusal

MAX_NAME = 255


def app(request: Request) -> Windlass:
    found: Windlass = request.app.state.windlass
    return found


async def db(request: Request) -> Database:
    """The one place that knows for whom a request of this face acts."""
    return await app(request).open()


async def remote_jobs(request: Request) -> RemoteJobs:
    """Where requests that come together share a transaction."""
    opened = await db(request)
    by_org: dict[str, RemoteJobs] = request.app.state.remote_jobs
    found = by_org.get(opened.org)
    if found is None or found.db.pool is not opened.pool:
        found = by_org[opened.org] = RemoteJobs(opened)
    return found


def job_id(request: Request) -> UUID:
    """The job that the path names."""
    return known_id(request.path_params["id"], "job")


def known_id(text: object, what: str) -> UUID:
    """An id that somebody asks about; what is no id names nothing."""
    id_ = as_id(text)
    if id_ is not None:
        return id_
    raise Refusal(NOT_FOUND, f"no {what} {str(text)[:100]!a}")


def as_id(text: object) -> UUID | None:
    """Only the usual spelling: 8-4-4-4-12. Any other text may be what a client calls a job of a workflow."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME:
        return None
    try:
        return UUID(text) if len(text) == 36 else ids.of_name(text)
    except ValueError:
        return ids.of_name(text)


def only(request: Request, *names: str) -> None:
    """Refuse parameters of the query that nobody knows: a filter that is dropped would answer another question."""
    if unknown := [name for name in request.query_params if name not in names]:
        told = f"{unknown[0][:100]} is not a parameter of this address: it has {', '.join(names)}"
        raise Refusal(INVALID_REQUEST, told, details={"field": unknown[0][:100]})


def page(request: Request, *, most: int = 200) -> tuple[int, int]:
    """`limit` and `offset` of a list."""
    return _number(request, "limit", 50, 1, most), _number(request, "offset", 0, 0, 100_000)


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text[:9]) < least:
        raise Refusal(INVALID_REQUEST, f"{name} must be a whole number from {least}", details={"field": name})
    return min(int(text[:9]), most)
