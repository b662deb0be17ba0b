"""The output stream of a handler: ordered chunks, grouped into sections.

Each claim of the job begins a new section, so that a reader can recognize the repeated output of a later attempt.
"""

import re
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.jobs.job import JobState
from windlass.errors import Invalid

MAX_CHUNK = 65_536  # bytes
MAX_CHUNKS = 20_000  # of a section
MAX_SECTION = 16 * 1_048_576  # bytes
MAX_INT = 2**31 - 1
_position = re.compile(r"(\d{1,10})\.(\d{1,10})", re.ASCII)


class Position(NamedTuple):
    """A position in a stream: after this chunk of this section."""

    section: int
    number: int

    def __str__(self) -> str:
        return f"{self.section}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        match = _position.fullmatch(text)
        numbers = [int(part) for part in match.groups()] if match else []
        if not numbers or max(numbers) > MAX_INT:
            raise Invalid(f"after is {text!r}: it must be the id of an event, for example 1.17", field="after")
        return cls(*numbers)


START = Position(0, 0)


class NewChunk(NamedTuple):
    """A chunk to store; `data` is JSON."""

    job: UUID
    section: int
    number: int
    attempt: int
    at: datetime
    data: str


class StreamChunk(NamedTuple):
    position: Position
    attempt: int
    at: datetime
    data: Any


class StreamPage(NamedTuple):
    """The next chunks of a stream. `ended` is the final state of the job, set if there are no more."""

    chunks: list[StreamChunk]
    ended: JobState | None = None
