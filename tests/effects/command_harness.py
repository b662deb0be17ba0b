"""Runs commands for tests: builds requests, captures lines and checks outcomes."""

import asyncio
import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.effects.command.run import CommandOptions, CommandRequest, Commands

FOR_EVER = "sleep 100000"


@dataclass
class CapturedLines:
    """The lines of a command, which a test can wait for."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def keep(self, level: str, line: str) -> None:
        self.lines.append((level, line))
        self._news.set()

    async def one(self, start: str) -> str:
        """Wait for the first line with this prefix and return the rest of it."""
        while True:
            for _, line in self.lines:
                if line.startswith(start):
                    return line.removeprefix(start)
            self._news.clear()
            await self._news.wait()


def request(run: str, **fields: Any) -> CommandRequest:
    identity: dict[str, Any] = {"run_id": "run-1", "workflow": "nightly", "step": "clean", "attempt": 2, "fence": 7}
    return CommandRequest(run=run, **identity | fields)


async def perform(run: str, captured: CapturedLines | None = None, *, grace: float = 60, **fields: Any) -> Outcome:
    options = CommandOptions(grace=timedelta(seconds=grace))
    return await Commands(options).perform(request(run, **fields), (captured or CapturedLines()).keep)


async def lines_of(run: str, **fields: Any) -> list[tuple[str, str]]:
    captured = CapturedLines()
    succeeded(await perform(run, captured, **fields))
    return captured.lines


def succeeded(outcome: Outcome) -> Any:
    assert isinstance(outcome, Succeeded), outcome
    return json.loads(outcome.result)


def failed(outcome: Outcome, *, retryable: bool) -> dict[str, Any]:
    assert isinstance(outcome, Failed), outcome
    assert (outcome.retryable, outcome.retry_after, outcome.result) == (retryable, None, None)
    return dict(outcome.error)


def is_gone(pid: str) -> bool:
    """Return whether a process has ended, even if its parent has not reaped it yet."""
    try:
        os.kill(int(pid), 0)
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (ProcessLookupError, FileNotFoundError):
        return not Path(f"/proc/{pid}").exists()
