"""Handlers of the built-in step types: HTTP requests, and commands where they are allowed.

They run only jobs that the engine created for such a step. A job of these types written by plain SQL is refused here,
even if the database has accepted it.
"""

from datetime import timedelta
from typing import Any

from windlass.core.jobs.job import Failed, Outcome
from windlass.core.workflows.step import CommandAction, HttpAction
from windlass.core.workflows.step_payload import COMMAND_TYPE, HTTP_TYPE, OWN_QUEUE
from windlass.effects.command.step import CommandRequest, Commands
from windlass.effects.context import Context
from windlass.effects.handlers import Handler
from windlass.effects.http.step import Http, HttpRequest
from windlass.effects.tracing import traceparent

HTTP_TIMEOUT = timedelta(seconds=30)


def _foreign(type_: str, key: str) -> Failed:
    message = f"{type_} is reserved for `{key}` steps of workflows, and this job is not one: publish a workflow instead"
    return Failed({"type": "Reserved", "message": message}, retryable=False)


def http_handler(http: Http) -> Handler:
    async def request(ctx: Context, payload: Any) -> Outcome:
        if ctx.queue != OWN_QUEUE or not isinstance(ctx._action, HttpAction):
            return _foreign(HTTP_TYPE, "url")
        wanted = HttpRequest(
            **payload,
            timeout=ctx.timeout or HTTP_TIMEOUT,
            idempotency_key=ctx.idempotency_key,
            fence=ctx.fence,
            attempt=ctx.attempt,
            run_id=ctx.run_id or ctx.id,
            traceparent=traceparent(),
        )
        return await http.perform(wanted)

    return Handler.of(HTTP_TYPE, request, queue=OWN_QUEUE, keeps_time=True, wants_upstream=False)


def command_handler(commands: Commands) -> Handler:
    async def command(ctx: Context, payload: Any) -> Outcome:
        if ctx.queue != OWN_QUEUE or not isinstance(ctx._action, CommandAction):
            return _foreign(COMMAND_TYPE, "run")
        if payload["runs_on"] != "local":
            told = f"runs_on: {payload['runs_on']} needs a launcher, and this worker has none: use local"
            return Failed({"type": "NoLauncher", "message": told}, retryable=False)
        wanted = CommandRequest(
            run=payload["run"],
            values=payload.get("values", {}),
            input=payload["input"],
            run_id=ctx.run_id or ctx.id,
            workflow=ctx.workflow or "",
            step=ctx.step_name or "",
            attempt=ctx.attempt,
            fence=ctx.fence,
            index=ctx.index or 0,
            count=1 if ctx.count is None else ctx.count,
            timeout=ctx.timeout,
        )
        return await commands.perform(wanted, ctx.keep)

    return Handler.of(COMMAND_TYPE, command, queue=OWN_QUEUE, keeps_time=True, wants_upstream=False)
