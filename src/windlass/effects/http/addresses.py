"""Decides which addresses may be connected to: public ones, and those the operator has allowed.

Addresses are checked, not names: once after the lookup and again when the socket is created. This covers literals,
redirects and names whose address changes (DNS rebinding).
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

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


class AddressRefused(OSError):
    """Raised if an address may not be connected to. An OSError, because aiohttp keeps those as the cause."""

    def __init__(self, host: str, address: str, kind: str) -> None:
        told = host if host == address else f"{host} ({address})"
        super().__init__(
            f"refused to connect to {told}: it is {kind} address; "
            "allow it with WINDLASS_HTTP_ALLOW (CIDRs) if it is meant to be reached"
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
