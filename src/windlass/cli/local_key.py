"""The API key that `windlass up --allow-commands` creates: a file in WINDLASS_HOME that only its user can read.

Without WINDLASS_API_KEY a server trusts every program on the machine. That is too permissive if requests can run
commands: this key is then required. `windlass up` prints it in a link for the browser, and commands on this machine
read the file.
"""

import secrets
from pathlib import Path
from urllib.parse import urlsplit

from windlass.effects import private_file

NAME = "api-key"
ADVICE = "delete it, and a new one is created"


def make(home: Path) -> str:
    """Return the key, created on first use."""
    return private_file.make(home / NAME, lambda: secrets.token_urlsafe(32), advice=ADVICE)


def find(home: Path, url: str) -> str | None:
    """Return the key for a server on this machine, None for any other server or if there is no key."""
    host = (urlsplit(url).hostname or "").lower()
    local = host in ("localhost", "127.0.0.1", "::1")
    return private_file.read(home / NAME, advice=ADVICE) if local else None
