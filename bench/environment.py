"""The virtual environment of the contestants: `.venv-bench`, with Windlass (editable) and the peers at pinned versions.

All contestants of a run share one interpreter: the current one if no peer takes part or they cannot be installed.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
VENV = ROOT / ".venv-bench"
LISTS = (HERE / "requirements.txt", HERE / "constraints.txt", ROOT / "pyproject.toml")
PEERS = ("pgqueuer", "procrastinate", "chancy", "oban", "absurd", "dbos", "celery")
MODULES = {"absurd": "absurd_sdk, absurdctl"}  # of peers whose modules have other names
PROGRAMS = {"celery": "redis-server"}  # required beside the packages
PACKAGES = {"absurd": "absurd-sdk"}
NEEDS = {"celery": "it also needs redis-server", "oban": "it needs Python 3.12"}


def python_for(contestants: Collection[str]) -> Path:
    """Return the interpreter for a run. If a peer takes part, create the environment when it is missing or outdated."""
    if not set(PEERS) & set(contestants):
        return Path(sys.executable)
    python = VENV / "bin" / "python"
    stamp = VENV / "made-from"
    if stamp.exists() and stamp.read_text() == _fingerprint():
        return python
    print(f"creating {VENV.name} (once) ...", file=sys.stderr)
    try:
        _create(python)
    except subprocess.CalledProcessError as error:
        print(f"the peers cannot be installed: {error.stderr[-500:]}", file=sys.stderr)
        return Path(sys.executable)
    stamp.write_text(_fingerprint())
    return python


def is_installed(contestant: str, python: Path) -> bool:
    if contestant not in PEERS:
        return True
    if contestant in PROGRAMS and shutil.which(PROGRAMS[contestant]) is None:
        return False
    return (
        subprocess.run([python, "-c", f"import {MODULES.get(contestant, contestant)}"], capture_output=True).returncode
        == 0
    )


def versions(python: Path) -> dict[str, str]:
    """Return the installed versions of the drivers and the peers, for the report."""
    listed = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    pinned = dict(line.split("==") for line in listed.splitlines() if "==" in line)
    names = ("asyncpg", "uvloop", "psycopg", *(PACKAGES.get(peer, peer) for peer in PEERS))
    return {name: pinned[name] for name in names if name in pinned}


def _create(python: Path) -> None:
    _run(sys.executable, "-m", "venv", "--clear", VENV)
    (VENV / ".gitignore").write_text("*\n")
    _run(python, "-m", "pip", "install", "-q", "-c", LISTS[1], "-r", LISTS[0], "-e", ROOT)


def _run(*command: str | Path) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)


def _fingerprint() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in LISTS)).hexdigest()
