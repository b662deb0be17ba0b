"""Chooses the operating system user of the embedded server: Postgres refuses to run as root.

An unprivileged user runs it under their own id. Root runs it as the owner of the data, else of the home, else as the
first existing user of `windlass`, `postgres` and `nobody`. No user is created, and only files that this program
created change their owner.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from windlass.errors import Unavailable

if sys.platform != "win32":
    import pwd

UNPRIVILEGED = ("windlass", "postgres", "nobody")
# Nothing of the caller's environment: PGOPTIONS, PGSERVICE, LC_ALL and others would change the programs' behaviour.
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True, kw_only=True)
class ServerUser:
    uid: int
    gid: int
    lent: bool

    @classmethod
    def of(cls, *paths: Path) -> "ServerUser":
        """Return the current user; for root the first owner of `paths` that is not root, else an unprivileged user."""
        if os.geteuid() != 0:
            return cls(uid=os.geteuid(), gid=os.getegid(), lent=False)
        for owner in (path.stat() for path in paths if path.exists()):
            if owner.st_uid != 0:
                return cls(uid=owner.st_uid, gid=owner.st_gid, lent=True)
        return cls._unprivileged()

    @classmethod
    def _unprivileged(cls) -> "ServerUser":
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                found = pwd.getpwnam(name)
                return cls(uid=found.pw_uid, gid=found.pw_gid, lent=True)
        raise Unavailable(
            "Postgres does not run as root, and this system has no user `windlass`, `postgres` or `nobody` to run it. "
            "Start Windlass as an ordinary user, or set WINDLASS_DATABASE_URL."
        )

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def run(
        self, *command: str | Path, timeout: float = 60, stdin: str = "", pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user. Raise `Unavailable` on a timeout; the caller checks the return code."""
        try:
            return subprocess.run(  # noqa: S603 - programs we looked up, arguments as a list
                [str(part) for part in command],
                user=self.uid if self.lent else None,
                group=self.gid if self.lent else None,
                extra_groups=[] if self.lent else None,
                cwd="/",
                env=ENVIRONMENT,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                pass_fds=pass_fds,
                check=False,
            )
        except subprocess.TimeoutExpired as stuck:
            raise Unavailable(f"{command[0]} did not end within {timeout:.0f} seconds. Is the disk stuck?") from stuck

    def can_enter(self, folder: Path) -> bool:
        return self.run("/bin/sh", "-c", 'test -x "$1"', "sh", folder).returncode == 0

    def take(self, path: Path) -> None:
        """Make this user the owner of a path that was just created, if root runs the server as another user."""
        if self.lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
