"""Every workflow file among the examples is valid, behaves as described, and only uses jobs and requests that exist."""

from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest
from examples import pipeline
from examples.shop import Shop

from windlass import Context, NonRetryable
from windlass.core.definition.json_schema import SCHEMA
from windlass.core.definition.parser import parse
from windlass.core.workflows.step import Condition, Edge, Foreach, HookAction, HttpAction, JobAction, SleepAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.effects.context import Upstream
from windlass.effects.documents import read

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".json"))


def workflow(name: str) -> Workflow:
    (document,) = read(EXAMPLES / name)
    return parse(document)


def steps(name: str) -> dict[str, Step]:
    return {step.name: step for step in workflow(name).steps}


def test_the_documented_examples_exist() -> None:
    assert {"order-processing.yaml", "trial-expiry.yaml", "checkout-flow.yaml", "foreach-pipeline.yaml"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_file_contains_the_workflow_of_its_name(name: str) -> None:
    read_ = workflow(name)
    assert f"{read_.name}.yaml" == name
    assert parse(read_.to_document()) == read_


@pytest.mark.parametrize("name", FILES)
def test_every_key_is_in_the_schema_for_editors(name: str) -> None:
    (document,) = read(EXAMPLES / name)
    assert document.keys() <= SCHEMA["properties"].keys()


@pytest.mark.parametrize("name", FILES)
def test_every_request_goes_to_a_route_of_the_shop(name: str) -> None:
    paths = {route.path for route in Shop().routes()}
    asked = {step.action.url for step in workflow(name).steps if isinstance(step.action, HttpAction)}
    assert {url.removeprefix("{{input.shop}}") for url in asked} <= paths


@pytest.mark.parametrize("name", FILES)
def test_every_job_has_a_handler_among_the_examples(name: str) -> None:
    modules = [path.stem for path in EXAMPLES.glob("*.py") if "\napp = Windlass(" in path.read_text("utf-8")]
    served = {type_ for module in modules for type_ in import_module(f"examples.{module}").app.handlers.types()}
    assert {step.action.type for step in workflow(name).steps if isinstance(step.action, JobAction)} <= served


def test_an_order_branches_on_the_charge() -> None:
    found = steps("order-processing.yaml")
    assert {name: step.condition for name, step in found.items()} == {
        "charge": None,
        "receipt": "tasks.charge.status_code == 200",
        "parcel": "tasks.charge.status_code == 200",
        "no-money": "tasks.charge.status_code != 200",
    }
    assert {step.edges for name, step in found.items() if name != "charge"} == {(Edge("charge", Condition.COMPLETE),)}


def test_a_trial_sleeps_for_thirteen_days_and_then_for_one() -> None:
    actions = [step.action for step in workflow("trial-expiry.yaml").steps]
    assert [action.duration for action in actions if isinstance(action, SleepAction)] == [
        timedelta(days=13),
        timedelta(days=1),
    ]
    names = list(steps("trial-expiry.yaml"))
    assert [step.edges for step in workflow("trial-expiry.yaml").steps] == [(), *((Edge(name),) for name in names[:-1])]


def test_a_checkout_sends_the_url_of_its_hook() -> None:
    found = steps("checkout-flow.yaml")
    checkout = found["checkout"].action
    assert isinstance(checkout, HttpAction)
    assert checkout.body["callback_url"] == "{{wait.payment.url}}"
    assert found["payment"].action == HookAction(timedelta(hours=1))
    assert found["deliver"].condition == "tasks.payment.body.status == 'paid'"
    assert found["give-up"].condition == "tasks.payment.status == 'timeout'"


def test_the_pipeline_fans_out_over_the_files_it_finds() -> None:
    count = steps("foreach-pipeline.yaml")["count"]
    assert (count.fan_out, count.concurrency) == (Foreach("find.files"), 4)


def context(**more: object) -> Context:
    fields = {"run_id": uuid4(), "index": 0, "count": 1, **more}
    return Context(uuid4(), "words", 1, 3, "default", 100, 1, datetime.now(UTC), {}, lambda _: None, **fields)  # type: ignore[arg-type]


def test_each_handler_of_the_pipeline_accepts_the_output_of_the_previous_one(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one two three")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.txt").write_text("four\nfive")
    (tmp_path / "c.png").write_bytes(b"\x89PNG")
    found = pipeline.find(str(tmp_path))
    assert [Path(file).name for file in found["files"]] == ["a.md", "b.txt"]
    counted = [pipeline.count(context(index=n, count=2), file) for n, file in enumerate(found["files"])]
    report = pipeline.report(context(upstream=Upstream({"count": counted})))
    assert report == {"files": 2, "words": 5, "longest": {"file": str(tmp_path / "a.md"), "words": 3}}


def test_the_pipeline_handles_an_empty_folder(tmp_path: Path) -> None:
    assert pipeline.find(str(tmp_path))["files"] == []
    assert pipeline.report(context(upstream=Upstream({"count": []})))["longest"] is None
    with pytest.raises(NonRetryable, match="no such folder"):
        pipeline.find(str(tmp_path / "missing"))
