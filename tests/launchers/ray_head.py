"""A Ray cluster of one node for the tests: one that is running already, or one that they start."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PORTS = (
    "--port=26379",
    "--dashboard-port=28265",
    "--dashboard-agent-listen-port=28266",
    "--ray-client-server-port=20001",
)
ADDRESS = "http://127.0.0.1:28265"


@contextlib.contextmanager
def ray_address() -> Iterator[str]:
    """Yield the address of the dashboard: that of WINDLASS_TEST_RAY, or of a head node that is started."""
    if address := os.environ.get("WINDLASS_TEST_RAY"):
        yield address
        return
    program = shutil.which("ray", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("Ray is not installed: pip install 'ray[default]', or set WINDLASS_TEST_RAY to http://HOST:8265")
    command = [program, "start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=4", *PORTS]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as head:
        try:
            yield ADDRESS
        finally:
            head.terminate()
