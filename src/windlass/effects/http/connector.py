"""The connection pool, with the address guard at both places: name resolution and socket creation."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from aiohttp import AddrInfoType, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from windlass.effects.http.addresses import AddressGuard

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]
DNS_KEPT = timedelta(seconds=10)


def connector(guard: AddressGuard, look_up: LookUp, *, total: int, per_host: int) -> TCPConnector:
    def make(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        guard.check(str(address[0]), str(address[0]))
        return socket.socket(family, kind, protocol)

    return TCPConnector(
        limit=total,
        limit_per_host=per_host,
        resolver=_CheckedResolver(guard, look_up),
        ttl_dns_cache=int(DNS_KEPT.total_seconds()),
        socket_factory=make,
    )


class _CheckedResolver(AbstractResolver):
    """Refuses a name if any of its addresses is refused: a mix of public and private addresses is a mistake or an
    attack."""

    def __init__(self, guard: AddressGuard, look_up: LookUp) -> None:
        self._guard = guard
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = list(dict.fromkeys(await self._look_up(host, port)))
        if not addresses:
            raise OSError(f"{host} has no address")
        for address in addresses:
            self._guard.check(host, address)
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        pass


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
