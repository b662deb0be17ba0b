"""Artifacts, named files that an attempt writes to the object store: names, references, object keys and limits.

A reference, `artifact://<run>/<step>/<index>/<name>`, resolves to the artifact of the attempt that succeeded. The
object key also contains the attempt and the fence, so that attempts do not share objects.
"""

import mimetypes
import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from windlass.core.jobs.job import Claimed
from windlass.errors import Invalid

MAX_BYTES = 5 * 1024**3  # of one artifact
MAX_PER_ATTEMPT = 1000
MAX_NAME = 200  # characters
OUTPUT = "output.json"  # the artifact of a result that is too large for a row
MAX_OUTPUT = 256 * 1_048_576  # bytes of such a result, which is held in memory
JOB = "job"  # the step in references of jobs that are not steps of a run
PREFIX = "artifact://"
BINARY = "application/octet-stream"

is_name = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}").fullmatch
_is_media_type = re.compile(
    r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,126}(; ?charset=[a-z0-9-]{1,40})?"
).fullmatch
_reference = re.compile(rf"{PREFIX}([0-9a-f-]{{36}})/([A-Za-z0-9_-]{{1,100}})/([0-9]{{1,7}})/([^/]+)").fullmatch


class Reference(NamedTuple):
    """A reference to an artifact. `run` is the id of the job if the job is not a step of a run."""

    run: UUID
    step: str
    item: int  # the instance of a fanned-out step
    name: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.run}/{self.step}/{self.item}/{self.name}"


class Place(NamedTuple):
    """A position in the list of a run's artifacts."""

    step: str
    item: int
    name: str
    fence: int


BEGINNING = Place("", -1, "", -1)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that an attempt wrote."""

    step: str
    index: int
    name: str
    fence: int
    attempt: int
    size: int
    media_type: str
    key: str  # in the object store
    created_at: datetime
    is_result: bool  # of the attempt that succeeded

    @property
    def place(self) -> Place:
        return Place(self.step, self.index, self.name, self.fence)


def refer(job: Claimed, step: str | None, name: str) -> Reference:
    """Return the reference of an artifact that this job writes; `step` is the name of its step."""
    return Reference(job.run_id or job.id, step or JOB, job.item or 0, check_name(name))


def read_reference(text: str) -> Reference:
    """Parse a reference; raise `Invalid` if it is malformed."""
    match = _reference(text)
    try:
        if match and is_name(match[4]):
            return Reference(UUID(match[1]), match[2], int(match[3]), match[4])
    except ValueError:
        pass
    raise Invalid(f"{text[:200]!r} is not a reference such as {PREFIX}<run>/<step>/<index>/<name>", field="artifact")


def object_key(reference: Reference, attempt: int, fence: int) -> str:
    run, step, item, name = reference
    return f"runs/{run}/{step}/{item}/{attempt}-{fence}/artifacts/{name}"


def check_name(name: str) -> str:
    if not isinstance(name, str) or not is_name(name):
        shown = repr(name[:200]) if isinstance(name, str) else f"a {type(name).__name__}"
        raise Invalid(
            f"the name of an artifact is {shown}: use 1 to 200 letters, digits, '.', '_' and '-', and no '.' first",
            field="name",
        )
    return name


def guess_media_type(name: str, *, is_text: bool = False) -> str:
    """Return the media type guessed from a file name."""
    guessed, encoding = mimetypes.guess_type(name, strict=False)
    if guessed is None or encoding is not None:
        guessed = "text/plain" if is_text and encoding is None else BINARY
    return f"{guessed}; charset=utf-8" if is_text and guessed.startswith("text/") else guessed


def check_media_type(text: str) -> str:
    if not isinstance(text, str) or not _is_media_type(text.lower()):
        raise Invalid(f"media_type is {str(text)[:200]!r}: it must be one such as text/csv", field="media_type")
    return text.lower()
