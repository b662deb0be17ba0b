"""The connection pool, the lookup of names, and the guard that allows public addresses and those of the operator.

Addresses are checked, not names: once after the lookup and again when the socket is created. This covers literals,
redirects and names whose address changes (DNS rebinding).
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow to import; most processes perform no HTTP steps
    from aiohttp import AddrInfoType, TCPConnector
    from aiohttp.abc import ResolveResult

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address
# An explicit table, because what `ipaddress` considers private differs between Python versions.
REFUSED: dict[str, tuple[Network, ...]] = {
    kind: tuple(map(ip_network, networks.split()))
    for kind, networks in {
        "a metadata": "169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254",
        "a loopback": "127.0.0.0/8 ::1",
        "an unspecified": "0.0.0.0/8 ::",
        "a private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
        "a shared (CGNAT)": "100.64.0.0/10",
        "a link-local": "169.254.0.0/16 fe80::/10",
        "a site-local": "fec0::/10",
        "a multicast": "224.0.0.0/4 ff00::/8",
        "a documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
        "a benchmarking": "198.18.0.0/15 2001:2::/48",
        "a Teredo": "2001::/32",
        "a local NAT64": "64:ff9b:1::/48",
        "a reserved": "192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23",
    }.items()
}
NAT64 = IPv6Network("64:ff9b::/96")
# The only IPv6 range with global unicast addresses; the other two represent the IPv4 address they embed.
PUBLIC_IPV6 = (IPv6Network("2000::/3"), IPv6Network("::ffff:0:0/96"), NAT64)
THREADS = 16
PER_DOMAIN = 4  # concurrent lookups of names with the same last two labels
GetAddrInfo = Callable[..., list[tuple[Any, Any, Any, Any, tuple[Any, ...]]]]
LookUp = Callable[[str, int], Awaitable[Sequence[str]]]
DNS_KEPT = timedelta(seconds=10)


class AddressRefused(OSError):
    """Raised if an address may not be connected to. An OSError, because aiohttp keeps those as the cause."""

    def __init__(self, host: str, address: str, kind: str) -> None:
        name = host if host == address else f"{host} ({address})"
        super().__init__(
            f"refused to connect to {name}: it is {kind} address; "
            "allow it with WINDLASS_HTTP_ALLOW (CIDRs) if it may be reached"
        )
        self.host, self.address, self.kind = host, address, kind


class AddressGuard:
    def __init__(self, allow: Iterable[Network] = ()) -> None:
        self._allow = tuple(allow)

    def check(self, host: str, address: str) -> None:
        """Raise `AddressRefused` unless `address`, the result of resolving `host`, is public or allowed."""
        forms = tuple(_forms(ip_address(address)))
        if any(form in network for network in self._allow for form in forms):
            return
        for form in forms:
            if kind := _kind(form):
                raise AddressRefused(host, address, kind)


def connector(guard: AddressGuard, look_up: LookUp, *, total: int, per_host: int) -> "TCPConnector":
    from aiohttp import TCPConnector

    def make(info: "AddrInfoType") -> socket.socket:
        family, kind, protocol, _, address = info
        guard.check(str(address[0]), str(address[0]))
        return socket.socket(family, kind, protocol)

    return TCPConnector(
        limit=total,
        limit_per_host=per_host,
        resolver=_CheckedResolver(guard, look_up),  # type: ignore[arg-type]  # has the methods of an AbstractResolver
        ttl_dns_cache=int(DNS_KEPT.total_seconds()),
        socket_factory=make,
    )


class _CheckedResolver:
    """Refuses a name if any of its addresses is refused: a mix of public and private addresses is a mistake or an
    attack."""

    def __init__(self, guard: AddressGuard, look_up: LookUp) -> None:
        self._guard = guard
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> "list[ResolveResult]":
        addresses = list(dict.fromkeys(await self._look_up(host, port)))
        if not addresses:
            raise OSError(f"{host} has no address")
        for address in addresses:
            self._guard.check(host, address)
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        pass


def _result(host: str, address: str, port: int) -> "ResolveResult":
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST
    return {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": flags}


class DnsLookup:
    """Resolves names in a dedicated thread pool.

    The C library's `getaddrinfo` blocks its thread until the name server answers. In the event loop's default pool a
    few slow names would stall everything else that uses it. Here they stall only lookups, and one domain occupies at
    most PER_DOMAIN threads.
    """

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
        results = await asyncio.wrap_future(future)
        return [str(address[0]) for _, _, _, _, address in results]

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


def _forms(ip: Address) -> Iterator[Address]:
    """Yield the address, and the IPv4 address that it embeds (mapped, 6to4 or NAT64), if any."""
    yield ip
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            yield ip.ipv4_mapped
        if ip.sixtofour is not None:
            yield ip.sixtofour
        if ip in NAT64:
            yield IPv4Address(int(ip) & 0xFFFF_FFFF)


def _is_isatap(ip: Address) -> bool:
    """Return whether the interface id is ISATAP (RFC 5214): it embeds an IPv4 address, usually internal, under any
    prefix."""
    return isinstance(ip, IPv6Address) and (int(ip) >> 32) & 0xFDFF_FFFF == 0x0000_5EFE


def _kind(ip: Address) -> str | None:
    for kind, networks in REFUSED.items():
        if any(ip in network for network in networks):
            return kind
    if _is_isatap(ip):
        return "an ISATAP"
    if isinstance(ip, IPv6Address) and not any(ip in network for network in PUBLIC_IPV6):
        return "not a public"
    return None
