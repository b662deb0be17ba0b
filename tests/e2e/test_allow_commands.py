"""`windlass up --allow-commands`: a key is required even on loopback, and local commands find it automatically."""

import json
import stat
from pathlib import Path

import httpx
import pytest

from tests.e2e.cli_process import Cli
from windlass.cli import local_key
from windlass.errors import Invalid

KEY = "a-key-of-the-operator"


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    return Cli(tmp_path, database)


async def test_a_key_is_generated_required_and_found_by_local_commands(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with cli.running("up", "--port", "0", "--json", "--allow-commands", WINDLASS_HOME=str(home)) as server:
        told = json.loads(await server.line("{"))
        file = home / "api-key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert told["browser"] == f"{told['http']}/#key={file.read_text()}"
        async with httpx.AsyncClient(base_url=told["http"]) as http:
            assert (await http.get("/api/v1/workflows")).status_code == 401
            known = {"x-api-key": file.read_text()}
            assert (await http.get("/api/v1/workflows", headers=known)).status_code == 200
        listed = await cli("workflows", "list", "--url", told["http"], WINDLASS_HOME=str(home))
        assert listed.code == 0, listed.err
        stranger = await cli("workflows", "list", "--url", told["http"], WINDLASS_HOME=str(tmp_path / "other"))
        assert stranger.code == 1
        server.signal()
        assert await server.end() == 0


async def test_no_key_is_generated_without_commands_or_with_a_key_of_the_operator(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for options, more in ((("up",), {}), (("up", "--allow-commands"), {"WINDLASS_API_KEY": KEY})):
        async with cli.running(*options, "--port", "0", "--json", WINDLASS_HOME=str(home), **more) as server:
            told = json.loads(await server.line("{"))
            async with httpx.AsyncClient(base_url=told["http"], headers={"x-api-key": KEY}) as http:
                assert (await http.get("/api/v1/workflows")).status_code == 200
            server.signal()
            assert await server.end() == 0
    assert not (home / "api-key").exists()


async def test_beyond_loopback_the_operator_must_set_the_key(cli: Cli, tmp_path: Path) -> None:
    where = ("up", "--allow-commands", "--host", "0.0.0.0", "--port", "0")
    refused = await cli(*where, WINDLASS_HOME=str(tmp_path / "home"))
    assert (refused.code, "WINDLASS_API_KEY" in refused.err) == (1, True)


def test_the_key_is_stable_and_used_only_for_loopback_addresses(tmp_path: Path) -> None:
    key = local_key.make(tmp_path / "home")
    assert local_key.make(tmp_path / "home") == key
    assert local_key.find(tmp_path / "home", "http://localhost:8080") == key
    assert local_key.find(tmp_path / "home", "http://windlass.example:8080") is None
    assert local_key.find(tmp_path, "http://localhost:8080") is None
    (tmp_path / "home" / "api-key").chmod(0o644)
    with pytest.raises(Invalid, match="other users can read"):
        local_key.make(tmp_path / "home")
