"""Converts the end of a command into its output or a failure."""

import signal
from pathlib import Path

from windlass.core.jobs.job import Failed
from windlass.core.json_value import RESULT_LIMIT, encode, parse
from windlass.effects.command.lines import readable
from windlass.errors import Invalid

OUTPUT = "$WINDLASS_OUTPUT"


def output(path: Path, last_line: bytes) -> str:
    """Return the output as JSON text: the output file, else the last line if it is JSON, else null."""
    data = _written(path)
    if data is None or not data.strip():
        return _said(last_line)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{OUTPUT} is not JSON: it is not UTF-8 text (byte {error.start})", field="output") from None
    return encode(parse(text, field=OUTPUT), field=OUTPUT, limit=RESULT_LIMIT)


def failure(code: int, last_line: bytes) -> Failed:
    """Return the failure for an exit code of `subprocess`: a negative one is a signal."""
    said = f": {readable(last_line)}" if last_line else ""
    if code < 0:
        name = _signal(-code) or f"signal {-code}"
        return Failed({"type": "Killed", "message": f"killed by {name}{said}", "signal": name})
    inner = _signal(code - 128)  # a shell returns 128 + signal if its command was killed
    told = f"exited with {code} (128 + {inner})" if inner else f"exited with {code}"
    return Failed({"type": "ExitCode", "message": f"{told}{said}", "exit_code": code})


def _written(path: Path) -> bytes | None:
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
        told = f"{OUTPUT} is larger than {RESULT_LIMIT} bytes: store the data elsewhere and pass a reference"
        raise Invalid(told, field="output")
    return data


def _said(line: bytes) -> str:
    try:
        return encode(parse(line.decode(), field="stdout"), field="stdout")
    except (Invalid, UnicodeDecodeError):
        return "null"  # the last line is not JSON, just log output


def _signal(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
