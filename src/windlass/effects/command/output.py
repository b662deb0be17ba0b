"""Reads the output of a command: log lines as they arrive, in bounded memory, and the result or failure at the end."""

import codecs
import signal
from collections.abc import Callable
from pathlib import Path

from windlass.core.jobs.job import Failed
from windlass.core.json_value import RESULT_LIMIT, encode, parse, plain
from windlass.effects.context import MAX_LINES
from windlass.errors import Invalid

MAX_LINE = 8192

Keep = Callable[[str, str], None]  # level, line


OUTPUT = "$WINDLASS_OUTPUT"


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


def output(path: Path, last_line: bytes) -> str:
    """Return the output as JSON text: the output file, else the last line if it is JSON, else null."""
    data = _output_of_file(path)
    if data is None or not data.strip():
        return _output_of_line(last_line)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{OUTPUT} is not JSON: it is not UTF-8 text (byte {error.start})", field="output") from None
    return encode(parse(text, field=OUTPUT), field=OUTPUT, limit=RESULT_LIMIT)


def failure(code: int, last_line: bytes) -> Failed:
    """Return the failure for an exit code of `subprocess`: a negative one is a signal."""
    detail = f": {readable(last_line)}" if last_line else ""
    if code < 0:
        name = _signal_name(-code) or f"signal {-code}"
        return Failed({"type": "Killed", "message": f"killed by {name}{detail}", "signal": name})
    inner = _signal_name(code - 128)  # a shell returns 128 + signal if its command was killed
    status = f"exited with {code} (128 + {inner})" if inner else f"exited with {code}"
    return Failed({"type": "ExitCode", "message": f"{status}{detail}", "exit_code": code})


def _output_of_file(path: Path) -> bytes | None:
    try:
        if not path.is_file():  # reading a pipe or a device might never end
            if path.exists():
                raise Invalid(f"{OUTPUT} is not a file", field="output")
            return None
        with path.open("rb") as file:
            data = file.read(RESULT_LIMIT + 1)
    except OSError as error:
        raise Invalid(f"{OUTPUT} cannot be read: {error.strerror}", field="output") from None
    if len(data) > RESULT_LIMIT:
        raise Invalid(
            f"{OUTPUT} is larger than {RESULT_LIMIT} bytes: store the data elsewhere and pass a reference",
            field="output",
        )
    return data


def _output_of_line(line: bytes) -> str:
    try:
        return encode(parse(line.decode(), field="stdout"), field="stdout")
    except (Invalid, UnicodeDecodeError):
        return "null"  # the last line is not JSON, just log output


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
