"""Large bodies: the event loop serves other requests while they arrive and are parsed, and memory is bounded."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.web.serving import problem, served
from windlass import Windlass
from windlass.errors import Invalid
from windlass.web import json_bodies
from windlass.web.json_bodies import parse, parsed
from windlass.web.middleware.limits import UNCOUNTED, Slot, SlotOptions
from windlass.web.middleware.rate_limit import RateOptions

MIB = 1024 * 1024
JSON = {"content-type": "application/json"}
BODIES = {
    "half a million small lists": b'{"jobs": [' + b"[]," * 490_000 + b"[]]}",
    "more lists than are allowed": b'{"jobs": [' + b"[]," * (7 * MIB // 3) + b"[]]}",
    "numbers": b'{"jobs": [' + b"1," * 700_000 + b"1]}",
}


@contextlib.asynccontextmanager
async def lag() -> AsyncIterator[list[float]]:
    """Measure the longest block of the event loop, in seconds of processor time because the machine may be busy."""
    longest = [0.0]

    async def probe() -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0.005)
            longest[0] = max(longest[0], time.process_time() - before)

    task = asyncio.create_task(probe())
    yield longest
    task.cancel()


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.exclusive
async def test_parsing_a_large_body_does_not_block_the_event_loop(app: Windlass, name: str) -> None:
    async with served(app) as http, httpx.AsyncClient(timeout=60) as plain:
        await http.get("/workflows")
        for path in ("/api/v1/jobs/batch", "/ojs/v1/jobs/batch"):
            async with lag() as longest:
                url = str(http.base_url.copy_with(path=path))
                answer = await plain.post(url, content=BODIES[name], headers=JSON)
            assert answer.status_code in (400, 413, 422)
            assert longest[0] < 0.5, longest  # it was several seconds


async def test_both_parsers_return_the_same_values_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bodies, "LARGE", 0)
    monkeypatch.setattr(json_bodies, "DENSE", 0)
    value = {"a": [1, -2.5, 1e300, 'é\u2028\\"', None, True, {"b": []}], "c": {}}
    body = json.dumps(value).encode()
    assert await parsed(body, unique=True) == parse(body, unique=True) == value
    for wrong in (b'{"a": 1, "a": 2}', b"[NaN]", b"[1,", b"[" * 100_000, b'"\\ud800"', b"[1] 2"):
        messages = []
        for attempt in (parsed(wrong, unique=True), asyncio.to_thread(parse, wrong, unique=True)):
            with pytest.raises(Invalid) as caught:
                await attempt
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


async def test_a_batch_may_have_eight_mebibytes(app: Windlass) -> None:
    job = {"type": "a.b.v1", "payload": "x" * (MIB - 100)}
    async with served(app) as http:
        assert (await http.post("/jobs/batch", json={"jobs": [job] * 7})).status_code == 201
        problem(await http.post("/jobs/batch", json={"jobs": [job] * 9}), 413)


async def test_the_total_size_of_bodies_in_flight_is_limited(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = SlotOptions(requests=100, body_bytes=MIB)
    monkeypatch.setattr("windlass.web.server.RateOptions", lambda **more: RateOptions(slots=slots, **more))
    arrived, count_bytes = asyncio.Event(), Slot.has_room

    def has_room(slot: Slot, count: int) -> bool:
        room = count_bytes(slot, count)
        if slot._counted == 900_000:
            arrived.set()
        return room

    monkeypatch.setattr(Slot, "has_room", has_room)
    async with served(app) as http:
        payload = json.dumps({"type": "a.b.v1", "payload": "x" * 300_000}).encode()
        first = await _half_a_request(http, 900_000 + UNCOUNTED)
        async with asyncio.timeout(60):
            await arrived.wait()
        answer = await http.post("/jobs", content=payload, headers=JSON)
        status = answer.status_code
        assert status == 503
        assert answer.headers["retry-after"] == "1"
        async with httpx.AsyncClient() as worker:
            ojs = await worker.post(
                str(http.base_url.copy_with(path="/ojs/v1/jobs")), json={"type": "a.b", "args": ["x" * 300_000]}
            )
        assert ojs.status_code == 503
        assert (await http.post("/jobs", json={"type": "a.b.v1"})).status_code == 201  # small ones always have room
        first.close()
        while status != 201:  # its bytes are released when it has ended
            status = (await http.post("/jobs", content=payload, headers=JSON)).status_code


async def _half_a_request(http: httpx.AsyncClient, size: int) -> asyncio.StreamWriter:
    """Send all but the last byte of a request."""
    _, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {size + 1}"
    )
    writer.write(f"{head}\r\n\r\n".encode() + b" " * size)
    await writer.drain()
    return writer
