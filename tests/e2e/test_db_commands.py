"""`windlass db`: it shows the password neither in its output nor in the list of processes."""

import json
from pathlib import Path

from tests.e2e.cli_process import Cli

LOOK = r"\! tr '\0' ' ' < /proc/$PPID/cmdline; echo; echo PGPASSWORD=$PGPASSWORD"


async def test_a_password_in_the_url_is_neither_shown_nor_in_the_list_of_processes(
    database: str, tmp_path: Path
) -> None:
    secret = Cli(tmp_path, database + "&password=hidden")
    looked, status = await secret("db", "psql", "--", "-Xc", LOOK), await secret("db", "status", "--json")
    command, _, rest = looked.out.partition("\n")
    assert "psql" in command
    assert "hidden" not in command
    assert "PGPASSWORD=hidden" in rest
    assert json.loads(status.out)["url"] == database
    assert "hidden" not in status.out + status.err
