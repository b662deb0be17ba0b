"""Validates values against untrusted JSON Schemas.

Schemas and values both come from clients, and evaluating a small schema can take hours. Validation therefore runs in a
child process (`schema_process`) with a deadline: when it expires, the process is killed and the next request starts a
new one. A schema that missed its deadline is refused for a minute, so that it cannot delay other requests.
"""

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from windlass.errors import Invalid, Unavailable

PROGRAM = Path(__file__).with_name("schema_process.py")
DEADLINE = 1.0  # seconds for one request: a schema, and a value or a batch of small ones
STARTING = 10.0  # additional seconds for the first request to a new process
REST = 60.0  # seconds for which a schema that missed its deadline is refused
MAX_RESTING = 1000  # refused schemas that are remembered
MAX_ANSWER = 1024 * 1024
CHUNK = 500  # values in one request
CHUNK_BYTES = 1024 * 1024  # of a request: each such amount adds another deadline to its time

Problem = tuple[list[str | int], str]


class TooSlow(Exception):
    """Raised if a validation exceeds its deadline."""

    def __init__(self, deadline: float) -> None:
        super().__init__(f"checking it takes longer than {deadline:g} s: simplify the schema")


class SchemaValidator:
    def __init__(self, *, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._resting: dict[str, float] = {}  # schema -> monotonic time until which it is refused

    async def mistake(self, schema: str) -> Problem | None:
        """Return the error in a schema and its path; None if the schema is usable."""
        problem = await self._request(schema)
        return None if problem is None else (problem[0], problem[1])

    async def problems(self, schema: str, value: Any) -> list[Problem]:
        """Return the violations of a schema by a value, each with its path in the value."""
        misfit = await self.first_misfit(schema, [value])
        return [] if misfit is None else misfit[1]

    async def first_misfit(self, schema: str, values: Sequence[Any]) -> tuple[int, list[Problem]] | None:
        """Return the index and the violations of the first value that violates a schema.

        All values share one deadline and one exchange with the process: an exchange costs more than most checks.
        """
        answer = await self._request(schema, *values) if values else None
        return None if answer is None else (answer[0], [(path, message) for path, message in answer[1]])

    async def check(self, schema: str, value: Any, place: str) -> None:
        """Raise `Invalid` with every violation; their paths begin with `place`: input.items.0.sku."""
        await self.check_all(schema, [value], lambda _: place)

    async def check_all(self, schema: str, values: Sequence[Any], place: Callable[[int], str]) -> None:
        """Raise `Invalid` with every violation of the first value that does not fit; `place` returns a value's path."""
        try:
            misfit = await self.first_misfit(schema, values)
        except TooSlow as slow:
            raise Invalid(f"{place(0)}: {slow}", field=place(0)) from None
        if misfit is not None:
            at, problems = place(misfit[0]), misfit[1]
            mistakes = [(".".join([at, *map(str, path)]), message) for path, message in problems]
            error = Invalid("; ".join(f"{field}: {message}" for field, message in mistakes), field=mistakes[0][0])
            error.errors = list(mistakes)
            raise error

    async def misfits(self, schema: str, values: Sequence[str]) -> list[int]:
        """Return the indexes of the values, given as JSON, that violate a schema."""
        refused: list[int] = []
        for first in range(0, len(values), CHUNK):
            chunk = ",".join(map(_ascii, values[first : first + CHUNK]))
            request = f'{{"schema":{json.dumps(schema)},"values":[{chunk}]}}\n'.encode()
            deadline = self._deadline * (1 + len(request) / CHUNK_BYTES)
            refused += [first + n for n in await self._answer(schema, request, deadline)]
        return refused

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _request(self, schema: str, *values: Any) -> Any:
        return await self._answer(schema, json.dumps([schema, *values]).encode() + b"\n", self._deadline)

    async def _answer(self, schema: str, request: bytes, deadline: float) -> Any:
        async with self._turn:
            if self._resting.get(schema, 0.0) > time.monotonic():
                raise TooSlow(self._deadline)
            is_new = self._process is None
            process = self._process or await self._start()
            try:
                async with asyncio.timeout(deadline + STARTING * is_new):
                    return await _exchange(process, request)
            except TimeoutError:
                self._rest(schema)
                await self.close()
                raise TooSlow(self._deadline) from None
            # Cancelled between request and answer, or the process died. The next request must not read this answer.
            except BaseException:
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


def _ascii(text: str) -> str:
    """Return JSON in ASCII: the child process may use another encoding."""
    return text if text.isascii() else json.dumps(json.loads(text))


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
    try:
        return json.loads(line)
    except ValueError as error:
        raise Unavailable("the process that checks job schemas answered something that is not JSON") from error
