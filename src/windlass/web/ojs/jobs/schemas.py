"""The schema registry: what the arguments of job types must look like."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.schema import mode_of
from windlass.engine.jobs import schemas as job_schemas
from windlass.engine.jobs.schemas import JobSchema
from windlass.errors import NotFound
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.paging import pagination
from windlass.web.ojs.responses import PREFIX, answer, instant


async def put(request: Request) -> Response:
    body = await bodies.object_(request)
    return await _register(request, request.path_params["type"], request.path_params["version"], body)


async def post(request: Request) -> Response:
    body = await bodies.object_(request)
    name = "job_type" if "job_type" in body else "type"
    type_, version = bodies.text(body, name, required=True), bodies.text(body, "version", required=True)
    assert type_ is not None
    assert version is not None
    return await _register(request, type_, version, body)


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    found = await job_schemas.list_(await dependencies.db(request))
    listed = [shown(one) for one in found[offset : offset + limit]]
    return answer(request, {"schemas": listed, "pagination": pagination(len(listed), len(found), limit, offset)})


async def latest(request: Request) -> Response:
    return _one(request, await _found(request, request.path_params["type"]))


async def get(request: Request) -> Response:
    type_, version = request.path_params["type"], request.path_params["version"]
    return _one(request, await job_schemas.get(await dependencies.db(request), type_, version))


async def versions(request: Request) -> Response:
    found = await job_schemas.versions(await dependencies.db(request), request.path_params["type"])
    if not found:
        raise NotFound("schema of", ascii(request.path_params["type"]))
    listed = [
        {"version": one.version, "created_at": instant(one.created_at), "is_latest": n == 0}
        for n, one in enumerate(found)
    ]
    return answer(request, {"job_type": found[0].type, "versions": listed, "count": len(listed)})


async def remove(request: Request) -> Response:
    type_, version = request.path_params["type"], request.path_params["version"]
    await job_schemas.remove(await dependencies.db(request), type_, version)
    return await _removed(request, type_, version)


async def remove_named(request: Request) -> Response:
    """By its URI, as the published SDKs say it."""
    found = await _found(request, request.path_params["type"])
    await job_schemas.remove(await dependencies.db(request), found.type, found.version)
    return await _removed(request, found.type, found.version)


async def _register(request: Request, type_: str, version: str, body: dict[str, Any]) -> Response:
    document = body.get("schema", body.get("args_schema"))
    if document is None:
        raise Refusal(INVALID_REQUEST, "schema is missing: send a JSON Schema", details={"field": "schema"})
    uri, mode = bodies.text(body, "uri"), mode_of(body.get("mode", body.get("validation_mode")))
    made = await job_schemas.register(await dependencies.db(request), type_, version, document, uri=uri, mode=mode)
    (await dependencies.remote_jobs(request)).admission.forget()
    return _one(request, made, status=201)


async def _found(request: Request, name: str) -> JobSchema:
    """The latest of a type, or the one with this URI."""
    db = await dependencies.db(request)
    try:
        return await job_schemas.get(db, name)
    except NotFound:
        for one in await job_schemas.list_(db):
            if one.uri == name:
                return one
        raise


async def _removed(request: Request, type_: str, version: str) -> Response:
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, {"deleted": True, "job_type": type_, "version": version})


def shown(found: JobSchema) -> dict[str, Any]:
    told: dict[str, Any] = {
        "job_type": found.type,
        "type": found.type,
        "version": found.version,
        "schema": found.document,
        "args_schema": found.document,
        "mode": found.mode.value,
        "created_at": instant(found.created_at),
    }
    return told | ({"uri": found.uri} if found.uri else {})


def _one(request: Request, found: JobSchema, *, status: int = 200) -> Response:
    """Operators read it bare, producers under its name: the two texts of the spec differ."""
    told = shown(found)
    is_admin = request.url.path.startswith(f"{PREFIX}{ADMIN}/")
    return answer(request, told if is_admin else {"schema": told}, status=status)


ADMIN = "/admin/schemas"
ROUTES = [
    *(
        route
        for path in (ADMIN, "/schemas")
        for route in (
            Route(path, list_, methods=["GET"]),
            Route(path, post, methods=["POST"]),
            Route(f"{path}/{{type}}/versions", versions, methods=["GET"]),
            Route(f"{path}/{{type}}/latest", latest, methods=["GET"]),
            Route(f"{path}/{{type}}/{{version}}", put, methods=["PUT"]),
            Route(f"{path}/{{type}}/{{version}}", get, methods=["GET"]),
            Route(f"{path}/{{type}}/{{version}}", remove, methods=["DELETE"]),
        )
    ),
    Route(f"{ADMIN}/{{type}}", latest, methods=["GET"]),
    Route("/schemas/{type:path}", latest, methods=["GET"]),
    Route("/schemas/{type:path}", remove_named, methods=["DELETE"]),
]
