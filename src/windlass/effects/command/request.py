"""Prepares a command step: the command, the folder it runs in, and its environment."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from windlass.core.json_value import RESULT_LIMIT, encode
from windlass.errors import Invalid

MAX_VARIABLE = 100 * 1024  # bytes of input in a variable; Linux allows 128 KiB, including the name
MAX_COMMAND = 128 * 1024 - 1  # bytes; the longest argument that Linux allows

INHERITED: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}


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


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the worker's environment that commands may see: no secrets, no database URLs."""
    home = {"HOME": environ["HOME"]} if environ.get("HOME") else {}
    return home | {name: environ.get(name) or usual for name, usual in INHERITED.items()}


def command_line(request: CommandRequest) -> str:
    try:
        size = len(request.run.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\x00" in request.run:
        raise Invalid("the command is empty or has characters in it that no shell can be given", field="run")
    if size > MAX_COMMAND:
        raise Invalid(f"the command is {size} bytes, the limit is {MAX_COMMAND}: pass data as `input`", field="run")
    return request.run


def environment(request: CommandRequest, folder: Folder, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command, and write its input file."""
    text = encode(request.input, field="input", limit=RESULT_LIMIT)
    data = text.encode()
    folder.input.write_bytes(data)
    told = {
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
        told["WINDLASS_INPUT"] = text
    return {"HOME": str(folder.work)} | dict(base) | dict(request.values) | told
