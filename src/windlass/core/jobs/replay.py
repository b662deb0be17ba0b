"""Matches the durable calls of an attempt with those that earlier attempts recorded.

A handler that was suspended, retried or killed is run again from its beginning. A durable call (`ctx.step`,
`ctx.sleep`, ...) whose result is recorded returns that result. Calls are matched by name and occurrence: the second
call of `pack` is `pack#2`.

A call also has a position (`place`): its index in the sequence of calls that the handler itself makes. Calls in tasks
or threads that the handler has started have none, because their order may change. A new call at or after the position
of a recorded call that was not made means that the code has changed: `Mismatch`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from windlass.errors import NonRetryable


class CallKind(StrEnum):
    STEP = "step"
    SLEEP = "sleep"
    WAIT = "wait"  # for a message
    RUN = "run"  # of a workflow
    NOW = "now"


class Recorded(NamedTuple):
    """A durable call of an earlier attempt."""

    name: str  # with the occurrence
    kind: str
    place: int | None
    value: Any
    waits: bool  # the call has not ended, or it is a sleep
    over: bool  # its time has passed


class NewRecord(NamedTuple):
    """A durable call to record."""

    name: str
    kind: str
    place: int | None
    value: str = "null"  # JSON
    waits: bool = False
    delay: timedelta | None = None  # duration of the wait; None: no wait, or one without a limit


class MessageWait(NamedTuple):
    """A call that starts to wait for messages."""

    place: str  # the name of the call
    name: str
    key: str
    is_signal: bool
    number: int  # of messages


class Call(NamedTuple):
    """A durable call of this attempt, with its record from an earlier attempt, if any."""

    name: str
    kind: CallKind
    place: int | None
    recorded: Recorded | None

    def record(self, value: str = "null", *, waits: bool = False, delay: timedelta | None = None) -> NewRecord:
        return NewRecord(self.name, self.kind, self.place, value, waits, delay)


class Mismatch(NonRetryable):
    """The code of a handler has changed, so that it no longer matches the recorded calls."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The attempt ended because the handler waits. No failure is charged."""

    waits: Sequence[str]  # names of the calls that it waits in
    records: Sequence[NewRecord] = ()  # calls that are not recorded yet
    messages: Sequence[MessageWait] = ()


class Replay:
    """The recorded calls of a job, and which of them this attempt has made."""

    def __init__(self, recorded: Sequence[Recorded] = ()) -> None:
        self._recorded = {row.name: row for row in recorded}
        self._ahead = {row.place: row.name for row in recorded if row.place is not None}  # recorded calls not made yet
        self._count: Counter[str] = Counter()
        self._place = 0
        self._is_new = False

    @property
    def is_behind(self) -> bool:
        """Whether the attempt is still repeating recorded calls and has made no new one."""
        return bool(self._ahead) and not self._is_new

    def call(self, name: str, kind: CallKind, *, in_order: bool) -> Call:
        """Return the next call with this name. `in_order`: the handler itself makes it, not one of its tasks."""
        self._count[name] += 1
        count, place = self._count[name], None
        full = name if count == 1 else f"{name}#{count}"
        if in_order:
            place, self._place = self._place, self._place + 1
        row = self._recorded.get(full)
        if row is not None and row.kind == kind:
            if row.place is not None:
                self._ahead.pop(row.place, None)
            return Call(full, kind, place, row)
        if row is not None:
            raise Mismatch(_mismatch(f"{kind} {full!r}", f"{row.kind} {row.name!r}"))
        if place is not None and self._ahead and (expected := min(self._ahead)) <= place:
            missed = self._recorded[self._ahead[expected]]
            raise Mismatch(_mismatch(f"{kind} {full!r}", f"{missed.kind} {missed.name!r}"))
        self._is_new = True
        return Call(full, kind, place, None)


def _mismatch(reached: str, expected: str) -> str:
    return (
        f"the handler reached {reached}, but an earlier attempt recorded {expected} there: the code has changed. "
        f"Put {expected} back; or start the job over without its recorded calls (windlass jobs retry --fresh ID); "
        "or give the changed handler a new type, such as .v2, and let the old one finish"
    )
