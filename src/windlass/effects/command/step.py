"""The handler of `run` steps. Whether commands are allowed, and retries, are decided elsewhere."""

from typing import Any

from windlass.core.jobs.job import Failed, Outcome
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.workflows.step import CommandAction
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects import secrets
from windlass.effects.command.run import CommandRequest, Commands
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, reserved_type


def command_handler(commands: Commands) -> Handler:
    """Return the handler of `run` steps."""

    async def command(ctx: Context, payload: Any) -> Outcome:
        if ctx.queue != OWN_QUEUE or not isinstance(ctx._action, CommandAction):
            return reserved_type(COMMAND_TYPE, "run")
        revealed = await secrets.reveal(ctx, payload)
        if isinstance(revealed, Failed):
            return revealed
        request = CommandRequest(
            run=revealed["run"],
            values=revealed.get("values", {}),
            input=revealed["input"],
            run_id=ctx.run_id or ctx.id,
            workflow=ctx.workflow or "",
            step=ctx.step_name or "",
            attempt=ctx.attempt,
            fence=ctx.fence,
            index=ctx.index or 0,
            count=1 if ctx.count is None else ctx.count,
            timeout=ctx.timeout,
        )
        return secrets.masked(ctx, await commands.perform(request, ctx.keep))

    return Handler.of(COMMAND_TYPE, command, queue=OWN_QUEUE, keeps_time=True, wants_upstream=False)
