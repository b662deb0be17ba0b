"""Links that decide an approval: a page with the form, one decision by POST until the link expires; and their
events."""

import re
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest
import pytest_asyncio

from tests.web.serving import data, served
from windlass import Windlass
from windlass.core.orgs import Role
from windlass.engine import approvals
from windlass.engine.events import subscriptions
from windlass.schemas.approvals import ApprovalLinks

FORM = {
    "properties": {
        "amount": {"type": "number", "maximum": 100},
        "note": {"type": "string", "default": "<b>"},
        "method": {"enum": ["card", 7]},
        "urgent": {"type": "boolean"},
    },
    "required": ["amount"],
}
APPROVE = {"message": "Refund <i>{{input.order}}</i>?", "form": FORM, "timeout": "2h"}
WORKFLOW = {"name": "refund", "tasks": {"ok": {"approve": APPROVE}}}


@pytest_asyncio.fixture
async def http(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    async with served(app) as client:
        client.event_hooks["response"].clear()  # the pages are not in the OpenAPI document
        yield client


async def links(app: Windlass) -> tuple[UUID, ApprovalLinks]:
    """Start a run that waits; return its id and the links to decide."""
    await app.deploy(WORKFLOW)
    run = (await app.start("refund", {"order": 42})).id
    db = await app.open()
    [listed] = (await approvals.list_(db, run_id=run)).items
    assert listed.links is None
    found = (await approvals.get(db, UUID(listed.id))).links
    assert found is not None
    assert found.expires_at == listed.until
    return run, found


def path(http: httpx.AsyncClient, link: str) -> str:
    return str(http.base_url.copy_with(path="/approve/" + link.rpartition("/")[2]))


async def test_a_page_shows_the_form_and_a_post_decides_once(app: Windlass, http: httpx.AsyncClient) -> None:
    run, found = await links(app)
    page = await http.get(path(http, found.approve))
    assert page.status_code == 200
    assert "Refund &lt;i&gt;42&lt;/i&gt;?" in page.text
    names = set(re.findall(r'name="([^"]+)"', page.text))
    assert names == {"viewport", "amount", "note", "method", "urgent", ".comment"}
    assert 'value="&lt;b&gt;"' in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    wrong = await http.post(path(http, found.approve), data={"amount": "500", "note": "kept"})
    assert (wrong.status_code, "values.amount" in wrong.text, 'value="kept"' in wrong.text) == (422, True, True)
    body = {"amount": "50", "note": "", "method": "7", "urgent": "true", ".comment": "fine"}
    assert "Approved." in (await http.post(path(http, found.approve), data=body)).text
    output = data(await http.get(f"/runs/{run}/output"))
    assert (output["by"], output["comment"]) == ("link", "fine")
    assert output["values"] == {"amount": 50, "method": 7, "urgent": True}
    for again in (await http.get(path(http, found.approve)), await http.post(path(http, found.reject))):
        assert (again.status_code, "approved by link" in again.text) == (410, True)


async def test_a_link_allows_only_its_decision(app: Windlass, http: httpx.AsyncClient) -> None:
    run, found = await links(app)
    page = await http.get(path(http, found.reject))
    assert ("<button>Reject</button>" in page.text, 'name="amount"' in page.text) == (True, False)
    await http.post(path(http, found.reject), data={".comment": "no"})
    assert data(await http.get(f"/runs/{run}"))["tasks"]["ok"]["reason"] == "rejected by link: no"


async def test_a_changed_token_is_refused(app: Windlass, http: httpx.AsyncClient) -> None:
    _, found = await links(app)
    token = found.approve.rpartition("/")[2]
    for wrong in (token[:-2], "x" + token[1:], token[:30] + ("A" if token[30] != "A" else "B") + token[31:], "%F0"):
        assert (await http.post(path(http, f"/{wrong}"))).status_code == 404


async def test_callers_who_may_not_decide_get_no_links(app: Windlass) -> None:
    await links(app)
    db = await app.open()
    viewer = db.database.tenant(db.org, actor="key:v", scopes=Role.VIEWER.scopes)
    [listed] = (await approvals.list_(viewer)).items
    assert (await approvals.get(viewer, UUID(listed.id))).links is None


@pytest.mark.parametrize("events", [["approval.requested"], ["approval.*"]])
async def test_subscribers_get_the_request_with_its_links(app: Windlass, events: list[str]) -> None:
    db = await app.open()
    await subscriptions.create(db, {"url": "https://mail.example.com/hook", "events": events})
    run, found = await links(app)
    made = 0
    while not made:
        made = (await subscriptions.feed(db.database)).deliveries
    async with db.begin() as conn:
        [row] = await conn.fetch("select payload from workflow.workflow_run where type = 'windlass.webhook.v1'")
    assert found.approve in row["payload"]
    assert str(run) in row["payload"]
