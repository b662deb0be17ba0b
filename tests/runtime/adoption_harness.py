"""In-process schedulers for tests of adoption."""

from collections.abc import Iterable
from typing import Any

from windlass.cron import Condition, Cron, FakeClock, Job, Skip
from windlass.cron import Workflow as CronWorkflow

Edges = Iterable[tuple[str, str, Condition]]  # parent, child


async def succeed() -> None:
    pass


def workflow(name: str, jobs: dict[str, Job], edges: Edges, *, spec: str = "@triggered") -> CronWorkflow:
    """Return a workflow with these jobs; the first is the root."""
    built = CronWorkflow(name)
    steps = {step: built.step(step, "@triggered" if n else spec, job) for n, (step, job) in enumerate(jobs.items())}
    for parent, child, condition in edges:
        steps[child].after(parent, condition)
    return built


def cron_with(*workflows: CronWorkflow, **options: Any) -> Cron:
    cron = Cron(clock=FakeClock(), **options)
    for workflow in workflows:
        cron.add_workflow(workflow)
    return cron


def nothing_to_do() -> None:
    raise Skip("nothing to do")
