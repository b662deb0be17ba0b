"""The example of compensation runs: what was booked is cancelled, the last booking first."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_trip_that_cannot_be_paid_is_undone(database: str) -> None:
    environ = {**os.environ, "WINDLASS_DATABASE_URL": database}
    command = [sys.executable, "-m", "examples.book_trip"]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "'pay': 'failed', 'flight.compensate': 'succeeded', 'hotel.compensate': 'succeeded'" in done.stdout
    assert "step pay failed and no step handled it, compensated" in done.stdout
