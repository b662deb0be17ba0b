"""Splits the output of a command into lines as it arrives, in bounded memory."""

import codecs
from collections.abc import Callable

from windlass.core.json_value import plain
from windlass.effects.context import MAX_LINES

MAX_LINE = 8192

Keep = Callable[[str, str], None]  # level, line


class Lines:
    """One stream. At most `room` bytes of a line are kept; `last` is the last line that is not blank."""

    def __init__(self, level: str, keep: Keep, *, room: int = MAX_LINE) -> None:
        self.last = b""
        self.last_is_cut = False
        self._level = level
        self._keep = keep
        self._room = room
        self._line = bytearray()
        self._size = 0  # of the line, including bytes beyond `room`
        self._kept = 0

    def feed(self, data: bytes) -> None:
        if self._kept > MAX_LINES:
            data = self._only_the_end(data)
        *ended, begun = data.split(b"\n")
        for part in ended:
            self._add(part)
            self._end()
        self._add(begun)

    def finish(self) -> None:
        """End the stream; emit the last line if it has no newline."""
        if self._size:
            self._end()

    def _add(self, part: bytes) -> None:
        self._line += part[: self._room - len(self._line)]
        self._size += len(part)

    def _end(self) -> None:
        line, is_cut = bytes(self._line).rstrip(b"\r"), self._size > self._room
        self._forget()
        if line.strip():
            self.last, self.last_is_cut = line, is_cut
        if self._kept <= MAX_LINES:  # one more than is stored, so that `Context.keep` can note that there were more
            self._kept += 1
            self._keep(self._level, readable(line))

    def _only_the_end(self, data: bytes) -> bytes:
        """Return the part of `data` from its last non-blank line on. Lines beyond MAX_LINES are not emitted, so they
        are skipped without being split: there may be millions."""
        content = data.rstrip()
        data = content + b"\n" if b"\n" in data[len(content) :] else data
        start = data.rfind(b"\n", 0, len(content))
        if start >= 0:
            self._forget()
        return data[start + 1 :]

    def _forget(self) -> None:
        self._line.clear()
        self._size = 0


def readable(line: bytes) -> str:
    """Return a line as text that can be stored, without a partial character where it was cut."""
    text, _ = codecs.utf_8_decode(line[:MAX_LINE], "replace", len(line) < MAX_LINE)
    return plain(text)[:MAX_LINE]
