"""Runs a shell command in its own process group, folder and environment; returns its outcome.

It never raises for what a command does; only cancellation is raised, after the command's process group was ended.
Whether commands are allowed, and retries, are decided elsewhere.
"""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, parse
from windlass.effects.command.process import Keep, Lines, Process, inherited, readable
from windlass.effects.outcomes import failed, timed_out
from windlass.errors import Invalid

__all__ = ["CommandOptions", "CommandRequest", "Commands", "Keep", "inherited"]

OUTPUT = "$WINDLASS_OUTPUT"
MAX_OUTPUT_LINE = 1_048_576
MAX_VARIABLE = 100 * 1024  # bytes of input in a variable; Linux allows 128 KiB, including the name
MAX_COMMAND = 128 * 1024 - 1  # bytes; the longest argument that Linux allows


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """The request of one attempt; `values` holds the resolved templates of `run`."""

    run: str
    run_id: UUID | str
    workflow: str
    step: str
    attempt: int
    fence: int
    index: int = 0
    count: int = 1
    values: Mapping[str, str] = field(default_factory=dict)  # template values, by environment variable
    input: Any = field(default_factory=dict)
    timeout: timedelta | None = None


class Folder:
    """A temporary folder for one attempt. The command runs in `work`; its input and output files are beside it."""

    def __init__(self, where: Path | None = None) -> None:
        self._made = TemporaryDirectory(prefix="windlass-command-", dir=where, ignore_cleanup_errors=True)
        root = Path(self._made.name)
        self.work, self.input, self.output = root / "work", root / "input.json", root / "output.json"
        self.work.mkdir()

    async def remove(self) -> None:
        """Remove the folder in a thread, because it may be large. Cancelling the caller does not stop the removal."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._made.cleanup))


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    environment: Mapping[str, str] = field(default_factory=lambda: inherited({}))  # base environment of commands
    grace: timedelta = timedelta(seconds=5)  # between SIGTERM and SIGKILL
    folder: Path | None = None  # parent of the commands' folders; None: the system's temporary directory
    is_guarded: bool = False  # kill the commands if this process is killed: see guard.py


class Commands:
    def __init__(self, options: CommandOptions | None = None) -> None:
        self._options = options or CommandOptions()

    async def perform(self, request: CommandRequest, keep: Keep) -> Outcome:
        """Run a command and return its outcome; `keep` is called with the level and text of each line as it arrives."""
        try:
            folder = Folder(self._options.folder)
            try:
                return await self._run(request, folder, keep)
            finally:
                await folder.remove()
        except Invalid as mistake:
            return failed(mistake, retryable=False, trace=False)
        except Exception as error:
            return failed(error)

    async def _run(self, request: CommandRequest, folder: Folder, keep: Keep) -> Outcome:
        out, err = Lines("INFO", keep, room=MAX_OUTPUT_LINE), Lines("WARNING", keep)
        env = environment(request, folder, self._options.environment)
        line, is_guarded = command_line(request), self._options.is_guarded
        process = Process(line, cwd=folder.work, env=env, out=out, err=err, is_guarded=is_guarded)
        limit = request.timeout
        try:
            async with asyncio.timeout(None if limit is None else limit.total_seconds()):
                code = await process.exited()
        except TimeoutError:
            return timed_out(limit or timedelta())
        finally:
            await process.end(self._options.grace.total_seconds())
        if code:
            return failure(code, err.last)
        last = b"" if out.last_is_cut else out.last
        if out.last_is_cut and not folder.output.exists():
            keep("WARNING", f"the last line has more than {MAX_OUTPUT_LINE} bytes, so it is not used as the output")
        return Succeeded(await asyncio.to_thread(output, folder.output, last))


def command_line(request: CommandRequest) -> str:
    try:
        size = len(request.run.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\x00" in request.run:
        raise Invalid("the command is empty or contains characters that cannot be passed to a shell", field="run")
    if size > MAX_COMMAND:
        raise Invalid(f"the command is {size} bytes, the limit is {MAX_COMMAND}: pass data as `input`", field="run")
    return request.run


def environment(request: CommandRequest, folder: Folder, base: Mapping[str, str]) -> dict[str, str]:
    """Write the input file of the command and return its environment."""
    text = encode(request.input, field="input", limit=RESULT_LIMIT)
    data = text.encode()
    folder.input.write_bytes(data)
    variables = {
        "WINDLASS_RUN_ID": str(request.run_id),
        "WINDLASS_WORKFLOW": request.workflow,
        "WINDLASS_STEP": request.step,
        "WINDLASS_ATTEMPT": str(request.attempt),
        "WINDLASS_FENCE": str(request.fence),
        "WINDLASS_INDEX": str(request.index),
        "WINDLASS_COUNT": str(request.count),
        "WINDLASS_INPUT_FILE": str(folder.input),
        "WINDLASS_OUTPUT": str(folder.output),
    }
    if len(data) <= MAX_VARIABLE:
        variables["WINDLASS_INPUT"] = text
    return {"HOME": str(folder.work)} | dict(base) | dict(request.values) | variables


def output(path: Path, last_line: bytes) -> str:
    """Return the output as JSON text: the output file, else the last line if it is JSON, else null."""
    data = _output_of_file(path)
    if data is None or not data.strip():
        return _output_of_line(last_line)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{OUTPUT} is not JSON: it is not UTF-8 text (byte {error.start})", field="output") from None
    return encode(parse(text, field=OUTPUT), field=OUTPUT, limit=MAX_OUTPUT)


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
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_OUTPUT else b""
    except OSError as error:
        raise Invalid(f"{OUTPUT} cannot be read: {error.strerror}", field="output") from None
    if size > MAX_OUTPUT:
        raise Invalid(
            f"{OUTPUT} is larger than {MAX_OUTPUT} bytes: store the data elsewhere and pass a reference",
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
