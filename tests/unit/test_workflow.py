"""A workflow is a value: its canonical document reproduces it, and its fingerprint identifies the version."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.parser import checked, parse
from windlass.core.events.message import MAX_COUNT
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.orgs import Role
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    Escalation,
    EventAction,
    FanOut,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    OnTimeout,
    Parallel,
    Placement,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, Trigger, WebhookTrigger, Workflow
from windlass.errors import InvalidWorkflow

NAMES = ["fetch", "x", "send-receipt", "_1", "Ab-9", "clean"]


def without_templates(text: str) -> bool:
    return "{{" not in text


words = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8).filter(
    without_templates
)
lines = st.from_regex(r"[a-z{}.][a-z {}.]{0,8}[a-z]", fullmatch=True).filter(without_templates)
conditions = st.sampled_from(["failure()", "trigger.body.n > 1", "input.mode in ['full', 'slow'] || !success()"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
spans = st.timedeltas(timedelta(microseconds=1), timedelta(days=36_525))
retries = st.builds(
    Retry,
    kind=st.sampled_from(Backoff),
    base=st.floats(0, 1e9) | st.integers(0, 10**6),
    factor=st.floats(0.001, 100),
    cap=st.none() | st.floats(0, 1e9),
    jitter=st.floats(0, 1),
)
POOLS = ("subprocess", "gpu")
placements = st.builds(
    Placement,
    runs_on=st.sampled_from(POOLS),
    image=st.none() | lines,
    resources=st.fixed_dictionaries({}, optional={"cpu": st.just("500m"), "memory": st.just("2Gi"), "gpu": st.just(1)}),
    env=st.dictionaries(st.sampled_from(["MODE", "lang"]), words, max_size=2),
)
priorities = st.integers(-(10**6), 10**6)
jobs: st.SearchStrategy[Action] = st.builds(
    JobAction, type=lines, input=values, queue=lines, priority=priorities
) | st.builds(JobAction, type=lines, input=values, priority=priorities, placement=placements)
requests: st.SearchStrategy[Action] = st.builds(
    HttpAction,
    url=st.sampled_from(["https://x.example/{{ trigger.body.n }}", "http://x", "{{trigger.body.url}}"]),
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    headers=st.dictionaries(st.from_regex(r"[A-Za-z-]{1,9}", fullmatch=True), lines, max_size=2),
    query=st.dictionaries(words, words | st.integers() | st.lists(words, max_size=2), max_size=2),
    body=values,
)
commands: st.SearchStrategy[Action] = st.builds(
    CommandAction, run=lines, placement=st.just(Placement()) | placements, input=values
)
children: st.SearchStrategy[Action] = st.builds(ChildAction, workflow=st.just("monthly-report"), input=values)
sleeps: st.SearchStrategy[Action] = st.builds(SleepAction, st.just(timedelta()) | spans)
secrets = lines.map(lambda line: f"a long prefix, {line}")
hooks: st.SearchStrategy[Action] = st.builds(HookAction, st.none() | spans, st.none() | secrets)
events: st.SearchStrategy[Action] = st.builds(
    EventAction, lines, st.none() | st.just("") | lines, st.none() | spans, st.integers(1, MAX_COUNT)
)
roles = st.lists(st.sampled_from(Role), min_size=1, unique=True).map(tuple)
ends = st.sampled_from(OnTimeout) | st.builds(Escalation, roles, st.none() | spans)
forms = st.none() | st.just({"properties": {"amount": {"type": "number"}}})
approvals: st.SearchStrategy[Action] = st.builds(
    ApprovalAction,
    lines,
    forms,
    roles,
    spans,
    ends,
    st.none() | st.timedeltas(timedelta(minutes=1), timedelta(days=36_525)),
)
triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.just(ApiTrigger()),
    st.just(WebhookTrigger()),
    st.builds(
        CronTrigger,
        cron=st.sampled_from(["0 2 * * *", "@daily", "TZ=Asia/Tokyo 5 4 * * MON"]),
        timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
        input=values,
        overlap=st.sampled_from(Overlap),
        catch_up=st.sampled_from(CatchUp),
    ),
)


@st.composite
def steps(draw: st.DrawFn, name: str, before: list[str], final: bool) -> Step:
    action = draw(st.one_of(jobs, requests, commands, children, sleeps, hooks, events, approvals))
    edge = st.builds(Edge, st.sampled_from(before or ["-"]), st.sampled_from(Condition))
    edges = draw(st.lists(edge, max_size=4)) if before and not final else []
    tried = isinstance(action, JobAction | HttpAction | CommandAction)
    timed = tried or isinstance(action, ChildAction)
    sources = ["input.files", "trigger"] + [f"{e.parent}.files" for e in edges] + (before if final else [])
    fan_outs: st.SearchStrategy[FanOut | None] = st.one_of(
        st.none(),
        st.builds(Foreach, st.sampled_from(sources)),
        st.builds(Parallel, st.integers(0, 9) | st.sampled_from(sources)),
    )
    fan_out = draw(fan_outs) if timed else None
    if isinstance(fan_out, Foreach) and isinstance(action, JobAction | CommandAction | ChildAction):
        action = replace(action, input={"n": action.input})
    return Step(
        name=name,
        action=action,
        edges=tuple(edges),
        join=Join.ALL if final else draw(st.sampled_from(Join)),
        condition=draw(st.none() | conditions),
        final=final,
        fan_out=fan_out,
        concurrency=draw(st.none() | st.integers(1, 9)) if fan_out else None,
        max_attempts=draw(st.integers(1, 1000)) if tried else 1,
        retry=draw(st.none() | retries) if tried else None,
        timeout=draw(spans if isinstance(action, HttpAction) else st.none() | spans) if timed else None,
    )


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    final = draw(st.booleans())
    return Workflow(
        name=draw(st.sampled_from(["etl", "order-processing", "9.v2_x"])),
        steps=tuple(draw(steps(name, names[:n], final=final and n == len(names) - 1)) for n, name in enumerate(names)),
        trigger=draw(triggers),
        description=draw(st.none() | lines),
        max_duration=draw(spans),
        concurrency=draw(st.none() | st.integers(1, 99)),
        labels=draw(st.dictionaries(lines, lines, max_size=3)),
    )


@given(workflows())
def test_a_workflow_round_trips_through_its_canonical_document(workflow: Workflow) -> None:
    again = parse(workflow.to_document())
    assert again == workflow
    assert again.to_document() == workflow.to_document()
    assert again.fingerprint == workflow.fingerprint


@given(workflows())
def test_a_document_does_not_depend_on_the_order_of_its_keys(workflow: Workflow) -> None:
    stored = json.loads(json.dumps(workflow.to_document(), sort_keys=True))
    assert parse(stored) == workflow


@given(workflows(), st.data())
def test_a_document_with_a_random_value_in_any_place_is_parsed_or_refused(
    workflow: Workflow, data: st.DataObject
) -> None:
    document = json.loads(json.dumps(workflow.to_document()))
    place = data.draw(st.sampled_from(places(document)))
    place(data.draw(values))
    for path, message in errors_in(document):
        assert path
        assert message


@given(st.dictionaries(st.sampled_from(["name", "tasks", "trigger", "labels", "max_duration"]), values) | values)
def test_any_json_is_parsed_or_refused(document: Any) -> None:
    errors_in(document)


def errors_in(document: Any) -> list[tuple[str, str]]:
    try:
        checked(parse(document))
    except InvalidWorkflow as refusal:
        return refusal.errors
    return []


def places(document: Any) -> list[Callable[[Any], None]]:
    """Return a setter for each place in a document."""
    found: list[Callable[[Any], None]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            found.append(partial(holder.__setitem__, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


ETL = Workflow("etl", (Step(name="a", action=JobAction("a.b.v1")), Step(name="b", action=SleepAction(timedelta(1)))))


@pytest.mark.parametrize(
    "other",
    [
        replace(ETL, name="elt"),
        replace(ETL, trigger=WebhookTrigger()),
        replace(ETL, trigger=CronTrigger("@daily")),
        replace(ETL, description="nightly"),
        replace(ETL, max_duration=timedelta(days=1)),
        replace(ETL, concurrency=1),
        replace(ETL, labels={"team": "data"}),
        replace(ETL, steps=ETL.steps[::-1]),
        replace(ETL, steps=ETL.steps[:1]),
        replace(ETL, steps=(replace(ETL.steps[0], max_attempts=2), ETL.steps[1])),
        replace(ETL, steps=(ETL.steps[0], replace(ETL.steps[1], edges=(Edge("a"),)))),
        replace(ETL, steps=(ETL.steps[0], replace(ETL.steps[1], edges=(Edge("a", Condition.FAILURE),)))),
    ],
    ids=str,
)
def test_every_difference_changes_the_fingerprint(other: Workflow) -> None:
    assert other.fingerprint != ETL.fingerprint


def test_spelling_does_not_change_the_fingerprint() -> None:
    ours = {"name": "w", "tasks": {"a": {"url": "https://x", "retries": 5, "timeout": "30s"}}}
    theirs = {"tasks": [{"name": "a", "url": "https://x", "method": "post"}], "trigger": "api", "name": "w"}
    assert parse(ours).fingerprint == parse(theirs).fingerprint


def test_the_plan_is_created_once() -> None:
    assert ETL.plan is ETL.plan
    assert ETL.plan.steps == ETL.steps


def test_the_canonical_document_leaves_out_unset_fields() -> None:
    assert replace(ETL, concurrency=2).to_document() == {
        "name": "etl",
        "trigger": "api",
        "max_duration": "30d",
        "concurrency": 2,
        "tasks": [
            {"name": "a", "job": "a.b.v1", "queue": "default", "max_attempts": 1},
            {"name": "b", "sleep": "1d"},
        ],
    }


def test_an_http_step_built_without_a_timeout_gets_the_default() -> None:
    built = Workflow("w", (Step(name="a", action=HttpAction("https://x")),))
    assert checked(built).steps[0].timeout == timedelta(seconds=30)


def test_a_workflow_built_in_python_is_checked_by_the_same_rules() -> None:
    built = replace(ETL, steps=(replace(ETL.steps[1], edges=(Edge("nobody"),), max_attempts=3),))
    with pytest.raises(InvalidWorkflow) as refusal:
        checked(built)
    assert [path for path, _ in refusal.value.errors] == ["tasks.b.max_attempts", "tasks.b.needs"]
