"""The schema registry and the validation of jobs; versions of job types."""

import asyncio
import json
from typing import Any

from tests.conformance.extension_client import extended
from windlass import Windlass
from windlass.core.jobs.spec import SchemaMode, version_precedence
from windlass.store import job_schemas as store

PERSON = {
    "type": "object",
    "required": ["to"],
    "properties": {"to": {"type": "string"}, "n": {"type": "integer", "minimum": 0}},
}
LISTED = {"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1}


def test_versions_sort_as_semver_does() -> None:
    ordered = ["draft", "v0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.2", "1.0.0-rc.10", "1.0",
               "1.2", "1.10", "2"]  # fmt: skip
    assert sorted(set(ordered), key=version_precedence) == ordered


async def test_versions_are_registered_once_read_and_deleted(app: Windlass) -> None:
    async with extended(app) as client:
        path = "/admin/schemas/email.send"
        await client.get(path, 404)
        await client.get(f"{path}/versions", 404)
        for version in ("1.0", "1.10", "1.9"):
            made = await client.put(f"{path}/{version}", {"schema": PERSON}, 201)
            assert (made["type"], made["version"], made["schema"]) == ("email.send", version, PERSON)
        assert (await client.put(f"{path}/1.0", {"schema": PERSON}, 409))["error"]["code"] == "conflict"
        for body in ({}, {"schema": None}, {"schema": "x"}, {"schema": {"type": "nonsense"}}):
            await client.put(f"{path}/2.0", body, 400)
        await client.put(f"{path}/2.0", {"schema": {"$ref": "https://example.com/other"}}, 400)
        assert (await client.get(f"{path}/1.9"))["version"] == "1.9"
        assert (await client.get(path))["version"] == (await client.get(f"{path}/latest"))["version"] == "1.10"
        listed = (await client.get(f"{path}/versions"))["versions"]
        assert [(one["version"], one["is_latest"]) for one in listed] == [
            ("1.10", True),
            ("1.9", False),
            ("1.0", False),
        ]
        await client.call("DELETE", f"{path}/1.10")
        await client.call("DELETE", f"{path}/1.10", status=404)
        assert (await client.get(path))["version"] == "1.9"
        # The alternative paths of the spec, and those of the SDK, which identifies a schema by its URI.
        pay = {"job_type": "pay", "version": "1.0.0", "schema": PERSON, "uri": "https://schemas.example.com/pay/1"}
        assert (await client.post("/schemas", pay, 201))["schema"]["job_type"] == "pay"
        assert (await client.get("/schemas/pay"))["schema"]["schema"] == PERSON
        assert len((await client.get("/schemas"))["schemas"]) == 3
        await client.call("DELETE", "/schemas/https://schemas.example.com/pay/1")
        await client.get("/schemas/pay", 404)


async def test_arguments_are_checked_and_the_error_names_the_path(app: Windlass) -> None:
    cases: list[tuple[Any, list[Any], str]] = [
        (PERSON, [{"n": -1, "to": "x"}], "args[0].n"),
        (PERSON, [{}], "args[0].to"),
        (LISTED, [7], "args[0]"),
        (LISTED, [], "args"),
    ]
    async with extended(app) as client:
        for n, (schema, args, path) in enumerate(cases):
            await client.put(f"/admin/schemas/strict.s{n}/1.0", {"schema": schema, "mode": "strict"}, 201)
            error = (await client.push(f"strict.s{n}", *args, status=422))["error"]
            assert error["code"] == "validation_error"
            assert path in [one["path"] for one in error["details"]["validation_errors"]]
            assert path in error["message"]


async def test_schemas_that_could_fetch_or_validate_forever_are_rejected(app: Windlass) -> None:
    many = {"allOf": [{"$ref": "#/$defs/d"}] * 1001, "$defs": {"d": True}}
    cases: list[tuple[Any, str]] = [
        ({"$ref": "#/x", "x": {"allOf": [{"$id": "http://127.0.0.1:9/", "$ref": "#/foo"}]}}, "$id"),
        ({"$id": "https://example.com/pay"}, "uri"),
        ({"$schema": "http://127.0.0.1:9/dialect"}, "2020-12"),
        ({"items": {"$dynamicRef": "file:///etc/passwd"}}, "another document"),
        ({"type": "array", "items": {"$ref": "#/$defs/gone"}}, "/$defs/gone"),
        ({"items": {"pattern": "^(?=a)"}}, "schema.items.pattern"),
        (many, "1001 references"),
    ]
    async with extended(app) as client:
        for schema, told in cases:
            error = (await client.put("/admin/schemas/bad.t/1.0", {"schema": schema}, 400))["error"]
            assert told in error["message"], error["message"]
        await client.get("/admin/schemas/bad.t", 404)
        fine = {"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"$id": {}, "id": {}}}
        await client.put("/admin/schemas/good.t/1.0", {"schema": fine}, 201)


async def test_a_schema_stored_by_an_older_version_is_read_without_fetching(app: Windlass) -> None:
    leaky = {"$ref": "#/x", "x": {"allOf": [{"$id": "http://127.0.0.1:9/", "$ref": "#/foo"}]}}
    async with (await app.open()).begin() as conn:
        await store.insert(
            conn,
            org="default",
            type_="old.t",
            version="1",
            uri=None,
            document=json.dumps(leaky),
            mode=SchemaMode.STRICT,
        )
    async with extended(app) as client:
        error = (await client.push("old.t", "guess", status=422))["error"]
        assert "the schema cannot be used" in error["message"]


async def test_a_slow_schema_does_not_block_other_requests(app: Windlass) -> None:
    """Regression test: each of these schemas blocked the process for hours."""
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": True}
    async with extended(app) as client:
        slow = {"schema": {"$ref": "#/$defs/d0", "$defs": doubling}}
        await client.put("/admin/schemas/slow.t/1.0", slow, 201)
        await client.put("/admin/schemas/slow.u/1.0", slow | {"mode": "strict"}, 201)
        await client.put("/admin/schemas/quick.t/1.0", {"schema": {"items": {"pattern": "^(a+)+$"}}}, 201)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            taken = group.create_task(client.push("slow.t", 1))
            refused = group.create_task(client.push("slow.u", 1, status=422))
            assert (await client.push("quick.t", "a" * 40 + "!"))["warnings"]
        assert "longer than 1 s" in taken.result()["warnings"][0]
        assert "longer than 1 s" in refused.result()["error"]["message"]


async def test_an_invalid_job_is_accepted_with_a_warning_unless_validation_is_requested(app: Windlass) -> None:
    async with extended(app) as client:
        await client.put("/admin/schemas/email.send/1.0", {"schema": PERSON}, 201)
        assert "warnings" not in await client.push("email.send", {"to": "x"})
        [warning] = (await client.push("email.send", {}))["warnings"]
        assert "email.send@1.0" in warning
        for named in ({"schema": "email.send@1.0"}, {"meta": {"ojs_validate": True}}):
            await client.push("email.send", {}, status=422, **named)
            await client.push("email.send", {"to": "x"}, **named)
        await client.push("test.middleware.reject", meta={"ojs_validate": True}, status=422)
        await client.put("/admin/schemas/email.send/2.0", {"schema": LISTED, "mode": "off"}, 201)
        assert "warnings" not in await client.push("email.send", 7)
        # A job may name the version of its schema.
        assert (await client.push("email.send", {}, version="1.0"))["warnings"]
        jobs = [{"type": "email.send", "args": [{"to": "x"}]}, {"type": "email.send", "args": [{}], "schema": "1.0"}]
        error = (await client.post("/jobs/batch", {"jobs": jobs}, 422))["error"]
        assert error["details"]["validation_errors"][0]["path"] == "jobs[1].args[0].to"
        assert len(await client.fetch(count=99)) == 6


async def test_a_job_keeps_its_version(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push("pay", version="2.0"))["job"]["id"]
        assert (await client.get(f"/jobs/{id_}"))["job"]["version"] == "2.0"
        [job] = await client.fetch()
        assert job["version"] == "2.0"
        assert (await client.post(f"/jobs/{id_}/ack", {"result": 1}))["job"]["state"] == "completed"
