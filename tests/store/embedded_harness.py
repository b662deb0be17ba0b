"""Clients of an embedded server in separate processes, and queries of its state."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import windlass
from windlass.embedded.cluster import wait_until
from windlass.embedded.server import EmbeddedOptions, status, stop

CLIENT = """
import sys
from pathlib import Path
from windlass.embedded.server import Embedded, EmbeddedOptions
with Embedded.start(EmbeddedOptions(home=Path(sys.argv[1]))) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""
FORKING_CLIENT = """
import os, sys
from pathlib import Path
from windlass.embedded.server import Embedded, EmbeddedOptions
server = Embedded.start(EmbeddedOptions(home=Path(sys.argv[1])))
if os.fork() == 0:
    server.close()
    print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@contextmanager
def cleaned(home: Path) -> Iterator[Path]:
    place = home / "postgres"
    try:
        yield home
        if place.exists():
            stop(EmbeddedOptions(home=home))
    finally:
        shutil.rmtree(place.resolve(), ignore_errors=True)


@contextmanager
def client(home: Path, script: str = CLIENT) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", script, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def leave(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def execute(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def eventually(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, 20)


def running(home: Path) -> bool:
    return status(EmbeddedOptions(home=home)).running


def postmaster(home: Path) -> int:
    pid = status(EmbeddedOptions(home=home)).pid
    assert pid is not None
    return pid


def gone(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()  # that of a zombie is empty
    except (FileNotFoundError, ProcessLookupError):
        return True


def interpreter_for(user: pwd.struct_passwd) -> str:
    """Return an interpreter that the user can run: the current one may be in the private home of root."""
    for python in filter(None, (sys.executable, shutil.which("python3", path=os.defpath))):
        with suppress(PermissionError), python_as(user, python, "import windlass.embedded.server") as check:
            check.communicate()
            if check.returncode == 0:
                return python
    pytest.skip(f"{user.pw_name} can run no interpreter that imports windlass")


def python_as(user: pwd.struct_passwd, python: str, *script: str) -> "subprocess.Popen[str]":
    packages = [Path(windlass.__file__).parents[1], Path(psycopg.__file__).parents[1]]
    return subprocess.Popen(
        [python, "-c", *script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd="/",
        env={"PYTHONPATH": ":".join(map(str, packages)), "PYTHONDONTWRITEBYTECODE": "1"},
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
    )
