"""Inserts the values of secrets into the payload of an attempt, and masks them in its outcome."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import decode, encode
from windlass.core.redaction import Redaction
from windlass.core.workflows.step_payload import reveal as revealed
from windlass.core.workflows.step_payload import secrets_of
from windlass.effects.context import Context
from windlass.effects.outcomes import failed
from windlass.errors import Invalid, TemplateError


async def reveal(ctx: Context, payload: dict[str, Any]) -> dict[str, Any] | Failed:
    """Return the payload with the values of its secrets, or the failure of the attempt if one does not exist.

    From then on the context masks the values in log lines, progress and the stream.
    """
    names = secrets_of(payload)
    if not names:
        return payload
    values = await ctx._context_data.secrets(ctx.org, names) if ctx._context_data is not None else {}
    for name in names:
        if name not in values:
            message = f"secret {name} does not exist any more: create it again, then retry"
            return Failed({"type": "SecretMissing", "message": message}, retryable=False)
    ctx._redaction = Redaction(values)
    try:
        return revealed(payload, values)
    except TemplateError as error:
        return failed(error, retryable=False, trace=False)


def masked(ctx: Context, outcome: Outcome, *, ours: Collection[str] = ()) -> Outcome:
    """Return the outcome with the secrets of the attempt masked in its result and its error.

    `ours` are keys of the result that Windlass sets itself: they cannot contain a secret and are not masked.
    """
    if (redaction := ctx._redaction) is None:
        return outcome
    try:
        match outcome:
            case Succeeded(result):
                return Succeeded(_masked_result(redaction, result, ours))
            case Failed(error, result=result):
                kept = None if result is None else _masked_result(redaction, result, ours)
                return replace(outcome, error=redaction.json(error), result=kept)
            case _:
                return outcome
    except Invalid as error:  # a mask may be longer than the value, and the result now too large
        return failed(error, retryable=False, trace=False)


def _masked_result(redaction: Redaction, result: str, ours: Collection[str]) -> str:
    value = decode(result)
    own = {key: value[key] for key in ours} if isinstance(value, dict) else {}
    value = redaction.json(value)
    return encode({**value, **own} if own else value, field="result", limit=MAX_OUTPUT)
