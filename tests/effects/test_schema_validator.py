"""Untrusted JSON Schemas: nothing is fetched, and no validation exceeds its deadline."""

import http.server
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.effects.schema_validator import SchemaValidator, TooSlow
from windlass.errors import Unavailable

NESTED: Any = 1
for _ in range(60):
    NESTED = [NESTED]
DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": True}


@pytest.fixture
async def validator() -> AsyncIterator[SchemaValidator]:
    opened = SchemaValidator(deadline=0.3)
    await opened.mistake("{}")  # the process is up
    yield opened
    await opened.close()


@pytest.fixture
def internal() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of an internal service and the paths that are requested from it."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"foo": {"const": "SECRET"}}')

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/latest", seen
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_schema_never_makes_the_server_fetch_anything(
    validator: SchemaValidator, internal: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, seen = internal
    file = tmp_path / "secret.json"
    file.write_text('{"foo": {"const": "SECRET"}}')
    for base in (address, file.as_uri()):
        inner = {"$id": base, "$ref": "#/foo"}
        for schema in ({"$ref": "#/x", "x": {"allOf": [inner]}}, {"$ref": base}, inner, {"$schema": base}):
            text = json.dumps(schema)
            assert "SECRET" not in str([await validator.mistake(text), await validator.problems(text, ["guess"])])
    assert seen == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/d0", "$defs": DOUBLING}, [1]),
        ({"allOf": [{"items": {"$ref": "#"}}] * 2}, NESTED),
    ],
    ids=["references that double", "items that double"],
)
@pytest.mark.exclusive
async def test_a_validation_beyond_its_deadline_is_aborted_and_others_continue(
    validator: SchemaValidator, schema: dict[str, Any], value: Any
) -> None:
    text = json.dumps(schema)
    with pytest.raises(TooSlow, match=r"longer than 0\.3 s"):
        await validator.problems(text, value)
    began = time.monotonic()
    with pytest.raises(TooSlow):  # not tried again: it would keep the others waiting
        await validator.problems(text, value)
    assert time.monotonic() - began < 0.2
    assert await validator.problems('{"type": "array"}', 1) == [([], '1 is not of type "array"')]


async def test_the_first_invalid_value_of_a_list_is_reported(validator: SchemaValidator) -> None:
    schema = json.dumps({"type": "integer"})
    assert await validator.first_misfit(schema, [1, 2, 3]) is None
    assert await validator.first_misfit(schema, []) is None
    assert await validator.first_misfit(schema, [1, "two", "three"]) == (1, [([], '"two" is not of type "integer"')])


async def test_patterns_take_linear_time(validator: SchemaValidator) -> None:
    schema = json.dumps({"items": {"pattern": "^(a+)+$"}})
    [(path, _)] = await validator.problems(schema, ["a" * 100_000 + "!"])
    assert path == [0]
    for pattern in ("^(?=a)b", r"(a)\1", "((a{1,1000}){1,1000}){1,1000}"):  # not linear, or far too large
        mistake = await validator.mistake(json.dumps({"items": {"pattern": pattern}}))
        assert mistake is not None
        assert mistake[0] == ["items", "pattern"]


async def test_a_killed_validator_process_is_replaced(validator: SchemaValidator) -> None:
    process = validator._process
    assert process is not None
    process.kill()
    await process.wait()
    with pytest.raises(Unavailable, match="ended"):
        await validator.problems("{}", 1)
    assert await validator.problems("{}", 1) == []
