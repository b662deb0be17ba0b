"""`windlass workers`: who works here."""

from typing import Any

from windlass.cli.output import Json, show_json, show_table
from windlass.cli.runner import backend

COLUMNS = ("id", "alive", "state", "active", "queues", "types", "last seen")


def workers(json: Json = False) -> None:
    """List workers, the latest sign of life first."""
    rows = backend(lambda app: app.workers())
    if json:
        show_json(rows)
    else:
        show_table(COLUMNS, map(_row, rows))


def _row(worker: dict[str, Any]) -> list[object]:
    alive = "yes" if worker["alive"] else "no"
    slots = f"{worker['active']}/{worker['concurrency']}"
    return [worker["id"], alive, worker["state"], slots, worker["queues"], worker["types"], worker["seen_at"]]
