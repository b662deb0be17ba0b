"""The schema registry: JSON Schemas for the arguments of job types."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.spec import schema_mode
from windlass.core.orgs import Scope
from windlass.engine.jobs import schemas as job_schemas
from windlass.engine.jobs.schemas import JobSchema
from windlass.errors import Invalid, NotFound
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import PREFIX, answer, instant, pagination
from windlass.web.ojs.routing import Route


async def put(request: Request) -> Response:
    body = await dependencies.body(request)
    return await _register(request, request.path_params["type"], request.path_params["version"], body)


async def post(request: Request) -> Response:
    body = await dependencies.body(request)
    name = "job_type" if "job_type" in body else "type"
    return await _register(request, dependencies.required(body, name), dependencies.required(body, "version"), body)


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    schemas = await job_schemas.list_(await dependencies.db(request))
    listed = [_shown(schema) for schema in schemas[offset : offset + limit]]
    return answer(request, {"schemas": listed, "pagination": pagination(len(listed), len(schemas), limit, offset)})


async def latest(request: Request) -> Response:
    return _answer(request, await _find(request, request.path_params["type"]))


async def get(request: Request) -> Response:
    type_, version = request.path_params["type"], request.path_params["version"]
    return _answer(request, await job_schemas.get(await dependencies.db(request), type_, version))


async def versions(request: Request) -> Response:
    schemas = await job_schemas.versions(await dependencies.db(request), request.path_params["type"])
    if not schemas:
        raise NotFound("schema of", ascii(request.path_params["type"]))
    listed = [
        {"version": schema.version, "created_at": instant(schema.created_at), "is_latest": n == 0}
        for n, schema in enumerate(schemas)
    ]
    return answer(request, {"job_type": schemas[0].type, "versions": listed, "count": len(listed)})


async def remove(request: Request) -> Response:
    return await _remove(request, request.path_params["type"], request.path_params["version"])


async def remove_named(request: Request) -> Response:
    """Remove a schema by its URI, as the published SDKs do."""
    schema = await _find(request, request.path_params["type"])
    return await _remove(request, schema.type, schema.version)


async def _register(request: Request, type_: str, version: str, body: dict[str, Any]) -> Response:
    document = body.get("schema", body.get("args_schema"))
    if document is None:
        raise Invalid("schema is missing: send a JSON Schema", field="schema")
    uri, mode = dependencies.string(body, "uri"), schema_mode(body.get("mode", body.get("validation_mode")))
    made = await job_schemas.register(await dependencies.db(request), type_, version, document, uri=uri, mode=mode)
    (await dependencies.remote_jobs(request)).admission.forget()
    return _answer(request, made, status=201)


async def _remove(request: Request, type_: str, version: str) -> Response:
    await job_schemas.remove(await dependencies.db(request), type_, version)
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, {"deleted": True, "job_type": type_, "version": version})


async def _find(request: Request, name: str) -> JobSchema:
    """Return the latest schema of a type, or the schema with this URI."""
    db = await dependencies.db(request)
    try:
        return await job_schemas.get(db, name)
    except NotFound:
        for schema in await job_schemas.list_(db):
            if schema.uri == name:
                return schema
        raise


def _shown(schema: JobSchema) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "job_type": schema.type,
        "type": schema.type,
        "version": schema.version,
        "schema": schema.document,
        "args_schema": schema.document,
        "mode": schema.mode.value,
        "created_at": instant(schema.created_at),
    }
    return fields | ({"uri": schema.uri} if schema.uri else {})


def _answer(request: Request, schema: JobSchema, *, status: int = 200) -> Response:
    """Return the schema itself below /admin, else in an object: the two documents of the spec differ."""
    is_admin = request.url.path.startswith(f"{PREFIX}{ADMIN}/")
    return answer(request, _shown(schema) if is_admin else {"schema": _shown(schema)}, status=status)


ADMIN = "/admin/schemas"
ROUTES = [
    *(
        route
        for path in (ADMIN, "/schemas")
        for route in (
            Route(path, list_, methods=["GET"], needs=Scope.READ),
            Route(path, post, methods=["POST"], needs=Scope.DEPLOY),
            Route(f"{path}/{{type}}/versions", versions, methods=["GET"], needs=Scope.READ),
            Route(f"{path}/{{type}}/latest", latest, methods=["GET"], needs=Scope.READ),
            Route(f"{path}/{{type}}/{{version}}", put, methods=["PUT"], needs=Scope.DEPLOY),
            Route(f"{path}/{{type}}/{{version}}", get, methods=["GET"], needs=Scope.READ),
            Route(f"{path}/{{type}}/{{version}}", remove, methods=["DELETE"], needs=Scope.DEPLOY),
        )
    ),
    Route(f"{ADMIN}/{{type}}", latest, methods=["GET"], needs=Scope.READ),
    Route("/schemas/{type:path}", latest, methods=["GET"], needs=Scope.READ),
    Route("/schemas/{type:path}", remove_named, methods=["DELETE"], needs=Scope.DEPLOY),
]
