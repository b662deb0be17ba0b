"""Responses contain the times of steps without jobs, and never contain secrets."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.web.serving import data, problem, served
from windlass import Windlass
from windlass.core.events import webhook
from windlass.engine.runs import sweep
from windlass.testing import Clock

HOUR = timedelta(hours=1)
SECRET = "opensesame-opensesame"
PAUSES: dict[str, Any] = {
    "name": "pauses",
    "tasks": {
        "nap": {"sleep": "1h"},
        "called": {"needs": ["nap"], "wait_for_webhook": {"timeout": "1h"}},
        "below": {"needs": ["called"], "workflow": "pauses-child"},
    },
}
CHILD = {"name": "pauses-child", "tasks": {"nap": {"sleep": "1m"}}}


def signed(secret: str) -> dict[str, Any]:
    return {"name": "signed", "tasks": {"paid": {"wait_for_webhook": {"timeout": "1h", "secret": secret}}}}


async def test_sleeps_and_waits_show_when_they_started_and_finished(database: str) -> None:
    clock = Clock()
    async with Windlass(database, clock=clock.now) as app, served(app) as http:
        for definition in (CHILD, PAUSES):
            await http.post("/workflows", json=definition)
        run = await app.start("pauses")
        db = await app.open()
        clock.move(HOUR + timedelta(seconds=1))
        await sweep.wake(db, batch=10)
        tasks = data(await http.get(f"/runs/{run.id}"))["tasks"]
        nap, called = tasks["nap"], tasks["called"]
        assert (nap["status"], called["status"]) == ("success", "waiting")
        assert moment(nap["finished_at"]) - moment(nap["started_at"]) >= HOUR
        assert called["started_at"] >= nap["finished_at"]
        assert called["finished_at"] is None
        async with db.begin() as conn:
            token = webhook.callback_token(await db.hook_key(conn), run.id, 1)
        clock.move(HOUR / 12)
        await http.post(str(http.base_url.copy_with(path=f"/wh/{token}")), json={})
        tasks = data(await http.get(f"/runs/{run.id}"))["tasks"]
        assert tasks["called"]["status"] == "success"
        assert moment(tasks["called"]["finished_at"]) > moment(tasks["called"]["started_at"])
        assert tasks["below"]["started_at"] is not None


async def test_a_secret_is_never_returned_and_is_kept_when_its_definition_is_resubmitted(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=signed(SECRET))
        shown = data(await http.get("/workflows/signed"))
        assert shown["tasks"]["paid"]["wait_for_webhook"]["secret"] == "***"
        version = data(await http.get("/workflows/signed/versions/1"))
        again = data(await http.post("/workflows", json=version["definition"]))
        assert again["changed"] is False
        other = data(await http.post("/workflows", json=signed("another-another-one")))
        assert other["version"] == 2
        for path in ("", "/versions", "/versions/1", "/versions/2", "/diff?from=1&to=2", "/graph"):
            text = (await http.get(f"/workflows/signed{path}")).text
            assert SECRET not in text
            assert "another-" not in text
        assert "(another)" in str(data(await http.get("/workflows/signed/diff?from=1&to=2")))
        refused = problem(await http.post("/workflows", json=signed("***") | {"name": "new"}), 422)
        assert refused["field"] == "tasks.paid.wait_for_webhook.secret"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("header", ["Host", "Content-Length"])
async def test_an_http_step_that_could_never_be_sent_is_rejected_on_publish(app: Windlass, header: str) -> None:
    step = {"url": "https://u:p@shop.example:0/", "headers": {header: "x"}}
    async with served(app) as http:
        refused = problem(await http.post("/workflows", json={"name": "ask", "tasks": {"ask": step}}), 422)
    assert {error["field"] for error in refused["errors"]} == {"tasks.ask.url", f"tasks.ask.headers.{header}"}
