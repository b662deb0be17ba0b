"""HTTP responses: the body in bounded memory, the document that is stored, and the outcome of the step.

A body is decompressed, decoded and kept up to a limit.
"""

import codecs
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, plain

GZIP = 16 + zlib.MAX_WBITS
RAW_DEFLATE = -zlib.MAX_WBITS
# Compression barely enlarges incompressible data: input beyond twice the limit plus this is padding.
MAX_PADDING = 64 * 1024

# Web charsets only: other Python codecs are slow (idna) or not charsets.
_CHARSET = re.compile(r"utf-?(8|16|32)|ascii|iso8859|cp\d|koi8|mac-|shift_jis|euc_|gb|big5").match
_CODEC_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}").fullmatch
RETRYABLE = frozenset({408, 425, 429})
MAX_RETRY_AFTER = timedelta(days=1)
MAX_MESSAGE = 1000


class Body:
    """Takes bytes as they arrive; `feed` returns False once the limit is exceeded."""

    def __init__(self, encoding: str | None, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._taken = 0
        self._inflate = INFLATERS.get((encoding or "").strip().lower(), _Plain)()
        self.is_cut = False

    def feed(self, data: bytes) -> bool:
        self._taken += len(data)
        self._kept += self._inflate(data, self._limit + 1 - len(self._kept))
        self.is_cut = len(self._kept) > self._limit or self._taken > 2 * self._limit + MAX_PADDING
        return not self.is_cut

    @property
    def is_whole(self) -> bool:
        """Whether the body is complete: compressed data may end early."""
        return not self._taken or self._inflate.is_done

    def text(self, charset: str | None) -> str:
        """Return the body as a string that can be stored. Replacement characters may make it longer than the bytes, so
        the limit applies to the string as well."""
        text = plain(bytes(self._kept[: self._limit]).decode(_codec(charset), "replace"))
        if len(text) * 4 > self._limit and len(raw := text.encode()) > self._limit:
            self.is_cut, text = True, raw[: self._limit].decode("utf-8", "ignore")
        return text


class _Plain:
    is_done = True

    def __call__(self, data: bytes, room: int) -> bytes:
        return data[:room]


class _Gzip:
    """Decompresses at most `room` bytes per call. Several gzip members may follow each other; other trailing data is
    ignored as padding."""

    def __init__(self) -> None:
        self._unpacker: zlib._Decompress | None = None

    @property
    def is_done(self) -> bool:
        return self._unpacker is not None and self._unpacker.eof

    def __call__(self, data: bytes, room: int) -> bytes:
        output = bytearray()
        while data and len(output) < room and (not self.is_done or self._goes_on(data)):
            if self._unpacker is None or self._unpacker.eof:
                self._unpacker = zlib.decompressobj(self._window(data))
            output += self._unpacker.decompress(data, room - len(output))
            data = self._unpacker.unused_data
        return bytes(output)

    def _goes_on(self, data: bytes) -> bool:
        return data[0] == 0x1F

    def _window(self, data: bytes) -> int:
        return GZIP


class _Deflate(_Gzip):
    def _goes_on(self, data: bytes) -> bool:
        return False

    def _window(self, data: bytes) -> int:
        """Return the window bits for zlib: some servers omit the zlib header that the standard requires."""
        return zlib.MAX_WBITS if data[0] & 0x0F == 8 else RAW_DEFLATE


INFLATERS: dict[str, type[_Plain | _Gzip]] = {"gzip": _Gzip, "x-gzip": _Gzip, "deflate": _Deflate}


def _codec(charset: str | None) -> str:
    if charset and _CODEC_NAME(charset):
        try:
            name = codecs.lookup(charset).name
        except LookupError:
            return "utf-8-sig"
        if _CHARSET(name) and name != "utf-8":
            return name
    return "utf-8-sig"  # drops a byte order mark


@dataclass(slots=True)
class Answer:
    """A response, filled while it arrives: after a failure the part received so far is stored."""

    status: int
    headers: Mapping[str, str]  # lower-case names, repeated headers joined
    charset: str | None
    body: Body
    is_whole: bool = False

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 400

    @property
    def is_retryable(self) -> bool:
        return self.status in RETRYABLE or 500 <= self.status < 600

    def document(self, took: timedelta) -> str:
        body = self.body.text(self.charset)
        kept = {
            "status_code": self.status,
            "headers": self.headers,
            "body": body,
            "is_truncated": self.body.is_cut or not self.is_whole,
            "duration_ms": round(took / timedelta(milliseconds=1)),
        }
        return encode(kept, field="result", limit=RESULT_LIMIT)


def outcome_of(answer: Answer, name: str, took: timedelta, now: datetime) -> Outcome:
    """Return the outcome of a response, decided by its status alone. `name` describes the request in messages."""
    document = answer.document(took)
    if answer.succeeded:
        return Succeeded(document)
    return Failed(
        error_of("HttpStatus", f"{name} answered {answer.status}"),
        retryable=answer.is_retryable,
        retry_after=retry_after(answer.headers.get("retry-after", ""), now) if answer.is_retryable else None,
        result=document,
    )


def retry_after(text: str, now: datetime) -> timedelta | None:
    """Parse a Retry-After header (seconds or a date); return None if it is invalid, and at most a day."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(text)
        wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(wait, timedelta()), MAX_RETRY_AFTER)


def error_of(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "message": plain(message[:MAX_MESSAGE])}
