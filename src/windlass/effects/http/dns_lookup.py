"""Resolves names in a dedicated thread pool.

The C library's `getaddrinfo` blocks its thread until the name server answers. In the event loop's default pool a few
slow names would stall everything else that uses it. Here they stall only lookups, and one domain occupies at most
PER_DOMAIN threads.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

THREADS = 16
PER_DOMAIN = 4  # concurrent lookups of names with the same last two labels

GetAddrInfo = Callable[..., list[tuple[Any, Any, Any, Any, tuple[Any, ...]]]]


class DnsLookup:
    def __init__(self, *, threads: int = THREADS, getaddrinfo: GetAddrInfo = socket.getaddrinfo) -> None:
        self._threads = threads
        self._getaddrinfo = getaddrinfo
        self._pool: ThreadPoolExecutor | None = None
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}  # reference counts of the semaphores: the last user removes its semaphore

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a name from the system resolver."""
        domain = ".".join(host.lower().rstrip(".").split(".")[-2:])
        turn = self._turns.setdefault(domain, asyncio.Semaphore(PER_DOMAIN))
        self._users[domain] = self._users.get(domain, 0) + 1
        try:
            await turn.acquire()
        except BaseException:
            self._leave(domain)
            raise
        loop = asyncio.get_running_loop()
        self._pool = self._pool or ThreadPoolExecutor(self._threads, thread_name_prefix="windlass-dns")
        future = self._pool.submit(self._getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)

        def done(_: Future[Any]) -> None:
            # A lookup whose request was cancelled still occupies its thread: release the semaphore only now.
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._release, domain, turn)

        future.add_done_callback(done)
        found = await asyncio.wrap_future(future)
        return [str(address[0]) for _, _, _, _, address in found]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _release(self, domain: str, turn: asyncio.Semaphore) -> None:
        turn.release()
        self._leave(domain)

    def _leave(self, domain: str) -> None:
        self._users[domain] -= 1
        if not self._users[domain]:
            del self._users[domain], self._turns[domain]
