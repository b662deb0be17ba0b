"""Builds the specification that the launched process of an attempt reads, and the request to the launcher."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from windlass.core.jobs.job import Failed
from windlass.core.launches import SECRETS, SPEC, Limits, TaskSpec, launch_name, mailbox
from windlass.core.workflows.step import CommandAction, JobAction, Placement
from windlass.effects import secrets
from windlass.effects.context import Context
from windlass.effects.launchers import LaunchRequest, PoolOptions, Resources
from windlass.runtime.pools import artifacts

MAX_SECRET = 100 * 1024  # bytes: they are passed in a variable, and Linux allows 128 KiB


class Call(NamedTuple):
    """The call of an executor and its input. `hidden` is the part of the call that contains values of secrets: it is
    not stored."""

    call: dict[str, Any]
    input: Any
    hidden: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Builds the specifications and launch requests of a pool."""

    pool: PoolOptions
    objects_url: str
    app: str | None  # "module:app", which has the handlers of `job` steps
    limits: Limits

    async def prepare(self, ctx: Context, payload: Any) -> tuple[TaskSpec, LaunchRequest] | Failed:
        """Return the specification and the launch request of an attempt, or its failure."""
        action = ctx._action
        if not isinstance(action, CommandAction | JobAction) or action.placement.runs_on != self.pool.name:
            message = f"the queue {ctx.queue} is for steps with runs_on: {self.pool.name}, and this job is not one"
            return Failed({"type": "Reserved", "message": message}, retryable=False)
        called = await self._call(ctx, action, payload)
        if isinstance(called, Failed):
            return called
        name = launch_name(ctx.id, ctx.fence)
        spec = TaskSpec(
            name=name,
            task_id=str(ctx.id),
            run_id=str(ctx.run_id),
            task_name=ctx.step_name or "",
            workflow_name=ctx.workflow or "",
            attempt=ctx.attempt,
            fence=ctx.fence,
            parallel_index=ctx.index or 0,
            parallel_count=1 if ctx.count is None else ctx.count,
            executor="command" if isinstance(action, CommandAction) else "python",
            call=called.call,
            mailbox=f"{mailbox(self.pool.name)}{name}/",
            input=called.input,
            upstream=dict(ctx.upstream),
            artifacts=await artifacts.readable(ctx, called.input),
            timeout=None if ctx.timeout is None else ctx.timeout.total_seconds(),
        )
        return spec, self._request(spec, action.placement, called.hidden)

    async def _call(self, ctx: Context, action: CommandAction | JobAction, payload: Any) -> Call | Failed:
        env = {"env": sorted({*self.pool.env, *action.placement.env})}
        if isinstance(action, JobAction):
            if self.app is None:
                message = "this pool's process has no app: start it with `windlass worker MODULE:APP`"
                return Failed({"type": "NoApp", "message": message}, retryable=False)
            return Call({"app": self.app, "type": ctx.type} | env, payload, {})
        revealed = await secrets.reveal(ctx, payload)
        if isinstance(revealed, Failed):
            return revealed
        call = {"run": revealed["run"], "values": revealed.get("values", {})}
        if ctx._redaction is None:
            return Call(call | env, revealed["input"], {})
        if len(json.dumps(call)) > MAX_SECRET:
            message = f"a command on a pool that uses secrets may have {MAX_SECRET} bytes, including their values"
            return Failed({"type": "TooLarge", "message": message}, retryable=False)
        return Call(env, revealed["input"], call)

    def _request(self, spec: TaskSpec, placement: Placement, hidden: Mapping[str, Any]) -> LaunchRequest:
        own = {"WINDLASS_OBJECTS_URL": self.objects_url, "TASK_SPEC_PATH": spec.mailbox + SPEC}
        # The definition has checked the names and types of resources, which mypy sees only as str | int.
        resources = Resources(**placement.resources) if placement.resources else self.pool.resources  # type: ignore[arg-type]
        limits = self.limits
        return LaunchRequest(
            name=spec.name,
            env={**self.pool.env, **placement.env, **own},
            secret_env={SECRETS: json.dumps(hidden)} if hidden else {},
            image=placement.image or self.pool.image,
            resources=resources,
            deadline=None if spec.timeout is None else spec.timeout + limits.margin + limits.start_within,
            labels={"pool": self.pool.name, "run": spec.run_id, "step": spec.task_name},
        )
