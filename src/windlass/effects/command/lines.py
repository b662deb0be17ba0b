"""What a command says, cut into lines as it comes, in bounded memory however much it is."""

import codecs
from collections.abc import Callable

from windlass.core.json_value import plain
from windlass.effects.context import MAX_LINES

MAX_LINE = 8192

Keep = Callable[[str, str], None]  # level, line


class Lines:
    """One stream. `room` is how many bytes of a line are remembered; `last` is the last line that was not blank."""

    def __init__(self, level: str, keep: Keep, *, room: int = MAX_LINE) -> None:
        self.last = b""
        self.last_is_cut = False
        self._level = level
        self._keep = keep
        self._room = room
        self._line = bytearray()
        self._size = 0  # of the line, with what there was no room for
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
        """Nothing more comes; a line may have no end."""
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
        if self._kept <= MAX_LINES:  # one more than is kept: then whoever keeps them can say that there were more
            self._kept += 1
            self._keep(self._level, readable(line))

    def _only_the_end(self, data: bytes) -> bytes:
        """Lines that nobody keeps are passed over without being looked at: there may be millions."""
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
    """As text that can be stored, without half a character where it was cut."""
    text, _ = codecs.utf_8_decode(line[:MAX_LINE], "replace", len(line) < MAX_LINE)
    return plain(text)[:MAX_LINE]
