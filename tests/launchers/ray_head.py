"""A Ray cluster for the tests: one that is already running, or a head node that they start."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from urllib.request import urlopen

import pytest

# Above 19999: Ray assigns lower ports to its workers.
PORTS = ("--port=26379", "--dashboard-port=28265", "--dashboard-agent-listen-port=28266")
ADDRESS = "http://127.0.0.1:28265"
READY_WITHIN = 120.0  # seconds


@contextlib.contextmanager
def ray_address() -> Iterator[str]:
    """Yield the address of the dashboard: WINDLASS_TEST_RAY, or that of a head node that is started."""
    if address := os.environ.get("WINDLASS_TEST_RAY"):
        yield address
        return
    program = shutil.which("ray", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("Ray is not installed: pip install 'ray[default]', or set WINDLASS_TEST_RAY to http://HOST:8265")
    command = [program, "start", "--head", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=4"]
    command += ["--disable-usage-stats", "--ray-client-server-port=20001", *PORTS]
    with (
        TemporaryFile() as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True) as head,
    ):
        try:
            _await_dashboard(head)
            yield ADDRESS
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            head.terminate()


def _await_dashboard(head: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and head.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"{ADDRESS}/api/jobs/", timeout=10):
            return
        threading.Event().wait(0.5)
    raise AssertionError("Ray did not start")
