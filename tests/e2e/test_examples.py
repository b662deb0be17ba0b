"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_the_demo_shows_crashes_and_loses_nothing() -> None:
    command = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "402 succeeded, 1 failed, 0 left" in done.stdout
    assert "0 were recorded twice" in done.stdout
    assert "The run completed" in done.stdout
    assert "✘ points" in done.stdout
