"""Compensation in the in-process scheduler: a failed execution undoes its succeeded entries in reverse order."""

from tests.cron.recorder import Recorder, run
from windlass.cron import Cron, JobResult, Workflow, job_context


def order(recorder: Recorder, *, ships: bool) -> Workflow:
    flow = Workflow("order")
    flow.step("reserve", "@triggered", recorder.job("reserve"), compensate=recorder.job("release"))
    flow.step("charge", "@triggered", recorder.job("charge"), after="reserve").compensate(recorder.failing("refund"))
    ship = recorder.job("ship") if ships else recorder.failing("ship")
    flow.step("ship", "@triggered", ship, after="charge")
    return flow


async def test_a_failed_execution_runs_all_compensations_even_if_one_fails(cron: Cron, recorder: Recorder) -> None:
    cron.add_workflow(order(recorder, ships=False))
    execution = cron.workflow_status(await run(cron, "reserve"))
    assert recorder.lines == ["reserve", "charge", "ship", "refund", "release"]
    assert execution is not None
    assert execution.complete
    assert execution.result("reserve.compensate") is JobResult.SUCCESS
    assert execution.result("charge.compensate") is JobResult.FAILURE


async def test_a_successful_execution_runs_no_compensation(cron: Cron, recorder: Recorder) -> None:
    cron.add_workflow(order(recorder, ships=True))
    execution = cron.workflow_status(await run(cron, "reserve"))
    assert recorder.lines == ["reserve", "charge", "ship"]
    assert execution is not None
    assert execution.result("reserve.compensate") is JobResult.SKIPPED


async def test_a_compensation_reads_the_output_of_its_step(cron: Cron, recorder: Recorder) -> None:
    seen: list[object] = []
    flow = Workflow("order")

    def release() -> None:
        context = job_context()
        assert context is not None
        seen.append(dict(context.upstream))

    @flow.step("reserve", compensate=release)
    def reserve() -> int:
        return 7

    flow.step("ship", "@triggered", recorder.failing("ship"), after="reserve")
    cron.add_workflow(flow)
    await run(cron, "reserve")
    assert seen == [{"reserve": 7}]


def test_the_exported_definition_includes_the_compensations(recorder: Recorder) -> None:
    steps = order(recorder, ships=True).to_definition().steps
    assert [(step.name, step.compensates) for step in steps[3:]] == [
        ("reserve.compensate", "reserve"),
        ("charge.compensate", "charge"),
    ]
