"""`{{secrets.NAME}}`: where it is allowed, what is stored, and what is sent."""

from typing import Any

import pytest

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice, check, hidden, names_of_secrets
from windlass.core.expressions.scope import Facts
from windlass.core.workflows.step_payload import compile_payload, reveal, secrets_of
from windlass.core.workflows.workflow import Workflow
from windlass.errors import InvalidWorkflow, TemplateError

REFERENCE = "{{secrets.TOKEN}}"


def of(*, needs: Any = None, trigger: Any = None, **step: Any) -> Workflow:
    tasks = {"before": {"job": "a.b.v1"}, "step": {"needs": ["before"], **step}}
    return parse({"name": "w", "tasks": tasks} | ({} if trigger is None else {"trigger": trigger}))


def stored(facts: Facts | None = None, **step: Any) -> dict[str, Any]:
    payload: dict[str, Any] = compile_payload(of(**step).steps[1].action).fill(facts or Facts())
    return payload


def sent(value: str, facts: Facts | None = None, **step: Any) -> dict[str, Any]:
    return reveal(stored(facts, **step), {"TOKEN": value})


# Where


@pytest.mark.parametrize(
    "step",
    [
        {"url": f"https://example.com/{REFERENCE}"},
        {"url": f"{REFERENCE}/path"},
        {"url": "https://example.com/", "headers": {"X": f"Bearer {REFERENCE}"}},
        {"url": "https://example.com/", "query": {"key": [REFERENCE]}},
        {"url": "https://example.com/", "body": {"a": [{"b": f"x{REFERENCE}"}]}},
        {"run": f"curl -H {REFERENCE}"},
        {"wait_for_webhook": {"secret": REFERENCE}},
    ],
)
def test_steps_that_only_send_a_value_may_use_secrets(step: dict[str, Any]) -> None:
    assert list(names_of_secrets(check(of(**step)))) == ["TOKEN"]


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({"job": "a.b.v1", "input": {"key": REFERENCE}}, "input.key"),
        ({"workflow": "child", "input": [REFERENCE]}, "input[0]"),
        ({"run": "true", "input": {"key": REFERENCE}}, "input.key"),
        ({"url": "https://example.com/", "if": "secrets.TOKEN == 'x'"}, "if"),
        ({"url": "https://example.com/", "foreach": "secrets.TOKEN"}, "foreach"),
        ({"url": "https://example.com/", "parallel": "secrets.TOKEN"}, "parallel"),
    ],
)
def test_secrets_in_fields_whose_values_are_stored_are_refused(step: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidWorkflow) as refusal:
        of(**step)
    [(path, message)] = refusal.value.errors
    assert path == f"tasks.step.{place}"
    assert "secrets are known only in the url, headers, query and body of `url` steps" in message


@pytest.mark.parametrize(
    "text", ["{{secrets}}", "{{secrets.A.b}}", "{{secrets[0]}}", "{{secrets.a-b}}", "{{secrets.1}}"]
)
def test_a_reference_to_a_secret_is_a_name_and_nothing_else(text: str) -> None:
    with pytest.raises(InvalidWorkflow, match=r"secret|no members"):
        of(url="https://example.com/", body=text)


# What is stored


def test_the_payload_keeps_the_reference_and_its_position() -> None:
    payload = stored(
        url=f"https://example.com/{REFERENCE}/x", headers={"Auth": f"Bearer {REFERENCE}"}, body=[REFERENCE]
    )
    assert payload["url"] == "https://example.com/{{secrets.TOKEN}}/x"
    assert payload["headers"] == {"Auth": "Bearer {{secrets.TOKEN}}"}
    assert payload["secrets"] == [
        {"at": ["url"], "start": 20, "name": "TOKEN", "form": "quoted"},
        {"at": ["headers", "Auth"], "start": 7, "name": "TOKEN", "form": "text"},
        {"at": ["body", 0], "start": 0, "name": "TOKEN", "form": "text"},
    ]
    assert secrets_of(payload) == ["TOKEN"]


def test_the_payload_of_a_step_without_secrets_has_no_secrets_field() -> None:
    assert "secrets" not in stored(url="https://example.com/", body="{{run.id}}", facts=Facts(run_id="r"))


def test_a_step_with_secrets_and_no_other_templates_is_constant() -> None:
    assert compile_payload(of(url=f"https://example.com/{REFERENCE}").steps[1].action).is_constant


def test_values_of_a_run_that_look_like_references_are_not_resolved() -> None:
    facts = Facts(trigger_body={"evil": "{{secrets.OTHER}} {{secrets.TOKEN}}"})
    payload = sent(
        "s3cr3t", facts, url="https://example.com/", body=f"{{{{input.evil}}}} {REFERENCE} {{{{input.evil}}}}"
    )
    evil = "{{secrets.OTHER}} {{secrets.TOKEN}}"
    assert payload["body"] == f"{evil} s3cr3t {evil}"


def test_a_secret_whose_value_looks_like_a_reference_is_sent_unchanged() -> None:
    assert sent("{{secrets.TOKEN}}", url="https://example.com/", body=f"<{REFERENCE}{REFERENCE}>")["body"] == (
        "<{{secrets.TOKEN}}{{secrets.TOKEN}}>"
    )


# What is sent


@pytest.mark.parametrize(
    ("url", "value", "result"),
    [
        (f"{REFERENCE}", "https://hooks.example.com/a/b", "https://hooks.example.com/a/b"),
        (f"{REFERENCE}/x?y={REFERENCE}", "https://a.b/c", "https://a.b/c/x?y=https%3A%2F%2Fa.b%2Fc"),
        (f"https://{REFERENCE}.example.com/", "tenant-7", "https://tenant-7.example.com/"),
        (f"https://example.com:{REFERENCE}/", "8443", "https://example.com:8443/"),
        (f"https://example.com/a/{REFERENCE}/b", "../x y", "https://example.com/a/..%2Fx%20y/b"),
        (f"https://example.com/?k={REFERENCE}&l=1", "a&b=c#d", "https://example.com/?k=a%26b%3Dc%23d&l=1"),
    ],
)
def test_a_secret_in_a_url_is_encoded_for_its_position(url: str, value: str, result: str) -> None:
    assert sent(value, url=url)["url"] == result


@pytest.mark.parametrize(
    ("url", "value"),
    [
        (f"https://{REFERENCE}.example.com/", "evil.com/"),
        (f"https://example.com:{REFERENCE}/", "80@evil"),
        (f"https://example.com/a/{REFERENCE}/b", ".."),
        (f"{REFERENCE}/x", "https://a.b/ c"),
        (f"https://example.com/{REFERENCE}", "x" * 9000),
    ],
)
def test_a_secret_that_is_invalid_in_its_position_is_refused_without_revealing_it(url: str, value: str) -> None:
    with pytest.raises(TemplateError, match=r"\{\{secrets\.TOKEN\}\} cannot be used here") as refusal:
        sent(value, url=url)
    assert value == ".." or value not in str(refusal.value)


def test_a_command_receives_secrets_only_as_environment_variables() -> None:
    payload = stored(run=f'echo "{REFERENCE}" {{{{run.id}}}}', facts=Facts(run_id="r"))
    assert payload["run"] == 'echo "${WINDLASS_VALUE_1?}" "${WINDLASS_VALUE_2?}"'
    assert payload["values"] == {"WINDLASS_VALUE_1": "{{secrets.TOKEN}}", "WINDLASS_VALUE_2": "r"}
    assert reveal(payload, {"TOKEN": "$(id)"})["values"]["WINDLASS_VALUE_1"] == "$(id)"


# Secrets of signed requests


def test_a_reference_is_shown_but_a_literal_secret_is_masked_and_causes_a_warning() -> None:
    literal = of(wait_for_webhook={"secret": "a-secret-of-sixteen"}, trigger={"webhook": {"secret": "b" * 20}})
    assert [line.partition(" of w ")[0] for line in advice(literal)] == [
        "trigger.webhook.secret",
        "tasks.step.wait_for_webhook.secret",
    ]
    assert all("windlass secrets set NAME" in line for line in advice(literal))
    assert "***" in str(hidden(literal.to_document()))
    assert "sixteen" not in str(hidden(literal.to_document()))
    referring = check(of(wait_for_webhook={"secret": REFERENCE}, trigger={"webhook": {"secret": "{{ secrets.B }}"}}))
    assert hidden(referring.to_document()) == referring.to_document()
    assert advice(referring) == []
    assert names_of_secrets(referring) == {
        "B": "trigger.webhook.secret",
        "TOKEN": "tasks.step.wait_for_webhook.secret",
    }
