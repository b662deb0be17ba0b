"""Entries that would behave differently in the durable engine are refused, with every reason."""

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.runtime.adoption_harness import cron_with, succeed, workflow
from windlass import InvalidWorkflow, Windlass
from windlass.cron import (
    FULL,
    CircuitBreaker,
    Condition,
    Cron,
    FakeClock,
    Observer,
    circuit_breaker,
    delay_if_running,
    max_concurrent,
    max_concurrent_skip,
    skip_if_running,
)
from windlass.cron import Workflow as CronWorkflow
from windlass.runtime.adoption import adopt


def refusal(cron: Cron, app: Windlass | None = None) -> list[tuple[str, str]]:
    """Return the reasons for the refusal; assert that nothing was adopted."""
    app = app or Windlass("postgres://nowhere/at_all")
    types, entries = app.handlers.types(), cron.entries()
    with pytest.raises(InvalidWorkflow) as raised:
        app.adopt(cron)
    assert app.handlers.types() == types
    assert cron.entries() == entries
    return raised.value.errors


BOTH_DAYS = "either day field"


@pytest.mark.parametrize(
    ("spec", "options", "says"),
    [
        ("@every 90s", {}, "counts from the start of this process"),
        ("0 0 13 * FRI", {}, BOTH_DAYS),
        ("0 0 1-31 * FRI", {}, BOTH_DAYS),
        ("H 2 * * *", {"dialect": FULL}, "without years and H"),
        ("0 0 0 1 1 * 2031", {"dialect": FULL}, "without years and H"),
        ("0 0 1 1 * 2031", {"dialect": FULL}, "without years and H"),
    ],
)
def test_specs_whose_meaning_would_change_are_refused(spec: str, options: dict[str, Any], says: str) -> None:
    cron = Cron(**options)
    cron.add(spec, succeed, name="entry")
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert says in what


def test_a_time_zone_without_a_name_is_refused() -> None:
    with open("/usr/share/zoneinfo/Europe/Berlin", "rb") as data:
        zone = ZoneInfo.from_file(data)
    cron = Cron(location=zone)
    cron.add("@daily", succeed, name="entry")
    ((_, what),) = refusal(cron)
    assert "no name" in what


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"run_once": True}, "app.start"),
        ({"run_immediately": True}, "app.start"),
        ({"paused": True}, "resume it"),
        ({"missed": "once", "grace": timedelta(hours=1)}, "grace"),
        ({"max_instances": 2}, "max_instances counts starts"),
        ({"wrappers": [max_concurrent(2)]}, "max_concurrent counts starts"),
        ({"wrappers": [max_concurrent_skip(2)]}, "max_concurrent_skip counts starts"),
        ({"wrappers": [circuit_breaker(3, timedelta(minutes=1))]}, "circuit_breaker counts starts"),
        ({"wrappers": [CircuitBreaker(3, timedelta(minutes=1))]}, "circuit_breaker counts starts"),
    ],
)
def test_options_without_an_equivalent_are_refused(options: dict[str, Any], says: str) -> None:
    cron = Cron(clock=FakeClock())
    cron.add("@daily", succeed, name="entry", **options)
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert says in what


def test_a_one_off_entry_is_refused() -> None:
    clock = FakeClock()
    cron = Cron(clock=clock)
    cron.add(clock.now() + timedelta(hours=1), succeed, name="entry")
    ((where, what),) = refusal(cron)
    assert where == "entry"
    assert "app.start" in what


@pytest.mark.parametrize("wrapper", [skip_if_running(), delay_if_running()])
def test_skip_and_delay_wrappers_on_a_single_step_are_refused(wrapper: Any) -> None:
    made = CronWorkflow("pair")
    made.step("a", "@daily", succeed)
    made.step("b", "@triggered", succeed, wrappers=[wrapper]).after("a")
    ((where, what),) = refusal(cron_with(made))
    assert where == "pair.b"
    assert "several workers" in what


def test_a_grace_without_catch_up_is_ignored() -> None:
    cron = Cron()
    cron.add("@daily", succeed, name="entry", grace=timedelta(hours=1))
    assert Windlass("postgres://nowhere/at_all").adopt(cron) == ["entry"]


def test_several_roots_and_scheduled_children_are_refused() -> None:
    made = workflow("two", {"a": succeed, "b": succeed, "c": succeed}, [("a", "c", Condition.SUCCESS)], spec="@daily")
    made.steps[1].spec = "@hourly"
    cron = cron_with(made)
    cron.update("c", spec="@weekly")
    reasons = dict(refusal(cron))
    assert "2 roots (a, b)" in reasons["two"]
    assert "its own schedule" in reasons["two.c"]


@pytest.mark.parametrize("name", ["no spaces", "-first", "x" * 101, "0192f0c1-2c4e-7a10-8000-000000000000"])
def test_invalid_workflow_names_are_refused_with_the_rule(name: str) -> None:
    cron = Cron()
    cron.add("@daily", succeed, name=name)
    ((where, what),) = refusal(cron)
    assert where == name
    assert "letters, digits" in what or "looks like an id" in what


def test_invalid_step_names_and_unnamed_entries_are_refused() -> None:
    cron = cron_with(workflow("etl", {"a": succeed, "b.c": succeed}, [("a", "b.c", Condition.SUCCESS)]))
    nameless = cron.add("@daily", succeed)
    reasons = dict(refusal(cron))
    assert "not a valid step name" in reasons["etl.b.c"]
    assert "name it" in reasons[f"#{nameless}"]


def test_names_that_are_taken_are_refused() -> None:
    app = Windlass("postgres://nowhere/at_all")
    app.workflow("etl")
    app.job("cron.report")(print)
    cron = cron_with(workflow("etl", {"a": succeed}, []))
    cron.add("@daily", succeed, name="report")
    assert [where for where, _ in refusal(cron, app)] == ["etl", "cron.report"]


def test_two_workflows_with_the_same_name_are_refused() -> None:
    cron = cron_with(workflow("etl", {"a": succeed}, []))
    cron.add("@daily", succeed, name="etl")
    ((where, what),) = refusal(cron)
    assert where == "etl"
    assert "two workflows" in what


def test_observers_are_refused() -> None:
    cron = Cron(observers=[Observer(on_job_complete=print)])
    assert ["observers are not called" in what for _, what in refusal(cron)] == [True]


async def test_a_running_scheduler_and_one_with_active_executions_are_refused() -> None:
    cron = cron_with(workflow("etl", {"a": succeed, "b": succeed}, [("a", "b", Condition.SUCCESS)]))
    async with cron:
        assert "stop it first" in refusal(cron)[0][1]
        cron.trigger("a")
    assert "have not ended" in refusal(cron)[0][1]
    async with cron:
        await cron.done()
    assert adopt(cron, Windlass("postgres://nowhere/at_all").handlers, ()).keys() == {"etl"}


def test_all_reasons_are_reported_at_once() -> None:
    cron = Cron(observers=[Observer(on_job_start=print)])
    cron.add("@every 5m", succeed, name="one", run_once=True, paused=True)
    cron.add("0 0 1 * MON", succeed, name="two words", wrappers=[max_concurrent(1)])
    reasons = refusal(cron)
    assert [where for where, _ in reasons] == ["", "one", "one", "one", "two words", "two words", "two words"]
