"""Compares the Open Job Spec API with the engine: push, fetch, ack over keep-alive. Run `python -m bench.ojs`.

It starts a server process on an embedded Postgres. The client is a minimal HTTP client, because it shares the machine.
`direct` is the same work without HTTP: a bulk submit, and a Windlass worker that drains a queue.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.server import own_server
from windlass import Windlass, WorkerOptions
from windlass.cli.process import run
from windlass.core.jobs.spec import JobSpec
from windlass.settings import Settings
from windlass.web import server as web_server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

BULK = 1000
FETCH = 50
CONNECTIONS = 16
FLOOR = 1 / 3  # of the direct bulk submit
JOB: dict[str, Any] = {"type": "bench.noop", "args": [{"user": 42, "text": "a few words, as jobs have them"}]}


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.ojs", description=__doc__)
    options.add_argument("--jobs", type=int, default=20_000)
    options.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        run(serve(chosen.serve))
        return
    before = os.getloadavg()[0]
    with own_server() as server:
        measured = asyncio.run(measure(asyncio.run(server.fresh("ojs")), jobs=chosen.jobs))
    show(measured, before)


async def serve(url: str) -> None:
    """Run the server: the main of its process."""
    listener = listen("127.0.0.1", 0)
    async with (
        Windlass(url, settings=Settings()) as app,
        serving(web_server.build(app, GuardOptions(host=listener.host)), listener),
    ):
        print(listener.port, flush=True)
        await app.tend(stop=asyncio.Event())


async def measure(url: str, *, jobs: int) -> dict[str, float]:
    async with Windlass(url, settings=Settings()) as app:
        direct = {"submit in batches of 1,000, direct": await timed(jobs, lambda: submit(app, jobs))}
        direct["drain by a Windlass worker"] = await timed(jobs, lambda: drain(app, jobs))
        with server(url) as port:
            clients = [await Client.open(port) for _ in range(CONNECTIONS)]
            rates = {"push, 1,000 per request": await timed(jobs, lambda: push_bulk(clients[:2], jobs))}
            ids: list[str] = []
            rates[f"fetch, {FETCH} per request"] = await timed(jobs, lambda: fetch_all(clients, ids))
            rates["ack, one per request"] = await timed(jobs, lambda: ack_all(clients, ids))
            few = jobs // 4
            rates["push, one per request"] = await timed(few, lambda: push_one_by_one(clients, few))
            rates[f"fetch {FETCH}, then ack each"] = await timed(few, lambda: work_off(clients))
            for client in clients:
                client.close()
    return direct | rates


async def timed(count: int, work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return count / (time.perf_counter() - began)


async def submit(app: Windlass, jobs: int) -> None:
    specs = [JobSpec(type=JOB["type"], payload=JOB["args"])] * BULK
    for _ in range(jobs // BULK):
        await app.submit_many(specs)


async def drain(app: Windlass, jobs: int) -> None:
    """Run the jobs of `submit` with a Windlass worker."""
    done, stop = 0, asyncio.Event()

    async def noop(payload: Any) -> None:
        nonlocal done
        done += len(payload)
        if done == jobs:
            stop.set()

    app.job(JOB["type"])(noop)
    await app.work(WorkerOptions(), stop=stop)


async def push_bulk(clients: "Sequence[Client]", jobs: int) -> None:
    body = json.dumps({"jobs": [JOB] * BULK}).encode()

    async def part(client: "Client", times: int) -> None:
        for _ in range(times):
            await client.post("/jobs/batch", body)

    await asyncio.gather(*(part(client, jobs // BULK // len(clients)) for client in clients))


async def push_one_by_one(clients: "Sequence[Client]", jobs: int) -> None:
    body = json.dumps(JOB).encode()

    async def part(client: "Client") -> None:
        for _ in range(jobs // len(clients)):
            await client.post("/jobs", body)

    await asyncio.gather(*map(part, clients))


async def fetch_all(clients: "Sequence[Client]", ids: list[str]) -> None:
    async def part(number: int, client: "Client") -> None:
        while jobs := await client.fetch(f"bench-{number}"):
            ids.extend(job["id"] for job in jobs)

    await asyncio.gather(*(part(number, client) for number, client in enumerate(clients[:4])))


async def ack_all(clients: "Sequence[Client]", ids: list[str]) -> None:
    left = iter(ids)

    async def part(client: "Client") -> None:
        for id_ in left:
            await client.ack(id_)

    await asyncio.gather(*map(part, clients))


async def work_off(clients: "Sequence[Client]") -> None:
    async def part(number: int, client: "Client") -> None:
        while jobs := await client.fetch(f"bench-{number}"):
            for job in jobs:
                await client.ack(job["id"])

    await asyncio.gather(*(part(number, client) for number, client in enumerate(clients)))


class Client:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=64 * 2**20))

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST /ojs/v1{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if answer[9:10] != b"2":
            raise RuntimeError(content.decode())
        return content

    async def fetch(self, worker: str) -> list[dict[str, Any]]:
        body = {"queues": ["default"], "count": FETCH, "worker_id": worker}
        jobs: list[dict[str, Any]] = json.loads(await self.post("/workers/fetch", json.dumps(body).encode()))["jobs"]
        return jobs

    async def ack(self, id_: str) -> None:
        await self.post("/workers/ack", b'{"job_id":"%s","result":{"ok":true}}' % id_.encode())

    def close(self) -> None:
        self._writer.close()


@contextmanager
def server(url: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-m", "bench.ojs", "--serve", url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def show(measured: dict[str, float], load_before: float) -> None:
    print(f"{os.cpu_count()} CPUs, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after")
    for name, rate in measured.items():
        print(f"{name:34} {rate:9,.0f} jobs/s")
    share = measured["push, 1,000 per request"] / measured["submit in batches of 1,000, direct"]
    met = "met" if share >= FLOOR else "MISSED"
    print(f"bulk push is {share:.2f} of the bulk submit; the floor is {FLOOR:.2f}: {met}")


if __name__ == "__main__":
    main()
