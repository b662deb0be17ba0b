"""Approvals over real HTTP."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.e2e.cli_process import Cli
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.client import AsyncClient
from windlass.core.orgs import Role
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.errors import Conflict, Invalid

FORM = {"properties": {"amount": {"type": "number"}}, "required": ["amount"]}
WORKFLOW = {"name": "refund", "tasks": {"ok": {"approve": {"message": "Refund?", "form": FORM, "timeout": "1d"}}}}


async def waiting(app: Windlass) -> UUID:
    await app.deploy(WORKFLOW)
    return (await app.start("refund")).id


async def test_an_approval_is_listed_and_decided(app: Windlass) -> None:
    run = await waiting(app)
    async with served(app) as http:
        assert data(await http.get(f"/runs/{run}"))["tasks"]["ok"]["type"] == "approve"
        [approval] = data(await http.get("/approvals", params={"workflow": "refund", "state": "open"}))
        assert (approval["run_id"], approval["message"], approval["may_decide"]) == (str(run), "Refund?", True)
        path = f"/approvals/{approval['id']}"
        shown = data(await http.get(path))
        assert "/approve/" in shown["links"]["approve"]
        assert shown | {"links": None} == approval
        decided = data(await http.post(f"{path}/approve", json={"values": {"amount": 5}, "comment": "fine"}))
        assert (decided["state"], decided["values"], decided["comment"]) == ("approved", {"amount": 5}, "fine")
        assert data(await http.get(f"/runs/{run}/output"))["values"] == {"amount": 5}
        again = problem(await http.post(f"{path}/reject"), 409)
        assert again["detail"] == f"approval {approval['id']} was already decided: approved by operator"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "values.amount"),
        ({"values": {"amount": "5"}}, "values.amount"),
        ({"values": [5]}, "values"),
        ({"values": {"amount": 5}, "comment": 1}, "comment"),
        ({"value": {"amount": 5}}, "value"),
    ],
)
async def test_an_invalid_decision_is_rejected_with_the_field(app: Windlass, body: Any, field: str) -> None:
    await waiting(app)
    async with served(app) as http:
        [approval] = data(await http.get("/approvals"))
        assert field in fields(await http.post(f"/approvals/{approval['id']}/approve", json=body))
        assert data(await http.get(f"/approvals/{approval['id']}"))["state"] == "open"


async def test_bad_requests_are_refused(app: Windlass) -> None:
    run = await waiting(app)
    async with served(app) as http:
        [approval] = data(await http.get("/approvals"))
        assert problem(await http.get("/approvals", params={"workflow": "none"}), 404)["what"] == "workflow"
        assert problem(await http.post(f"/approvals/{uuid4()}/approve"), 404)["what"] == "approval"
        assert "state" in fields(await http.get("/approvals", params={"state": "done"}))
        assert "before" in fields(await http.get("/approvals", params={"before": "x"}))
        await http.post(f"/runs/{run}/cancel")
        assert "its run was stopped" in problem(await http.post(f"/approvals/{approval['id']}/reject"), 410)["detail"]


async def test_the_client_decides_and_raises_the_servers_errors(app: Windlass) -> None:
    await waiting(app)
    async with served(app) as http, AsyncClient(str(http.base_url).removesuffix("/")) as client:
        [approval] = [one async for one in client.approvals.list(state=["open"], workflow="refund")]
        with pytest.raises(Invalid) as refused:
            await client.approvals.approve(approval.id)
        assert refused.value.field == "values.amount"
        assert (await client.approvals.reject(approval.id, comment="no")).state == "rejected"
        with pytest.raises(Conflict, match="rejected by operator"):
            await client.approvals.approve(approval.id, {"amount": 1})


async def test_the_command_line_lists_shows_and_decides(app: Windlass, tmp_path: Path, database: str) -> None:
    cli = Cli(tmp_path, database)
    await waiting(app)
    [approval] = json.loads((await cli("approvals", "list", "--state", "open", "--json")).out)["approvals"]
    id_ = approval["id"]
    assert "Refund?" in (await cli("approvals", "list")).out
    assert '"amount"' in (await cli("approvals", "show", id_)).out
    wrong = await cli("approvals", "approve", id_, "-v", "amount=much")
    assert (wrong.code, "values.amount" in wrong.err) == (1, True)
    approved = await cli("approvals", "approve", id_, "-v", "amount=5", "--comment", "fine")
    assert (approved.code, approved.out) == (0, f"approved {id_}\n"), approved.err
    async with served(app) as http:
        url = str(http.base_url).removesuffix("/api/v1/")
        again = await cli("--url", url, "approvals", "reject", id_)
        assert (again.code, "was already decided: approved by" in again.err) == (1, True)
        shown = json.loads((await cli("--url", url, "approvals", "show", id_, "--json")).out)
        assert (shown["values"], shown["comment"]) == ({"amount": 5}, "fine")


async def test_a_key_needs_the_operator_role_to_decide(app: Windlass) -> None:
    await waiting(app)
    db = await app.open()
    await orgs.create(db, "acme")
    viewer = {"x-api-key": str((await keys.create(db, name="v", role=Role.VIEWER)).key)}
    theirs = {"x-api-key": str((await keys.create(db.tenant("acme"), role=Role.ADMIN)).key)}
    async with served(app, keys=("operators-key-of-32-characters!!",)) as http:
        [approval] = data(await http.get("/approvals", headers=viewer))
        assert approval["may_decide"] is False
        refused = problem(await http.post(f"/approvals/{approval['id']}/reject", headers=viewer), 403)
        assert refused["detail"] == "key:v may not decide this approval: it needs the role of an operator"
        assert data(await http.get("/approvals", headers=theirs)) == []
        operator = {"x-api-key": str((await keys.create(db, name="o", role=Role.OPERATOR)).key)}
        unknown = problem(await http.post(f"/approvals/{approval['id']}/reject", headers=theirs), 404)
        assert unknown["what"] == "approval"
        body = {"values": {"amount": 1}}
        decided = data(await http.post(f"/approvals/{approval['id']}/approve", json=body, headers=operator))
        assert (decided["state"], decided["by"]) == ("approved", "key:o")
