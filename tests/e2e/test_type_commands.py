"""Job types on the command line, with the database and through a server."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.cli_process import Cli
from tests.engine.test_job_types import LATER, registered, served
from tests.web.serving import served as serving
from windlass import Windlass


async def test_types_are_listed_and_shown(tmp_path: Path, database: str, app: Windlass) -> None:
    db = await app.open()
    await registered(db.database, "old", served("d1"), version="1")
    await registered(db.database, "new", served("d2", LATER), version="2")
    async with serving(app) as http:
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        ways: list[tuple[Cli, dict[str, Any]]] = [
            (Cli(tmp_path, database), {}),
            (Cli(tmp_path, None), {"WINDLASS_URL": url}),
        ]
        for cli, env in ways:
            listed = await cli("types", "list", **env)
            as_json = await cli("types", "list", "--json", **env)
            shown = await cli("types", "show", "orders.pack.v1", **env)
            unknown = await cli("types", "show", "orders.send.v1", **env)
            assert "orders.pack.v1" in listed.out, listed
            assert "live workers serve several schemas of orders.pack.v1" in listed.err, listed
            assert [(type_["type"], type_["drift"]) for type_ in json.loads(as_json.out)["types"]] == [
                ("orders.pack.v1", True)
            ]
            assert "code 1" in shown.out, shown
            assert "code 2" in shown.out, shown
            assert (unknown.code, "a type is known once a worker that serves it has started" in unknown.err) == (
                1,
                True,
            )
