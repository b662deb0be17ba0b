"""A server with scripted responses, for rare behaviour: refusals, closed connections, restarted streams."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Stub:
    url: str
    answers: list[bytes]
    heads: list[str] = field(default_factory=list)  # of the received requests

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            for line in head.splitlines():
                if line.lower().startswith("content-length:"):
                    await reader.readexactly(int(line.partition(":")[2]))
            self.heads.append(head)
            writer.write(self.answers[min(len(self.heads), len(self.answers)) - 1])
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def stub(answers: Sequence[bytes]) -> AsyncIterator[Stub]:
    """Serve these responses in order and repeat the last one. An empty response closes the connection."""
    made = Stub("", list(answers))
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


def answer(status: int, body: str = "", media: str = "application/json", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Told", f"content-type: {media}", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def events(*texts: str) -> bytes:
    """Return a stream of events that ends after these lines."""
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return (head + "".join(texts)).encode()
