"""Handlers of our own step types: HTTP requests, and commands where they are allowed."""

from datetime import timedelta
from typing import Any

from windlass.core.outcome import Outcome
from windlass.core.payload import HTTP_TYPE, OWN_QUEUE
from windlass.effects.context import Context
from windlass.effects.handlers import Handler
from windlass.effects.http import Http, HttpRequest
from windlass.effects.tracing import traceparent

HTTP_TIMEOUT = timedelta(seconds=30)


def http_handler(http: Http) -> Handler:
    async def request(ctx: Context, payload: Any) -> Outcome:
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
