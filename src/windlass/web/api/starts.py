"""Starts runs: /trigger takes the input as its body, /runs an object with the input and options."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WithJsonSchema

from windlass.app import Windlass
from windlass.core import duration
from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine.database import Tenant, new_ids
from windlass.engine.jobs import submit
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.start import RunSpec
from windlass.engine.views import runs as views
from windlass.errors import Conflict, Invalid
from windlass.schemas.runs import NewRun, WaitedRun
from windlass.web.api import bodies
from windlass.web.api.shared import Data, Ref, Starting, app_of, plain, problems, workflow_name

router = APIRouter(prefix="/workflows", tags=["runs"])

MAX_WAIT = 60
MAX_KEY = 1024
WAIT = "Seconds to wait for the run to end; the response is the run with its output."
KEY = "A key that was used before returns 200 with its run or job."
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=MAX_KEY, description=KEY)]
# `_options` reads these parameters: declared on the routes, they would cost FastAPI a tenth of the time of a start.
_WAIT: TypeAdapter[float | None] = TypeAdapter(Annotated[float, Field(ge=0, le=MAX_WAIT)] | None)
_KEY: TypeAdapter[str | None] = TypeAdapter(Annotated[str, Field(max_length=MAX_KEY)] | None)
PARAMETERS: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": place, "required": False, "description": text, "schema": rule.json_schema()}
        for name, place, text, rule in (("wait", "query", WAIT, _WAIT), ("Idempotency-Key", "header", KEY, _KEY))
    ]
}
PAYLOAD: dict[str, Any] = {
    **PARAMETERS,
    "requestBody": {
        "description": "The input of the run: any JSON value. An empty body is the same as {}.",
        "content": {"application/json": {"schema": {}, "example": {"order_id": 123, "email": "alice@example.com"}}},
    },
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": Data[NewRun] | Data[WaitedRun], "description": "The key was used before."},
    **problems(404, 409, 413, 422),
}


def _span(value: object) -> timedelta | None:
    try:
        if isinstance(value, str):
            return duration.parse(value, field="it")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return submit.as_timedelta(value, "it")
    except Invalid as error:
        raise ValueError(str(error)) from None
    raise ValueError("it must be a string such as 1h30m, or a number of seconds")


Span = Annotated[
    timedelta,
    BeforeValidator(_span),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}], "examples": ["1h30m", 90]}),
]


class Order(bodies.RequestBody):
    """The input and options of a run. `max_duration` is a string such as 1h30m, or a number of seconds."""

    input: Any = None
    labels: dict[str, str] = Field(default={})
    idempotency_key: str | None = None
    max_duration: Span | None = None

    @classmethod
    def unknown(cls) -> str:
        return 'the payload goes into `input`, for example {"input": {...}}; or post it to /trigger as it is'


ORDER = PARAMETERS | bodies.described(
    Order, {"input": {"order_id": 123}, "labels": {"team": "shop"}, "max_duration": "1h"}
)


@router.post(
    "/{ref}/trigger",
    summary="Trigger a workflow",
    status_code=201,
    openapi_extra=PAYLOAD,
    responses=ANSWERS,
)
async def trigger(db: Starting, ref: Ref, request: Request, response: Response) -> Data[NewRun] | Data[WaitedRun]:
    """Start a run with the body as its input."""
    key, wait = _options(request)
    payload = await bodies.value(request, limit=PAYLOAD_LIMIT, default={})
    spec = RunSpec(id=new_ids(1)[0], input=payload, idempotency_key=key, api_headers=request.headers)
    return await _start(app_of(request), db, ref, spec, wait, response)


@router.post("/{ref}/runs", summary="Start a run", status_code=201, openapi_extra=ORDER, responses=ANSWERS)
async def start(db: Starting, ref: Ref, request: Request, response: Response) -> Data[NewRun] | Data[WaitedRun]:
    """Start a run with an input, labels, an idempotency key and a time limit."""
    key, wait = _options(request)
    order = await bodies.model(request, Order, limit=PAYLOAD_LIMIT + bodies.ROOM)
    spec = RunSpec(
        id=new_ids(1)[0],
        input=order.input if "input" in order.model_fields_set else {},
        labels=order.labels,
        idempotency_key=idempotency_key_of(key, order.idempotency_key),
        max_duration=order.max_duration,
        api_headers=request.headers,
    )
    return await _start(app_of(request), db, ref, spec, wait, response)


def _options(request: Request) -> tuple[str | None, float | None]:
    """Return the idempotency key of a request and the seconds to wait; raise FastAPI's error for an invalid value."""
    key = request.headers.get("idempotency-key")
    wait = request.query_params.get("wait") if request.scope["query_string"] else None
    if wait is None and (key is None or len(key) <= MAX_KEY):
        return key, None
    values, errors = list[Any](), list[Any]()
    for place, rule, value in ((("query", "wait"), _WAIT, wait), (("header", "Idempotency-Key"), _KEY, key)):
        try:
            values.append(rule.validate_python(value))
        except ValidationError as error:
            errors += [{**item, "loc": place} for item in error.errors(include_url=False, include_input=False)]
    if errors:
        raise RequestValidationError(errors)
    return key, values[0]


def idempotency_key_of(header: str | None, body: str | None) -> str | None:
    """Return the idempotency key of a request, which may be in its header, in its body, or the same in both."""
    if header is not None and body not in (None, header):
        raise Invalid("idempotency_key differs from the header Idempotency-Key", field="idempotency_key")
    return header if body is None else body


async def _start(
    app: Windlass, db: Tenant, ref: str, spec: RunSpec, wait: float | None, response: Response
) -> Data[NewRun] | Data[WaitedRun]:
    run, started = await app.start_for(db, await workflow_name(db, ref), spec)
    row = None
    if run.id != spec.id:  # a run with this key exists
        row = await runs.get(db, run.id)
        if row.input != spec.input:
            raise Conflict(f"idempotency_key {spec.idempotency_key!r} belongs to run {run.id}, which has another input")
        response.status_code = 200
    if wait is None and started.inserted is not None:
        return Data(views.inserted(started.workflow_id, started.inserted))
    if wait is None:
        return Data(views.started(row or await runs.get(db, run.id)))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait):
            await run.ended()
    account = await inspect.snapshot(db, run.id, answers=True)
    output = None
    if not account.is_live:
        with contextlib.suppress(Conflict):  # a list in the output is too long
            output = plain(await runs.output(db, run.id))
    return Data(views.waited(account, output))
