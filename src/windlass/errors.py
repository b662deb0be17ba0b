"""Every error Windlass raises on purpose. Each builds its own sentence: what is wrong, where, and what to do.

    WindlassError
      Invalid            the caller's words make no sense      -> 422
        InvalidCron      a cron expression that cannot be read
        InvalidExpression  an `if` or a template that cannot be read
        InvalidWorkflow  a definition with mistakes, all of them
        TemplateError    a template that has no value in this run
      NotFound           no such job, run, schedule            -> 404
      Conflict           it exists, but not in that state      -> 409
        Duplicate        a job of this id or unique key exists
        LeaseLost        an attempt whose job is in other hands
      Gone               it was there, and is over             -> 410
      Refused            a signature that does not match       -> 401
      Unavailable        the database cannot be used now       -> 503
        Locked           another session holds a row for long

A handler's failure is not among them: it is an `Outcome`. `NonRetryable` and `RetryAfter` are what a handler raises
to steer that outcome.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta


class WindlassError(Exception):
    """The root of the family: catch this to catch them all."""


class Invalid(WindlassError):
    """The caller's words make no sense. `field` names the argument, so that every surface can point at it; `errors` has
    every (field, message) where more than one thing is wrong."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.errors = [(field, message)] if field is not None else []


class InvalidCron(Invalid):
    """A cron expression that cannot be read."""


class InvalidExpression(Invalid):
    """An `if` or a template that cannot be read. `column` counts from 1; `pointed` is its line with a caret below."""

    def __init__(self, problem: str, *, source: str, column: int, field: str | None = None) -> None:
        super().__init__(f"column {column}: {problem}", field=field)
        self.problem, self.source, self.column = problem, source, column

    @property
    def pointed(self) -> str:
        before = self.source[: self.column - 1]
        start = before.rfind("\n") + 1
        return f"{self.source[start:].partition(chr(10))[0]}\n{' ' * (len(before) - start)}^"


class TemplateError(Invalid):
    """A template that has no value in this run, or one that must not stand where it would. `path` is what was asked."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class InvalidWorkflow(Invalid):
    """A definition that makes no sense. `errors` has every mistake: where it is, and what is wrong there."""

    def __init__(self, errors: Iterable[tuple[str, str]]) -> None:
        found = list(errors)
        lines = [f"{path}: {message}" if path else message for path, message in found]
        head = [f"the workflow has {len(lines)} mistakes:"] if len(lines) > 1 else []
        super().__init__("\n  ".join(head + lines), field=found[0][0] if found else None)
        self.errors = found


class NotFound(WindlassError):
    """There is no such thing. `hint` is what else may have been meant."""

    def __init__(self, what: str, key: object, *, hint: str | None = None) -> None:
        super().__init__(f"no {what} {key}" + (f": {hint}" if hint else ""))
        self.what, self.key, self.hint = what, key, hint


class Conflict(WindlassError):
    """The thing exists, but not in a state that allows this."""


class LeaseLost(Conflict):
    """An attempt speaks for a job that it no longer holds: it ends, and whoever holds the job now decides."""

    def __init__(self, job: object) -> None:
        super().__init__(f"job {job} is in other hands now: this attempt lost its lease, or the job was cancelled")


class Duplicate(Conflict):
    """A job of this id, or with this unique key, exists. `existing` is its id."""

    def __init__(self, message: str, *, existing: object) -> None:
        super().__init__(message)
        self.existing = existing


class Gone(WindlassError):
    """It was there once, and nobody waits for it any more."""


class Refused(WindlassError):
    """Whoever asks could not show that they may."""


class Unavailable(WindlassError):
    """The database (or another thing we depend on) did not answer, or refuses to write: the same call may work later.

    `recovered`, where it is known, is set when it is worth another try."""

    def __init__(self, message: str, *, recovered: asyncio.Event | None = None) -> None:
        super().__init__(message)
        self.recovered = recovered


class Locked(Unavailable):
    """Another session has held a lock on a row for too long. Only what needs that row has to wait."""


class NonRetryable(WindlassError):
    """Raised by a handler: fail the job now, whatever attempts are left."""


class RetryAfter(WindlassError):
    """Raised by a handler: this attempt failed, try again after `delay` instead of the policy's backoff."""

    def __init__(self, delay: timedelta | float, message: str = "asked to be retried later") -> None:
        super().__init__(message)
        self.delay = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
