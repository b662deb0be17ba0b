"""`windlass workers`: who works here."""

from typing import Any

from windlass.app import Windlass
from windlass.cli.output import Json, record, show_json, show_table
from windlass.cli.running import use

COLUMNS = ("id", "alive", "state", "active", "queues", "types", "last seen")


def workers(json: Json = False) -> None:
    """List workers, the latest sign of life first."""

    async def action(app: Windlass) -> list[dict[str, Any]]:
        return [record(worker) for worker in await app.workers()]

    rows = use(action)
    if json:
        show_json(rows)
    else:
        show_table(COLUMNS, map(_row, rows))


def _row(worker: dict[str, Any]) -> list[object]:
    alive = "yes" if worker["alive"] else "no"
    slots = f"{worker['active']}/{worker['concurrency']}"
    return [worker["id"], alive, worker["state"], slots, worker["queues"], worker["types"], worker["seen_at"]]
