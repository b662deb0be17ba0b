"""Retry policies: the delay after the n-th charged failure. The random number is an argument, so the rule is pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from windlass.errors import Invalid

MAX_DELAY = timedelta(days=366).total_seconds()


class Backoff(StrEnum):
    CONSTANT = "constant"  # base
    LINEAR = "linear"  # base * n
    EXPONENTIAL = "exponential"  # base * factor ** (n - 1)
    POLYNOMIAL = "polynomial"  # base * n ** factor


@dataclass(frozen=True, slots=True)
class Retry:
    """A backoff policy. `jitter` is the share of the delay that may be added on top, 0.1 meaning up to 10 %."""

    kind: Backoff = Backoff.EXPONENTIAL
    base: float = 1.0
    factor: float = 2.0
    cap: float | None = None
    jitter: float = 0.1
    both_ways: bool = False  # jitter may also shorten the delay; the cap then applies after jitter
    non_retryable: tuple[str, ...] = ()  # error types that are final; `auth.*` matches all that begin with `auth.`
    dead_letter: bool = False  # a job that fails permanently becomes a dead letter

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _backoff(self.kind))
        _check(_is_number(self.base) and self.base >= 0, "retry.base", "0 or more seconds", self.base)
        _check(_is_number(self.factor) and self.factor > 0, "retry.factor", "greater than 0", self.factor)
        capped = self.cap is None or (_is_number(self.cap) and self.cap >= 0)
        _check(capped, "retry.cap", "0 or more seconds, or null", self.cap)
        _check(_is_number(self.jitter) and 0 <= self.jitter <= 1, "retry.jitter", "between 0 and 1", self.jitter)
        object.__setattr__(self, "non_retryable", _patterns(self.non_retryable))
        for name, value in (("both_ways", self.both_ways), ("dead_letter", self.dead_letter)):
            _check(isinstance(value, bool), f"retry.{name}", "true or false", value)

    def delay(self, failures: int, roll: float) -> timedelta:
        """Return the delay after `failures` charged failures (1 or more). `roll` is a random number in [0, 1)."""
        cap = MAX_DELAY if self.cap is None else min(self.cap, MAX_DELAY)
        seconds = min(self._seconds(failures), cap)
        if self.both_ways:
            return timedelta(seconds=min(seconds * (1 + self.jitter * (2 * roll - 1)), cap))
        return timedelta(seconds=seconds * (1 + self.jitter * roll))

    def is_final(self, *names: str | None) -> bool:
        """Return whether an error with one of these names must not be retried."""
        return any(matches(pattern, name) for pattern in self.non_retryable for name in names if name)

    def _seconds(self, n: int) -> float:
        try:
            match self.kind:
                case Backoff.CONSTANT:
                    return self.base
                case Backoff.LINEAR:
                    return self.base * n
                case Backoff.EXPONENTIAL:
                    return self.base * math.pow(self.factor, n - 1)
                case Backoff.POLYNOMIAL:
                    return self.base * math.pow(n, self.factor)
        except OverflowError:
            return MAX_DELAY if self.base else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the stored form. Every row with a policy has a copy, so rarely used fields are omitted if unset."""
        document: dict[str, Any] = {name: getattr(self, name) for name in ("kind", "base", "factor", "cap", "jitter")}
        rare = {"both_ways": self.both_ways, "non_retryable": self.non_retryable, "dead_letter": self.dead_letter}
        return document | {name: value for name, value in rare.items() if value}

    @classmethod
    def from_json(cls, policy: Mapping[str, Any]) -> Self:
        if not isinstance(policy, Mapping):
            raise Invalid(f"retry is {policy!r}: it must be an object", field="retry")
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(policy) - set(names))
        if unknown:
            raise Invalid(f"retry has no field {unknown[0]!r}: {', '.join(names)}", field="retry")
        return cls(**policy)


def _backoff(kind: str) -> Backoff:
    try:
        return Backoff(kind)
    except ValueError:
        raise Invalid(f"retry.kind is {kind!r}: one of {', '.join(Backoff)}", field="retry.kind") from None


def _patterns(value: Any) -> tuple[str, ...]:
    patterns = (
        tuple(item for item in value if isinstance(item, str) and item) if isinstance(value, list | tuple) else None
    )
    _check(patterns is not None and len(patterns) == len(value), "retry.non_retryable", "a list of error types", value)
    return patterns or ()


def matches(pattern: str, name: str) -> bool:
    """Return whether the pattern is the name; `auth.*` matches all names that begin with `auth.`."""
    return name.startswith(pattern[:-1]) if pattern.endswith(".*") else name == pattern


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _check(holds: bool, field: str, rule: str, value: object) -> None:
    if not holds:
        raise Invalid(f"{field} is {value!r}: it must be {rule}", field=field)


# The default of the SQL contract: failures squared, in minutes, plus up to a tenth.
SQUARED_MINUTES = Retry(Backoff.POLYNOMIAL, base=60.0, factor=2.0, jitter=0.1)
