"""Celery with Redis: one worker process, results kept, late acknowledgement.

Its guarantees are weaker than those of Postgres: Redis flushes its log once per second (`appendfsync everysec`), so a
crash loses up to a second. Each process of the benchmark starts its own Redis. Celery has no call for many tasks.
"""

import asyncio
import importlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.contestants.stage import Tally, Turn, clock_drain, perform

SETTINGS = {"threads": 0, "prefetch": 25}  # 0 threads: the solo pool
DONE = "select true"  # nothing to query: the tasks are in Redis


async def prepare(_turn: Turn) -> dict[str, Any]:
    """Do nothing: each process has its own Redis, so `drain` sends the tasks before its measurement."""
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    with own_redis() as socket:
        noop = noop_task(make_app(socket, turn), lambda: None)
        noop.delay()  # opens the connection
        started = time.perf_counter()
        for _ in range(turn.count):
            noop.delay()
        return {"seconds": time.perf_counter() - started}


async def drain(turn: Turn) -> dict[str, Any]:
    loop, tally = asyncio.get_running_loop(), Tally(turn.count)
    with own_redis() as socket:
        app = make_app(socket, turn)
        noop = noop_task(app, lambda: loop.call_soon_threadsafe(tally.add))
        for _ in range(turn.count):
            noop.delay()
        return {"seconds": await clock_worker(turn, app, tally)}


async def clock_worker(turn: Turn, app: Any, tally: Tally) -> float:
    worker = make_worker(app, turn)
    thread = threading.Thread(target=worker.start, daemon=True)

    async def work() -> None:
        thread.start()
        await asyncio.to_thread(thread.join)

    return await clock_drain(turn, work, tally, DONE, worker.stop)


def noop_task(app: Any, begun: Callable[[], object]) -> Any:
    @app.task(name="noop")  # type: ignore[untyped-decorator]  # not installed where mypy runs
    def noop() -> None:
        begun()

    return noop


def make_app(socket: Path, turn: Turn) -> Any:
    app = importlib.import_module("celery").Celery("bench", broker=f"redis+socket://{socket}")
    app.conf.update(
        result_backend=f"redis+socket://{socket}",
        task_acks_late=True,
        worker_prefetch_multiplier=turn.settings["prefetch"],
        worker_hijack_root_logger=False,
    )
    app.set_default()  # the pool's threads send the next task of a chain through it
    return app


def make_worker(app: Any, turn: Turn) -> Any:
    threads = turn.settings["threads"]
    return app.WorkController(
        app=app,
        pool="threads" if threads else "solo",
        concurrency=threads or 1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )


@contextmanager
def own_redis() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-redis-") as folder:
        socket = Path(folder) / "redis.sock"
        flags = {"port": "0", "unixsocket": str(socket), "dir": folder, "appendonly": "yes", "appendfsync": "everysec"}
        command = ["redis-server", *(part for name, value in flags.items() for part in (f"--{name}", value))]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _await_ready(socket)
            yield socket
        finally:
            server.terminate()
            server.wait()


def _await_ready(socket: Path) -> None:
    redis = importlib.import_module("redis")
    redis.Redis(unix_socket_path=str(socket), retry=_retry(redis)).ping()


def _retry(redis: Any) -> Any:
    retry, backoff = importlib.import_module("redis.retry").Retry, importlib.import_module("redis.backoff")
    return retry(backoff.ConstantBackoff(0.05), 100, supported_errors=(redis.exceptions.ConnectionError,))


if __name__ == "__main__":
    perform({"prepare": prepare, "submit": submit, "drain": drain}, SETTINGS)
