"""The schema for editors has every key that the parser reads, and no other."""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from windlass.core import duration
from windlass.core.definition import action, step
from windlass.core.definition import parser as definition
from windlass.core.definition.json_schema import DURATION, SCHEMA
from windlass.core.definition.parser import parse
from windlass.errors import Invalid, InvalidWorkflow

STEP = SCHEMA["$defs"]["step"]


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return the alternatives of a key that are objects with known keys."""
    return [one["properties"] for one in schema["anyOf"] if "properties" in one]


@pytest.mark.parametrize(
    ("known", "read"),
    [
        (SCHEMA["properties"], definition.WORKFLOW_KEYS),
        (objects(SCHEMA["properties"]["trigger"])[0], definition.TRIGGER_KEYS),
        (STEP["properties"], step.STEP_KEYS),
        (STEP["properties"]["retry"]["properties"], step.RETRY_KEYS),
        (objects(STEP["properties"]["wait_for_webhook"])[0], action.HOOK_KEYS),
        (objects({"anyOf": STEP["properties"]["needs"]["anyOf"][0]["items"]["anyOf"]})[0], step.NEED_KEYS),
    ],
    ids=["workflow", "trigger", "step", "retry", "wait_for_webhook", "needs"],
)
def test_the_keys_of_the_schema_are_those_of_the_parser(known: dict[str, Any], read: Collection[str]) -> None:
    assert set(known) == set(read)


@pytest.mark.parametrize("key", sorted(step.STEP_KEYS))
def test_the_parser_reads_every_key_of_the_schema(key: str) -> None:
    with pytest.raises(InvalidWorkflow) as refusal:
        parse({"name": "no name", "tasks": {"a": {key: ["?"]}}})
    assert "unknown key" not in str(refusal.value)


def test_the_kinds_of_steps_are_those_of_the_parser() -> None:
    assert [one["required"] for one in STEP["oneOf"]] == [[key] for key in action.ACTIONS]


def test_every_key_has_a_description_for_the_editor() -> None:
    for properties in (SCHEMA["properties"], STEP["properties"]):
        assert [key for key, schema in properties.items() if not schema.get("description")] in ([], ["$schema"])


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "text", ["30s", "1h30m", "500ms", "2.5d", "1d2h3m4s5ms", " 5m ", "5", "", " ", "m", "1h1d", "-1s"]
)
def test_the_pattern_of_durations_accepts_what_the_parser_accepts(text: str) -> None:
    try:
        duration.parse(text)
    except Invalid:
        assert not re.search(DURATION, text)
    else:
        assert re.search(DURATION, text)


@pytest.mark.parametrize(
    "key",
    sorted({*definition.WORKFLOW_KEYS, *definition.TRIGGER_KEYS, *step.STEP_KEYS, *step.RETRY_KEYS}),
)
def test_every_key_is_in_the_reference(key: str) -> None:
    page = Path(__file__).parents[2] / "docs/reference/workflow-file.md"
    assert f"`{key}`" in page.read_text("utf-8")
