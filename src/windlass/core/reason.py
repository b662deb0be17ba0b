"""Why a step ran, waits, was skipped or failed: kept with every decision, told to people as it stands."""

from dataclasses import dataclass


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


NONE_MET = Reason("unmet", "none of its edges was met")
EMPTY = Reason("empty", "there was nothing to fan out over")
