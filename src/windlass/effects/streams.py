"""Encodes and limits the chunks that a handler passes to `ctx.stream`."""

import itertools
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from windlass.core.jobs.streams import MAX_CHUNK, MAX_CHUNKS, MAX_SECTION, NewChunk
from windlass.core.json_value import encode

_log = logging.getLogger("windlass.job")  # lines of this logger are kept with the job


class HandlerStream:
    """The section of a stream that one attempt writes."""

    def __init__(self, job: UUID, fence: int, attempt: int, write: Callable[[NewChunk], None]) -> None:
        self._job, self._fence, self._attempt = job, fence, attempt
        self._write = write
        self._numbers = itertools.count(1)  # safe to use from several threads
        self._size: float = 0  # of the JSON; infinite: the limit was exceeded

    def append(self, chunk: Any) -> None:
        """Append a chunk. Chunks beyond the limits are dropped, with one warning in the log."""
        data = encode(chunk, field="chunk", limit=MAX_CHUNK)
        number, self._size = next(self._numbers), self._size + len(data)
        if number <= MAX_CHUNKS and self._size <= MAX_SECTION:
            self._write(NewChunk(self._job, self._fence, number, self._attempt, datetime.now(UTC), data))
        elif self._size < math.inf:
            self._size = math.inf
            _log.warning("the stream is longer than its limit: the rest of this attempt is not stored")
