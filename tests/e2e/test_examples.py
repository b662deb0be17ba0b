"""The example programs run and print the documented output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def printed_by(example: str, *, timeout: float = 120, **environ: str) -> str:
    """Run an example and return what it printed."""
    command = [sys.executable, "-m", f"examples.{example}"]
    environment = {**os.environ, **environ}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(400)
def test_the_demo_survives_crashes_and_loses_no_job() -> None:
    printed = printed_by("demo", timeout=300)
    assert "402 succeeded, 1 failed, 0 left" in printed
    assert "0 were recorded twice" in printed
    assert "The run completed" in printed
    assert "✘ points" in printed


def test_the_artifacts_example_joins_parts_in_a_later_step(database: str, tmp_path: Path) -> None:
    """Artifacts need only a folder."""
    printed = printed_by("artifacts", WINDLASS_DATABASE_URL=database, WINDLASS_HOME=str(tmp_path))
    assert "completed: 3001 lines" in printed
    [joined] = tmp_path.rglob("squares.csv")
    assert joined.read_text().splitlines()[-1] == "2999,8994001"


def test_a_trip_that_cannot_be_paid_is_compensated(database: str) -> None:
    """The bookings are cancelled in reverse order."""
    printed = printed_by("book_trip", WINDLASS_DATABASE_URL=database)
    assert "'pay': 'failed', 'flight.compensate': 'succeeded', 'hotel.compensate': 'succeeded'" in printed
    assert "step pay failed and no step handled it, compensated" in printed


def test_the_order_is_charged_once_although_its_handler_failed(database: str) -> None:
    printed = printed_by("durable_order", WINDLASS_DATABASE_URL=database)
    assert "succeeded after 2 attempts, charged 1 time" in printed
    assert "['o_1-0', 'o_1-1', 'o_1-2']" in printed
