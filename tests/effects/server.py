"""A server that sends exactly the bytes that a test defines: broken, endless, slow or huge responses included."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ClientConnection:
    """A connection, as seen by the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: int = 0

    async def send(self, data: bytes) -> None:
        self.sent += len(data)
        self.writer.write(data)
        await self.writer.drain()

    async def send_for_ever(self, data: bytes) -> None:
        with suppress(ConnectionError):
            while True:
                await self.send(data)
                await asyncio.sleep(0)  # `drain` does not yield to other tasks until the buffers of the kernel are full

    async def gone(self) -> None:
        """Wait until the other side has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass


Answer = Callable[[Received, ClientConnection], Awaitable[None]]


@dataclass
class Server:
    answer: Answer
    port: int = 0
    received: list[Received] = field(default_factory=list)
    connections: list[ClientConnection] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ClientConnection(reader, writer)
        self.connections.append(connection)
        try:
            while (received := await _read(reader)) is not None:
                self.received.append(received)
                await self._answer(received, connection)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, received: Received, connection: ClientConnection) -> None:
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        try:
            await self.answer(received, connection)
        finally:
            self.busy -= 1


@asynccontextmanager
async def serving(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(server.serve(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def reply(status: int = 200, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def says(data: bytes) -> Answer:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(data)

    return answer


def says_and_hangs_up(data: bytes) -> Answer:
    async def answer(_: Received, connection: ClientConnection) -> None:
        await connection.send(data)
        connection.writer.close()

    return answer


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, target, _ = first.split(" ")
    # A target that begins with /deaf leaves the body of the request unread.
    length = 0 if target.startswith("/deaf") else int(headers.get("content-length", 0))
    return Received(method, target, headers, await reader.readexactly(length))
