"""Reasons of decisions: why a step ran, waits, was skipped or failed. Stored and shown to users unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_NAMES = 5
NEVER_BEGAN = "template_error"  # the code of a step or instance whose input could not be filled in, and its status


@dataclass(frozen=True, slots=True)
class Reason:
    code: str  # for programs
    text: str  # for people


STATE_WORDS = {
    ".": "waits",
    "a": "is active",
    "s": "succeeded",
    "f": "failed",
    "t": "timed out",
    "k": "was skipped",
    "c": "was cancelled",
}
WISH_WORDS = {"success": "to succeed", "failure": "to fail", "skipped": "to be skipped", "complete": "to end"}


def unmet(parent: str, condition: str, letter: str) -> Reason:
    return Reason("unmet", f"needs {parent} {WISH_WORDS[condition]}, but it {STATE_WORDS[letter]}")


def unhandled(steps: Sequence[str]) -> Reason:
    """Return the reason of a failed run: these steps failed and no step handled it."""
    shown = [*steps[:MOST_NAMES], f"{len(steps) - MOST_NAMES} more"] if len(steps) > MOST_NAMES + 1 else steps
    names = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
    return Reason("unhandled", f"{'step' if len(steps) == 1 else 'steps'} {names} failed and no step handled it")


EXPIRED = Reason("expired", "the run exceeded its max_duration")
NO_CALLBACK = Reason("timeout", "no callback arrived in time")
NONE_MET = Reason("unmet", "none of its edges was met")
EMPTY = Reason("empty", "there was nothing to fan out over")
