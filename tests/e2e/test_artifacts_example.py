"""The example of artifacts runs with nothing but a folder."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_parts_are_joined_by_a_later_step(database: str, tmp_path: Path) -> None:
    environ = {**os.environ, "WINDLASS_DATABASE_URL": database, "WINDLASS_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "examples.artifacts"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert "completed: 3001 lines" in done.stdout
    [joined] = tmp_path.rglob("squares.csv")
    assert joined.read_text().splitlines()[-1] == "2999,8994001"
