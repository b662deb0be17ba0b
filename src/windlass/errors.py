"""The exceptions that Windlass raises. A message says what is wrong, where, and how to fix it.

    WindlassError
      Invalid            an argument or a document is invalid  -> 422
        InvalidCron      a cron expression cannot be parsed
        InvalidExpression  an `if` or a template cannot be parsed
        InvalidWorkflow  a definition has errors; lists all
        TemplateError    a template has no value in this run
      NotFound           no such job, run, schedule            -> 404
      Conflict           not possible in the current state     -> 409
        Duplicate        a job with this id or unique key exists
        LeaseLost        the attempt no longer holds its job
        MasterKeyRequired  a value cannot be sealed or opened
      Gone               the object existed and has ended      -> 410
      Refused            the request is not authenticated      -> 401
        LoginRefused     a person may not log in to the dashboard
      Forbidden          the caller lacks a scope              -> 403
      QuotaExceeded      the org's plan does not allow this    -> 429, 402
      Unavailable        the database cannot be used now       -> 503
        Locked           another session holds a row lock
        ServerUnreachable  a client got no answer

A handler's failure is not one of them: it is an `Outcome`. A handler raises `NonRetryable` or `RetryAfter` to control
that outcome. `ctx.wait_for` raises `WaitTimeout`.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class WindlassError(Exception):
    """The base class of all errors."""


class Invalid(WindlassError):
    """An argument or a document is invalid. `field` names the argument; `errors` has a (field, message) for each
    error."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.errors = [(field, message)] if field is not None else []


class InvalidCron(Invalid):
    """A cron expression that cannot be parsed."""


class InvalidExpression(Invalid):
    """An `if` or a template that cannot be parsed. `column` counts from 1."""

    def __init__(self, problem: str, *, column: int) -> None:
        super().__init__(f"column {column}: {problem}")
        self.problem, self.column = problem, column


class TemplateError(Invalid):
    """A template that has no value in this run, or whose value is not allowed there. `path` is its path."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class InvalidWorkflow(Invalid):
    """An invalid definition. `errors` has all errors: (path, message)."""

    def __init__(self, errors: Iterable[tuple[str, str]]) -> None:
        mistakes = list(errors)
        lines = [f"{path}: {message}" if path else message for path, message in mistakes]
        head = [f"the workflow has {len(lines)} errors:"] if len(lines) > 1 else []
        super().__init__("\n  ".join(head + lines), field=mistakes[0][0] if mistakes else None)
        self.errors = mistakes


class NotFound(WindlassError):
    """The object does not exist. `hint` names the likely cause or a fix."""

    def __init__(self, what: str, key: object, *, hint: str | None = None) -> None:
        super().__init__(f"no {what} {key}" + (f": {hint}" if hint else ""))
        self.what, self.key, self.hint = what, key, hint


class Conflict(WindlassError):
    """The object exists, but its state does not allow this."""


class LeaseLost(Conflict):
    """An attempt reports on a job that it no longer holds; the report is discarded."""

    def __init__(self, job: object) -> None:
        super().__init__(f"job {job} is no longer held by this attempt: its lease was lost, or the job was cancelled")


class MasterKeyRequired(Conflict):
    """WINDLASS_MASTER_KEY is not set, or lacks the key that opens a sealed value. `key` is the id of that key."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class Duplicate(Conflict):
    """A job with this id or unique key exists. `existing` is its id."""

    def __init__(self, message: str, *, existing: object) -> None:
        super().__init__(message)
        self.existing = existing


class Gone(WindlassError):
    """The object existed and has ended, so it no longer accepts the request."""


class Refused(WindlassError):
    """The request is not authenticated."""


class LoginRefused(Refused):
    """A login with OpenID Connect is refused. `reason` is the code that the login page explains; `email` is the address
    that may not log in, if that is the reason."""

    def __init__(self, message: str, *, reason: str, email: str | None = None) -> None:
        super().__init__(message)
        self.reason, self.email = reason, email


class Forbidden(WindlassError):
    """The caller may not do this. `scope` is the scope that the key or the session lacks, if that is the reason."""

    def __init__(self, message: str, *, scope: str | None = None) -> None:
        super().__init__(message)
        self.scope = scope


class QuotaExceeded(WindlassError):
    """The plan of the org does not allow the call, or not at this time. `code` is the name of the limit, `limit` its
    value and `used` the usage that counts against it. `resets_at` is the time at which the count is reset,
    `retry_after` the number of seconds after which the same call may succeed; None if waiting does not help."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        limit: int,
        used: int,
        resets_at: datetime | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.limit, self.used = code, limit, used
        self.resets_at, self.retry_after = resets_at, retry_after


class Unavailable(WindlassError):
    """The database or another dependency did not answer, or refuses to write: the same call may succeed later.

    `recovered`, if known, is set when a retry may succeed."""

    def __init__(self, message: str, *, recovered: "asyncio.Event | None" = None) -> None:
        super().__init__(message)
        self.recovered = recovered


class ServerUnreachable(Unavailable):
    """A client got no answer from the server."""


class Locked(Unavailable):
    """Another session has held a lock on a row for too long. Only calls that need that row are affected."""


class NonRetryable(WindlassError):
    """Raised by a handler: fail the job now, even if attempts are left."""


class RetryAfter(WindlassError):
    """Raised by a handler: this attempt failed, try again after `delay` instead of the policy's backoff."""

    def __init__(self, delay: timedelta | float, message: str = "retry later") -> None:
        super().__init__(message)
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)


class WaitTimeout(WindlassError):
    """Raised in a handler: the message that it waited for did not arrive in time."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no message {name!r} arrived in time")
        self.name = name
