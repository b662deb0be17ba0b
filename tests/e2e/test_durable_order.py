"""The example of durable steps runs, and charges once."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_order_is_charged_once_though_its_handler_failed(database: str) -> None:
    environ = {**os.environ, "WINDLASS_DATABASE_URL": database}
    command = [sys.executable, "-m", "examples.durable_order"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "succeeded after 2 attempts, charged 1 time" in done.stdout
    assert "['o_1-0', 'o_1-1', 'o_1-2']" in done.stdout
