"""Deploys several workflows at once, for the server and the command line."""

from collections.abc import Sequence

from windlass.core.definition.publish import advice
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.views import workflows as views
from windlass.engine.workflows import control
from windlass.schemas.workflows import Deployment


async def deploy(db: Database, workflows: Sequence[Workflow], *, dry_run: bool = False) -> Deployment:
    """Publish all of them in one transaction, or return what that would change."""
    if dry_run:
        deployed = [views.deployable(one) for one in await control.preview_many(db, workflows)]
    else:
        deployed = [
            views.deployed(
                one,
                webhook_url=None if one.token is None else await workflow_schedules.address(db, one.token),
            )
            for one in await control.publish_many(db, workflows)
        ]
    missing = await control.missing_children(db, workflows)
    warnings = [f"step {step} of {name} runs workflow {child}, which is not deployed" for name, step, child in missing]
    warnings += [warning for workflow in workflows for warning in advice(workflow)]
    return Deployment(dry_run=dry_run, workflows=deployed, warnings=warnings)
