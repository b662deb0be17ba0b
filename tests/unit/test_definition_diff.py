"""The changes that a new version would make, line by line."""

import json
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import given

from tests.unit.test_workflow import workflows
from windlass.core.definition.parser import parse
from windlass.core.definition.publish import difference
from windlass.core.workflows.workflow import Workflow


def document(**tasks: Any) -> dict[str, Any]:
    return parse({"name": "w", "tasks": tasks}).to_document()


def signs(lines: list[str]) -> list[str]:
    return [line for line in lines if line[0] in "+-@"]


def test_a_changed_step_is_shown_with_its_context() -> None:
    assert difference(
        document(a={"sleep": "1s"}, b={"sleep": "1s"}), document(a={"sleep": "1s"}, b={"sleep": "2s"})
    ) == [
        "@@ tasks.b @@",
        " {",
        '   "name": "b",',
        '-  "sleep": "1s"',
        '+  "sleep": "2s"',
        " }",
    ]


def test_removed_and_added_steps_are_shown() -> None:
    told = signs(difference(document(a={"sleep": "1s"}), document(b={"sleep": "1s"})))
    assert told[:3] == ["@@ tasks.a @@", "-{", '-  "name": "a",']
    assert told[5:8] == ["@@ tasks.b @@", "+{", '+  "name": "b",']


def test_changed_workflow_options_and_a_changed_order_of_steps_are_shown() -> None:
    old, new = document(a={"sleep": 1}, b={"sleep": 1}), document(b={"sleep": 1}, a={"sleep": 1})
    assert signs(difference(old, new | {"description": "x"})) == [
        "@@ workflow @@",
        '+  "description": "x",',
        "@@ order of tasks @@",
        "-a, b",
        "+b, a",
    ]


def test_spelling_and_the_order_of_keys_in_values_do_not_matter() -> None:
    old = {"name": "w", "tasks": {"a": {"url": "https://x", "body": {"m": 1, "n": 2}, "retries": 5}}}
    new = {"name": "w", "tasks": [{"name": "a", "body": {"n": 2, "m": 1}, "url": "https://x", "method": "post"}]}
    assert difference(old, new) == []


def test_a_stored_definition_with_unknown_keys_is_compared_unchanged() -> None:
    old = {"name": "w", "tasks": [{"name": "a", "sleep": "1s", "gone": 1}]}
    assert '-  "gone": 1' in difference(old, document(a={"sleep": "1s"}))


@given(workflows(), workflows())
def test_only_equal_definitions_have_no_difference(old: Workflow, new: Workflow) -> None:
    new = replace(new, name=old.name)
    assert difference(old.to_document(), json.loads(json.dumps(old.to_document(), sort_keys=True))) == []
    assert bool(difference(old.to_document(), new.to_document())) == (old.fingerprint != new.fingerprint)


@pytest.mark.parametrize("input_", [{"n": 1}, {"rows": list(range(30_000))}], ids=["many steps", "a large step"])
def test_large_definitions_are_compared_quickly(input_: dict[str, Any]) -> None:
    count = 5000 if "n" in input_ else 1
    old, new = (
        document(**{f"s{n}": {"job": f"a.b.v{v}", "input": input_ | {"v": v}} for n in range(count)}) for v in (1, 2)
    )
    start = process_time()
    assert len(difference(old, new)) > count
    assert process_time() - start < 5
