"""The guard: which addresses may be reached, however the URL is written."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import pytest

from tests.effects.http_harness import LOCAL, ask, failed, performer, request, succeeded
from tests.effects.server import reply, says, serving
from windlass.effects.http.connector import AddressGuard, AddressRefused
from windlass.effects.http.step import Http, LookUp
from windlass.errors import Invalid
from windlass.settings import read

NOT_PUBLIC = """
    127.0.0.1 127.255.255.255 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 169.254.169.254
    169.254.0.1 169.254.170.2 100.64.0.1 100.127.255.255 100.100.100.200 168.63.129.16 192.0.0.1 192.0.0.192
    192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1
    255.255.255.255 :: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
    ::ffff:0.0.0.0 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::8.8.8.8
    64:ff9b:1:ffff::1 2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe::1 2002:c0a8:1:: 2001:0:7f00:1::1
    2a00:1450::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1
    2001:0:4136:e378:8000:63bf:3fff:fdd2 fd00:ec2::254 fc00::1 fd12::1 fe80::1 fe80::1%eth0 febf::1 fec0::1
    ff02::1 ff0e::1 100::1 2001:db8::1 2001:2::1 3fff::1 2001:10::1 5f00::1 4000::1 8000::1 ::ffff:0:127.0.0.1
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 169.253.255.255
    172.15.0.1 172.32.0.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.0 223.255.255.255
    2606:4700:4700::1111 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1 2001:4860:4860::8888
"""


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="WINDLASS_HTTP_ALLOW") as refusal:
        AddressGuard().check("name.example", address)
    assert f"name.example ({address})" in str(refusal.value)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_allowed(address: str) -> None:
    AddressGuard().check("name.example", address)


@pytest.mark.parametrize(
    ("allowed", "address"),
    [
        ("127.0.0.1/32", "127.0.0.1"),
        ("127.0.0.1/32", "::ffff:127.0.0.1"),
        ("10.0.0.0/8", "64:ff9b::10.1.2.3"),
        ("64:ff9b::/96", "64:ff9b::10.1.2.3"),
        ("fd00::/8", "fd00:ec2::254"),
        ("0.0.0.0/0", "169.254.169.254"),
        ("fe80::/10", "fe80::1%eth0"),
    ],
)
def test_the_allow_list_permits_private_addresses(allowed: str, address: str) -> None:
    AddressGuard((ip_network(allowed),)).check("x", address)


@pytest.mark.parametrize(
    ("allowed", "address"), [("127.0.0.1/32", "127.0.0.2"), ("10.0.0.0/8", "fd00::1"), ("::/0", "10.0.0.1")]
)
def test_addresses_outside_the_allow_list_are_refused(allowed: str, address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard((ip_network(allowed),)).check("x", address)


MAPPED = str(ip_address("::ffff:7f00:1"))  # Python 3.13 writes it with the IPv4 address
LITERALS = [
    ("http://127.0.0.1/", "127.0.0.1"),
    ("http://127.0.0.2:8080/", "127.0.0.2"),
    ("http://[::1]/", "::1"),
    ("http://[0:0:0:0:0:0:0:1]/", "::1"),
    ("http://[::ffff:127.0.0.1]/", MAPPED),
    ("http://[::ffff:7f00:1]/", MAPPED),
    ("http://[::127.0.0.1]/", "::7f00:1"),
    ("http://[64:ff9b::7f00:1]/", "64:ff9b::7f00:1"),
    ("http://[2002:7f00:1::]/", "2002:7f00:1::"),
    ("http://0.0.0.0/", "0.0.0.0"),
    ("http://[::]/", "::"),
    ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
    ("http://[fd00:ec2::254]/", "fd00:ec2::254"),
    ("http://100.64.0.1/", "100.64.0.1"),
    ("http://①②⑦.⓪.⓪.①/", "127.0.0.1"),
    ("http://127。0。0。1/", "127.0.0.1"),
    ("https://192.168.1.1/", "192.168.1.1"),
]


@pytest.mark.parametrize(("url", "address"), LITERALS)
async def test_a_url_with_a_private_address_is_refused_with_a_hint(url: str, address: str) -> None:
    outcome = failed(await ask(url, options={"allow": ()}), retryable=False)
    assert outcome.error["type"] == "AddressRefused"
    assert f"refused to connect to {address}:" in outcome.error["message"]
    assert "allow it with WINDLASS_HTTP_ALLOW (CIDRs)" in outcome.error["message"]


@pytest.mark.parametrize(
    ("url", "usual"),
    [
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f000001/", "127.0.0.1"),
        ("http://0X7F.1/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://127.1/", "127.0.0.1"),
        ("http://127.0.1/", "127.0.0.1"),
        ("http://0/", "0.0.0.0"),
        ("http://127.0.0.1./", "127.0.0.1"),
        ("http://010.8.8.8/", "8.8.8.8"),
    ],
)
async def test_unusual_notations_of_addresses_are_refused_even_if_allowed(url: str, usual: str) -> None:
    outcome = failed(await ask(url, options={"allow": (ip_network("0.0.0.0/0"),)}), retryable=False)
    assert outcome.error["message"].endswith(f"is an IP address in an unusual form: write {usual}")


@pytest.mark.parametrize(
    "url",
    [
        "http://good@127.0.0.1/",
        "http://good:pass@127.0.0.1/",
        "http://good.example:80@127.0.0.1/",
        "http://1.1.1.1 &@127.0.0.1# @3.3.3.3/",
        "http://good.example\\@127.0.0.1/",
        "http://127.0.0.1\\.good.example/",
        "http://127%2e0.0.1/",
        "http://%31%32%37.0.0.1/",
        "http://[fe80::1%25eth0]/",
        "http://[::1",
        "http://a b/",
        "http:///x",
        "http:/x",
        "http://",
        "",
        "/path",
        "//127.0.0.1/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:-1/",
        "http://127.0.0.1:x/",
        "http://127.0.0.1/\r\nHost: x",
        "http://127.0.0.1\t/",
        "http://exam\x00ple/",
        "http://1.2.3.4.5/",
        "http://999.1.1.1/",
        "http://\ud800/",
    ],
)
async def test_malformed_and_deceptive_urls_are_refused(url: str) -> None:
    outcome = failed(await ask(url), retryable=False)
    assert outcome.error["type"] == "Invalid"
    assert outcome.result is None


async def test_localhost_is_refused() -> None:
    outcome = failed(await ask("http://LOCALHOST/", options={"allow": ()}), retryable=False)
    assert outcome.error["type"] == "AddressRefused"
    assert "refused to connect to localhost (" in outcome.error["message"]


@pytest.mark.parametrize("host", ["localhost.", "metadata.google.internal", "127.0.0.1.nip.example", "ü.example"])
async def test_a_host_name_is_checked_by_its_resolved_address(host: str) -> None:
    async with performer(allow=(), look_up=answers(["127.0.0.1"])) as http:
        outcome = failed(await http.perform(request(f"http://{host}/")), retryable=False)
    assert "(127.0.0.1): it is a loopback address" in outcome.error["message"]


async def test_a_host_name_with_any_private_address_is_refused() -> None:
    async with performer(look_up=answers(["8.8.8.8", "10.0.0.1"])) as http:
        outcome = failed(await http.perform(request("http://mixed.example/")), retryable=False)
    assert "mixed.example (10.0.0.1)" in outcome.error["message"]


async def test_a_host_name_is_resolved_and_checked_for_each_connection() -> None:
    asked: list[str] = []

    async def look_up(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    # A request to another port looks the name up again: results are not cached.
    async with serving(says(reply())) as server, serving(says(reply())) as other, performer(look_up=look_up) as http:
        succeeded(await http.perform(request(f"http://rebind.example:{server.port}/")))
        outcome = failed(await http.perform(request(f"http://rebind.example:{other.port}/")), retryable=False)
    assert asked == ["rebind.example"] * 2
    assert "rebind.example (127.0.0.2)" in outcome.error["message"]
    assert other.connections == []


async def test_only_the_checked_address_is_connected_to() -> None:
    """The name is looked up once: the address that was checked is the one that is connected to."""
    asked: list[str] = []

    async def look_up(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with serving(says(reply())) as server, performer(look_up=look_up) as http:
        succeeded(await http.perform(request(f"http://name.example:{server.port}/")))
    assert asked == ["name.example"]
    assert server.received[0].headers["host"] == f"name.example:{server.port}"


async def test_an_unknown_host_name_is_a_network_error() -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    for nobody in (look_up, answers([])):
        async with performer(look_up=nobody) as http:
            outcome = failed(await http.perform(request("http://nobody.example/")), retryable=True)
        assert outcome.error["type"] == "NetworkError"
        assert "no" in outcome.error["message"]


async def test_only_public_addresses_are_allowed_by_default() -> None:
    async with serving(says(reply())) as server, Http() as http:
        failed(await http.perform(request(server.url)), retryable=False)
    assert server.connections == []


def test_the_allow_list_comes_from_the_environment() -> None:
    told = read({"WINDLASS_HTTP_ALLOW": "127.0.0.1/32, fd12::/64,10.0.0.7,"})
    assert told.http_allow == (*LOCAL, ip_network("fd12::/64"), ip_network("10.0.0.7/32"))
    assert read({}).http_allow == ()


def test_all_invalid_entries_of_the_allow_list_are_reported() -> None:
    with pytest.raises(Invalid, match="WINDLASS_HTTP_ALLOW") as refusal:
        read({"WINDLASS_HTTP_ALLOW": "10.0.0.1/8,localhost,192.168.0.0/16"})
    assert "10.0.0.1/8" in str(refusal.value)
    assert "'localhost'" in str(refusal.value)


def answers(addresses: Sequence[str]) -> LookUp:
    async def look_up(host: str, port: int) -> Sequence[str]:
        return addresses

    return look_up
