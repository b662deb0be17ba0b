"""An app for tests of the dashboard: its workflows have every kind of step and every end.

    windlass up tests.browser.stage:app
    python -m tests.browser.stage URL

Runs that must stay in progress wait for a callback or sleep, so that their pages do not change.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.request import Request, urlopen

from windlass import Context, NonRetryable, Windlass

app = Windlass()


@app.job("shop.find.v1")
async def find(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    count = int(payload.get("count", 12))
    ctx.log.info("found %d parcels", count)
    return {"parcels": [{"id": n, "weight": n * 7 % 13} for n in range(count)]}


@app.job("shop.pack.v1")
async def pack(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    return {"packed": payload["item"]["id"]}


@app.job("shop.charge.v1")
async def charge(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    ctx.log.info("charging card %s", payload.get("card"))
    if payload.get("card") == "declined":
        ctx.log.error("the bank refused")
        raise NonRetryable("card declined: insufficient funds")
    return {"amount": 1999, "currency": "EUR"}


@app.job("shop.note.v1")
def note(payload: dict[str, Any]) -> dict[str, Any]:
    return {"noted": payload.get("text", "")}


@app.job("shop.flaky.v1")
def flaky(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    if ctx.attempt < int(payload.get("good_at", 3)):
        raise ConnectionError(f"the warehouse did not answer (attempt {ctx.attempt})")
    return {"reached_at": ctx.attempt}


@app.job("shop.mail.v1", max_attempts=1)
def mail(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.log.warning("looking for %s", payload["to"])
    raise LookupError(f"no such address: {payload['to']!r}")


@app.job("shop.label.v1", max_attempts=1)
def label(payload: dict[str, Any]) -> None:
    raise TimeoutError(f"the printer did not answer within {payload['seconds']} s")


@app.job("shop.scan.v1")
async def scan(ctx: Context, payload: dict[str, Any]) -> None:
    """Run until cancelled."""
    ctx.log.info("scanning hall %s", payload["hall"])
    ctx.progress(0.4, "40 of 100 shelves")
    await asyncio.Event().wait()


@app.job("shop.invoice.v1")
async def invoice(ctx: Context, payload: dict[str, Any]) -> str:
    return await ctx.artifacts.write(f"invoice-{payload['number']}.csv", "amount,currency\n1999,EUR\n")


def job(type_: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"job": type_, **({"needs": list(needs)} if needs else {}), **more}


SECOND = {"kind": "constant", "base": "1s"}
ORDER: dict[str, Any] = {
    "name": "order",
    "description": "Charge the card, pack every parcel, wait for the carrier, send.",
    "labels": {"team": "shop"},
    "tasks": {
        "find": job("shop.find.v1", input={"count": "{{trigger.body.count}}"}),
        "charge": job("shop.charge.v1", input={"card": "{{trigger.body.card}}"}),
        "pack": job("shop.pack.v1", "find", "charge", foreach="find.parcels", concurrency=4),
        "apologise": {"needs": {"charge": "failure"}, "job": "shop.note.v1", "input": {"text": "sorry"}},
        "cool-down": {"needs": ["pack"], "sleep": "300ms"},
        "carrier": {"needs": ["cool-down"], "wait_for_webhook": {"timeout": "2h"}},
        "send": job("shop.note.v1", "carrier", input={"text": "sent {{trigger.body.order}}"}),
        "file-away": {"final": True, "job": "shop.note.v1", "input": {"text": "done"}},
    },
}
REPORT: dict[str, Any] = {
    "name": "report",
    "description": "Reach the warehouse, which does not always answer, and tell.",
    "trigger": {"cron": "0 6 * * *", "timezone": "Europe/Berlin", "input": {"good_at": 1}},
    "tasks": {
        "reach": job("shop.flaky.v1", input={"good_at": "{{trigger.body.good_at}}"}, max_attempts=3, retry=SECOND),
        "tell": job("shop.note.v1", "reach", input={"text": "reached"}),
    },
}
MONTHLY: dict[str, Any] = {
    "name": "monthly",
    "description": "A report inside another workflow.",
    "tasks": {
        "collect": job("shop.find.v1", input={"count": 3}),
        "report": {"needs": ["collect"], "workflow": "report", "input": {"good_at": 1}},
        "publish": job("shop.note.v1", "report", input={"text": "out"}),
    },
}
CRATES: dict[str, Any] = {
    "name": "crates",
    "description": "As many copies as there are parcels.",
    "tasks": {
        "find": job("shop.find.v1", input={"count": "{{trigger.body.count}}"}),
        "pack": job("shop.pack.v1", "find", foreach="find.parcels"),
        "tell": job("shop.note.v1", "pack", input={"text": "all packed"}),
    },
}


def lattice(steps: int = 300, width: int = 10) -> dict[str, Any]:
    """Return a workflow of many steps, in rows of `width`; each step needs its neighbours in the row above."""
    tasks: dict[str, Any] = {}
    for n in range(steps):
        row, column = divmod(n, width)
        above = [f"s{(row - 1) * width + c}" for c in (column, column + 1) if row and c < width]
        tasks[f"s{n}"] = job("shop.note.v1", *above, input={"text": f"{row}/{column}"})
    return {"name": "lattice", "description": "A graph of 300 steps.", "tasks": tasks}


WORKFLOWS = (ORDER, REPORT, MONTHLY, CRATES, lattice())
STARTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("order", {"order": "A-1", "card": "visa", "count": 12}),
    ("order", {"order": "A-2", "card": "declined", "count": 3}),
    ("report", {"good_at": 1}),
    ("report", {"good_at": 3}),
    ("report", {"good_at": 9}),
    ("monthly", {}),
    ("crates", {"count": 2000}),
    ("lattice", {}),
)

JOBS: tuple[dict[str, Any], ...] = (
    *({"type": "shop.mail.v1", "payload": {"to": f"nobody-{n}"}, "tags": ["newsletter"]} for n in range(3)),
    {"type": "shop.label.v1", "payload": {"seconds": 30}},
    {"type": "shop.scan.v1", "payload": {"hall": 7}, "tags": ["nightly"]},
    {"type": "shop.note.v1", "payload": {"text": "later"}, "delay": "2h"},
    {"type": "shop.note.v1", "payload": {"text": "nobody serves this"}, "queue": "attic"},
)


def ask(url: str, path: str, body: Any = None, *, key: str = "", method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | ({"x-api-key": key} if key else {})
    with urlopen(Request(f"{url}/api/v1{path}", data, headers, method=method), timeout=30) as answer:
        return json.load(answer)["data"]


def set_up(url: str) -> dict[str, list[str]]:
    """Deploy the workflows and start runs; return their ids by workflow."""
    for workflow in WORKFLOWS:
        ask(url, "/workflows", workflow)
    runs: dict[str, list[str]] = {}
    for name, body in STARTS:
        order = {"input": body, "labels": {"team": "shop" if name == "order" else "ops"}}
        runs.setdefault(name, []).append(ask(url, f"/workflows/{name}/runs", order)["run_id"])
    return runs


def submit(url: str) -> dict[str, list[str]]:
    """Submit jobs; return their ids by type."""
    jobs: dict[str, list[str]] = {}
    for order in JOBS:
        jobs.setdefault(order["type"], []).append(ask(url, "/jobs", order)["id"])
    return jobs


def administer(url: str) -> None:
    """Create a key, a member, a secret and a plan."""
    ask(url, "/keys", {"role": "developer", "name": "ci", "expires": "90d"})
    ask(url, "/members/alice@example.com", {"role": "operator"}, method="PUT")
    ask(url, "/secrets/STRIPE_KEY", {"value": "sk_live_of_the_stage"}, method="PUT")
    ask(url, "/plans/free", {"executions_per_month": 10_000, "workflows": 5, "schedules": False}, method="PUT")


if __name__ == "__main__":
    administer(sys.argv[1])
    sys.stdout.write(json.dumps([set_up(sys.argv[1]), submit(sys.argv[1])], indent=2) + "\n")
