"""Validates values against JSON Schemas that anybody may have registered.

Schemas and values both come from outside, and a small schema can be made to take hours. So the work is done in a child
process (`schema_process`) that has a deadline: when it expires the process is killed and the next request starts
another. A schema that missed a deadline is not tried again for a minute, so that it cannot keep the others waiting.
"""

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

from windlass.errors import Unavailable

PROGRAM = Path(__file__).with_name("schema_process.py")
DEADLINE = 1.0  # seconds for one schema and one value
STARTING = 10.0  # seconds more for the first request to a new process
REST = 60.0  # seconds for which a schema that missed its deadline is not tried again
MAX_RESTING = 1000  # schemas remembered for that
MAX_ANSWER = 1024 * 1024

Problem = tuple[list[str | int], str]


class TooSlow(Exception):
    """The check did not end in time."""

    def __init__(self, deadline: float) -> None:
        super().__init__(f"checking it takes longer than {deadline:g} s: simplify the schema")


class SchemaValidator:
    def __init__(self, *, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._resting: dict[str, float] = {}  # schema -> when it may be tried again

    async def mistake(self, schema: str) -> Problem | None:
        """What is wrong with a schema, and where in it; None if values can be checked with it."""
        found = await self._ask(schema)
        return None if found is None else (found[0], found[1])

    async def problems(self, schema: str, value: Any) -> list[Problem]:
        """What is wrong with a value, and where in it."""
        return [(path, message) for path, message in await self._ask(schema, value)]

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, schema: str, *values: Any) -> Any:
        request = json.dumps([schema, *values]).encode() + b"\n"
        async with self._turn:
            if self._resting.get(schema, 0.0) > time.monotonic():
                raise TooSlow(self._deadline)
            is_new = self._process is None
            process = self._process or await self._start()
            try:
                async with asyncio.timeout(self._deadline + STARTING * is_new):
                    return await _exchange(process, request)
            except TimeoutError:
                self._rest(schema)
                await self.close()
                raise TooSlow(self._deadline) from None
            except BaseException:  # cancelled halfway, or the process died: its next answer would be another's
                await self.close()
                raise

    async def _start(self) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", str(PROGRAM), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MAX_ANSWER
        )
        return self._process

    def _rest(self, schema: str) -> None:
        if len(self._resting) >= MAX_RESTING:
            self._resting.clear()
        self._resting[schema] = time.monotonic() + REST


async def _exchange(process: Process, request: bytes) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request)
        await process.stdin.drain()
        line = await process.stdout.readline()
    except (OSError, ValueError) as error:
        raise Unavailable("the process that checks job schemas ended: try again") from error
    if not line.endswith(b"\n"):
        raise Unavailable("the process that checks job schemas ended: try again")
    return json.loads(line)
