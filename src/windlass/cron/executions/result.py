"""The result of a job in an execution, and which edge conditions it meets."""

from enum import StrEnum

from windlass.core.runs.edges import MEETS
from windlass.core.runs.run import Letter
from windlass.core.workflows.step import Condition
from windlass.cron.errors import InvalidCondition


class JobResult(StrEnum):
    PENDING = "pending"  # not decided yet, or running
    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"

    @property
    def terminal(self) -> bool:
        return self is not JobResult.PENDING


LETTERS = {
    JobResult.PENDING: Letter.WAITING,
    JobResult.SUCCESS: Letter.SUCCEEDED,
    JobResult.FAILURE: Letter.FAILED,
    JobResult.SKIPPED: Letter.SKIPPED,
}
RESULTS = {
    Letter.WAITING: JobResult.PENDING,
    Letter.ACTIVE: JobResult.PENDING,
    Letter.SUCCEEDED: JobResult.SUCCESS,
    Letter.FAILED: JobResult.FAILURE,
    Letter.TIMED_OUT: JobResult.FAILURE,
    Letter.SKIPPED: JobResult.SKIPPED,
    Letter.CANCELLED: JobResult.FAILURE,
}


def matches(condition: Condition, result: JobResult) -> bool:
    """Return whether a parent with this result meets the condition of an edge."""
    return LETTERS[result] in MEETS[condition]


def read_condition(condition: Condition | str) -> Condition:
    try:
        return Condition(condition)
    except ValueError:
        raise InvalidCondition(condition) from None
