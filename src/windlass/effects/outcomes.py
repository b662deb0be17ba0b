"""Builds the outcomes of attempts that did not succeed."""

import traceback
from datetime import timedelta

from windlass.core.jobs.job import Failed
from windlass.core.json_value import plain
from windlass.errors import Invalid

MAX_TRACE = 16_384  # characters


def failed(
    error: BaseException, *, retryable: bool = True, retry_after: timedelta | None = None, trace: bool = True
) -> Failed:
    document = {"type": type(error).__name__, "message": plain(message_of(error)) or type(error).__name__}
    if isinstance(error, Invalid) and error.field is not None:
        document["field"] = plain(error.field)
    if trace:
        document["traceback"] = plain("".join(traceback.format_exception(error))[-MAX_TRACE:])
    return Failed(document, retryable, retry_after)


def message_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TRACE]
    except Exception:  # `__str__` of an error class may raise
        return ""


def timed_out(after: timedelta) -> Failed:
    return Failed({"type": "Timeout", "message": f"timed out after {after.total_seconds():g} s"})
