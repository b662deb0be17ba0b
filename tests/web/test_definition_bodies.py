"""Definitions as YAML, the methods of a path, and the errors for invalid bodies."""

import pytest

from tests.web.serving import data, problem, served
from windlass import Windlass

YAML = {"content-type": "application/yaml"}
WORKFLOW = b"""
name: one
tasks:
  a: {job: a.b.v1, if: 'input.on == "yes"'}
"""


async def test_a_definition_may_be_yaml(app: Windlass) -> None:
    async with served(app) as http:
        data(await http.post("/workflows", content=WORKFLOW, headers=YAML), 201)
        data(await http.put("/workflows/one", content=WORKFLOW, headers=YAML))
        assert data(await http.post("/workflows/preview", content=WORKFLOW, headers=YAML))["change"] == "unchanged"
        for body, told in (
            (b"a: [", "line 2"),
            (b"a: 1\na: 2", "duplicate"),
            (b"name: a\n---\nname: b", "2 YAML documents"),
            (b"\xff", "UTF-8"),
            (b"&a [&b [" + b"*a, " * 10 + b"]]", "YAML"),
            (b"- 1", "a workflow is an object"),
        ):
            assert told in problem(await http.post("/workflows", content=body, headers=YAML), 422)["detail"]
        for path in ("/workflows/one/trigger", "/workflows/one/runs", "/jobs"):
            problem(await http.post(path, content=b"a: 1", headers=YAML), 415)


async def test_a_405_lists_every_method_of_the_path(app: Windlass) -> None:
    async with served(app) as http:
        answer = await http.patch("/workflows/one", json={})
        assert answer.headers["allow"] == "DELETE, GET, PUT"
        assert problem(answer, 405)["detail"] == "PATCH is not allowed here: use DELETE, GET, PUT"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/workflows/one/runs", {"a": 1}, "the payload goes into `input`"),
        ("/jobs", {}, "type: is missing"),
        ("/jobs", {"type": 7}, "type: must be a string"),
        ("/jobs", {"type": "a", "priority": "high"}, "priority: must be an integer"),
        ("/jobs", {"type": "a", "retry": {"jitter": 2}}, "retry.jitter: must be 1.0 or less"),
        ("/jobs", {"type": "a", "retry": {"kind": "odd"}}, "retry.kind: must be one of 'constant'"),
        ("/jobs", {"type": "a", "kueue": "x"}, "kueue: is unknown: use type, payload, queue"),
        ("/jobs", {"type": "a", "delay": []}, "delay: it must be a string such as 1h30m"),
        ("/jobs", {"type": "a", "run_at": "soon"}, "run_at: must be a time such as"),
        ("/jobs/batch", {"jobs": []}, "jobs: must have at least 1 items"),
    ],
)
async def test_an_invalid_body_is_reported_in_the_windlass_error_format(
    app: Windlass, path: str, body: object, told: str
) -> None:
    async with served(app) as http:
        data(await http.post("/workflows", content=WORKFLOW, headers=YAML), 201)
        assert told in problem(await http.post(path, json=body), 422)["detail"]
