"""Performs `run` steps: runs a shell command in its own process group and folder, and returns its outcome.

It never raises for what a command does; only cancellation is raised, after the command's process group was ended.
Whether commands are allowed, and retries, are decided elsewhere.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from windlass.core.jobs.job import Outcome, Succeeded
from windlass.effects.command.lines import Keep, Lines
from windlass.effects.command.output import failure, output
from windlass.effects.command.process import Process
from windlass.effects.command.request import CommandRequest, Folder, command_line, environment, inherited
from windlass.effects.handlers import failed, timed_out
from windlass.errors import Invalid

__all__ = ["CommandOptions", "CommandRequest", "Commands", "Keep", "inherited"]

MAX_OUTPUT_LINE = 1_048_576


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    environment: Mapping[str, str] = field(default_factory=lambda: inherited({}))  # base environment of commands
    grace: timedelta = timedelta(seconds=5)  # between SIGTERM and SIGKILL
    folder: Path | None = None  # parent of the commands' folders; None: the system's temporary directory


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
        process = Process(command_line(request), cwd=folder.work, env=env, out=out, err=err)
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
            keep("WARNING", f"the last line has more than {MAX_OUTPUT_LINE} bytes, so it is not taken for the output")
        return Succeeded(await asyncio.to_thread(output, folder.output, last))
