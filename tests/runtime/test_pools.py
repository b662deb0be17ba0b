"""Steps on a pool: real processes and a real object store in a folder."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.keys import KEYS
from tests.runtime.conftest import Working, eventually
from windlass import Run, Windlass
from windlass.engine import pools
from windlass.errors import InvalidWorkflow
from windlass.settings import Settings

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the subprocess launcher requires Unix")


@pytest.fixture
async def app(database: str, tmp_path: Path) -> AsyncIterator[Windlass]:
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path / "home")) as opened:
        yield opened


async def test_a_command_on_the_subprocess_pool_has_output_and_log(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("sum", "echo counting; echo careful >&2; echo '{\"total\": 3}'").on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        result = await run.wait(timeout=60)
        lines = [line.message for _, line in await run.lines()]
    assert result.value == {"total": 3}
    assert sorted(lines) == ["careful", "counting", '{"total": 3}']
    assert not list((tmp_path / "home" / "pools" / "subprocess").iterdir())
    assert not list((tmp_path / "home" / "objects" / "live").rglob("*.json"))


async def test_a_step_on_an_unknown_pool_is_refused_when_it_is_published(app: Windlass) -> None:
    app.workflow("report").command("sum", "true").on("gpu")
    with pytest.raises(InvalidWorkflow, match="there is no pool 'gpu': there is none yet"):
        await app.publish()


async def started(app: Windlass, name: str) -> Run:
    """Start a run once the pool is known: until then the workflow cannot be published."""
    db = await app.open()
    await eventually(lambda: pools.list_(db.database))
    return await app.start(name)
