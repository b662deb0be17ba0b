"""Two S3 servers as processes: rclone verifies signatures and ignores conditional puts, moto the reverse."""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

RCLONE = Path(sys.executable).with_name("rclone")
BUCKET = "windlass-objects"


class S3Server(NamedTuple):
    url: str
    process: "subprocess.Popen[str]"

    def env(self, *, secret: str = "a-secret-key", url: str | None = None) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": "an-access-key",
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


@contextlib.contextmanager
def rclone_server(folder: Path) -> Iterator[S3Server]:
    (folder / BUCKET).mkdir(parents=True)
    command = [RCLONE, "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", "an-access-key,a-secret-key"]
    with _started([*map(str, command), "--config", str(folder / "rclone.conf"), str(folder)]) as server:
        yield server


@contextlib.contextmanager
def moto_server() -> Iterator[S3Server]:
    with _started([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]) as server:
        request = Request(f"{server.url}/{BUCKET}", method="PUT")
        request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=an-access-key/20260101/us-east-1/s3/x")
        with urlopen(request) as response:
            assert response.status == 200
        yield server


@contextlib.contextmanager
def _started(command: list[str]) -> Iterator[S3Server]:
    """Start a server and wait for the line of its output that contains its address."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+", line):
                break
        else:
            raise AssertionError(f"{command} did not start: {''.join(lines)}")
        reader = threading.Thread(target=process.stderr.read)  # a full pipe would block the server
        reader.start()
        try:
            yield S3Server(address[0], process)
        finally:
            process.kill()
            reader.join()
