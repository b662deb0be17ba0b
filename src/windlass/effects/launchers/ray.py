"""The launcher of Ray, through the REST API of its dashboard: each launch is a job whose submission id is its name.

Ray itself is not imported: client and cluster need not have the same version of it. Ray sends no event when a job ends:
the end is detected from its status object, or by the next list.
"""

import asyncio
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from windlass.core.launches import Cause, Phase, RemoteJob, parse_name
from windlass.effects.launchers import LaunchRequest, PoolOptions
from windlass.errors import Invalid, Unavailable

if TYPE_CHECKING:
    import aiohttp

POOL = "windlass_pool"  # in the metadata of a job
ANSWER_WITHIN = 30.0  # seconds
CONNECT_WITHIN = 5.0
LOG_TAIL = 4096  # characters
SHORT = 300
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
PHASES = {"PENDING": Phase.WAITING, "RUNNING": Phase.RUNNING}  # all others have ended
CAUSES = {
    "RUNTIME_ENV_SETUP_FAILURE": Cause.IMAGE,
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": Cause.UNSCHEDULABLE,
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": Cause.UNSCHEDULABLE,
    "JOB_SUPERVISOR_ACTOR_DIED": Cause.NODE_LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    address: str
    instance: str = "windlass"  # set by workers: installations that share a cluster need different ones
    command: Sequence[str] = ("python", "-m", "windlass.exec")
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    show_secrets: bool = False


def open_launcher(pool: PoolOptions) -> "RayLauncher":
    """Return the launcher of a pool; raise `Invalid` if its options are wrong. Connects at the first call."""
    names = RayOptions.__dataclass_fields__
    for name in pool.options:
        if name not in names:
            message = f"pool {pool.name} has the unknown option {name!r}: a Ray pool has {', '.join(names)}"
            raise Invalid(message, field=name)
    address = pool.options.get("address")
    if not isinstance(address, str) or urlsplit(address).scheme not in ("http", "https"):
        message = f"pool {pool.name}: address is {address!r}: it must be that of the dashboard, such as http://ray:8265"
        raise Invalid(message, field="address")
    for name in ("runtime_env", "headers"):
        if not isinstance(pool.options.get(name, {}), Mapping):
            raise Invalid(f"pool {pool.name}: {name} is {pool.options[name]!r}: it must be an object", field=name)
    return RayLauncher(pool, RayOptions(**{**pool.options, "address": address.rstrip("/")}))


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        lines = [line.strip(" .") for line in text.splitlines() if line.strip(" .")]  # the last one of a traceback
        super().__init__(lines[-1][:SHORT] if lines else f"status {status}")
        self.status = status


class RayLauncher:
    list_every = 10.0

    def __init__(self, pool: PoolOptions, options: RayOptions) -> None:
        self.hint = asyncio.Event()
        self._pool = pool
        self._options = options
        self._owner = f"{options.instance}/{pool.name}"
        self._session: aiohttp.ClientSession | None = None

    async def start(self, request: LaunchRequest) -> None:
        if request.secret_env and not self._options.show_secrets:
            raise Invalid(
                f"pool {self._pool.name}: a secret would be visible in the dashboard of Ray, which shows the"
                " environment of all jobs: do not use secrets in this step, or set the pool's option show_secrets",
                field="secrets",
            )
        try:
            await self._call("POST", "/api/jobs/", self._submission(request))
        except Refusal as refusal:
            if await self._job(request.name) is None:  # else it exists already
                raise self._error(refusal) from None

    async def list(self) -> Sequence[RemoteJob]:
        try:
            jobs = await self._call("GET", "/api/jobs/")
        except Refusal as refusal:
            raise self._error(refusal) from None
        return [_remote_job(job) for job in jobs if self._is_ours(job)]

    async def stop(self, name: str) -> None:
        await self._change("POST", name, "/stop")

    async def remove(self, name: str) -> None:
        await self._change("DELETE", name)

    async def logs(self, name: str) -> str:
        try:
            answer = await self._call("GET", f"/api/jobs/{quote(name, safe='')}/logs")
        except Refusal as refusal:
            if refusal.status == 404:
                return ""
            raise self._error(refusal) from None
        return str(answer.get("logs") or "")[-LOG_TAIL:]

    async def check(self) -> None:
        try:
            version = await self._call("GET", "/api/version")
        except Refusal as refusal:
            raise self._error(refusal) from None
        if not isinstance(version, dict) or "ray_version" not in version:
            raise Unavailable(f"pool {self._pool.name}: {self._options.address} is not the dashboard of Ray")
        await self.list()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _submission(self, request: LaunchRequest) -> dict[str, Any]:
        env = {**self._pool.env, **request.env, **request.secret_env}
        # Ray expands $NAME in the values of `env_vars`, and has no escape for a dollar sign.
        verbatim = [f"{name}={value}" for name, value in env.items() if "$" in value]
        plain = {name: value for name, value in env.items() if "$" not in value}
        runtime_env = dict(self._options.runtime_env)
        runtime_env["env_vars"] = {**runtime_env.get("env_vars", {}), **plain}
        document = {
            "entrypoint": shlex.join([*(["env", *verbatim] if verbatim else []), *self._options.command]),
            "submission_id": request.name,
            "metadata": {**request.labels, POOL: self._owner},
            "runtime_env": runtime_env,
            "entrypoint_num_cpus": _amount(request.resources.cpu),
            "entrypoint_memory": _amount(request.resources.memory),
            "entrypoint_num_gpus": request.resources.gpu,
        }
        return {key: value for key, value in document.items() if value is not None}

    async def _change(self, method: str, name: str, action: str = "") -> None:
        """Stop or delete a job of this pool; ignore one that does not exist, or that has ended or changed meanwhile."""
        job = await self._job(name)
        if job is None or not self._is_ours(job) or (action and job["status"] not in PHASES):
            return
        try:
            await self._call(method, f"/api/jobs/{quote(name, safe='')}{action}")
        except Refusal as refusal:
            if refusal.status != 404:
                raise self._error(refusal) from None

    async def _job(self, name: str) -> Mapping[str, Any] | None:
        try:
            job: Mapping[str, Any] = await self._call("GET", f"/api/jobs/{quote(name, safe='')}")
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise self._error(refusal) from None
        return job

    def _is_ours(self, job: Mapping[str, Any]) -> bool:
        name = job.get("submission_id") or ""
        return (job.get("metadata") or {}).get(POOL) == self._owner and parse_name(name) is not None

    async def _call(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:
        """Return the decoded response; raise `Refusal` for an error status, `Unavailable` if there is no response."""
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN, sock_connect=CONNECT_WITHIN)
            self._session = aiohttp.ClientSession(timeout=timeout, headers=dict(self._options.headers))
        url = self._options.address + path
        try:
            async with self._session.request(method, url, json=document, allow_redirects=False) as response:
                text = await response.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or f"no response within {ANSWER_WITHIN:g} s"
            raise self._unavailable(reason) from error
        if response.status != 200:
            raise Refusal(response.status, text)
        try:
            return json.loads(text)
        except ValueError:
            raise self._unavailable("the answer is not JSON; the address must be that of the dashboard") from None

    def _error(self, refusal: Refusal) -> Exception:
        if refusal.status in (400, 422):
            return Invalid(f"pool {self._pool.name}: Ray refuses the job: {refusal}")
        if refusal.status in (401, 403):
            return self._unavailable(f"{refusal}: set the pool's option headers to what it requires")
        return self._unavailable(str(refusal))

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"pool {self._pool.name}: Ray at {self._options.address} cannot be used: {reason}")


def _remote_job(job: Mapping[str, Any]) -> RemoteJob:
    name, code = job["submission_id"], job.get("driver_exit_code")
    phase = PHASES.get(job["status"], Phase.ENDED)
    message = (job.get("message") or "").partition(", last available logs")[0].partition("\n")[0][:SHORT]
    if phase is not Phase.ENDED:
        return RemoteJob(name, phase, detail=message)
    cause = CAUSES.get(job.get("error_type") or "", Cause.EXITED)
    return RemoteJob(name, phase, cause, message if code is None else f"exit code {code}", code)


def _amount(quantity: str | None) -> float | None:
    """Return an amount in the notation of Kubernetes as a number: 500m is 0.5, 512Mi is 536870912."""
    if quantity is None:
        return None
    match = re.fullmatch(r"([0-9.]+)(m|k|M|G|T|Ki|Mi|Gi|Ti)?", quantity)
    if match is None:
        raise Invalid(f"{quantity!r} is not an amount: it must be such as 500m, 2 or 512Mi", field="resources")
    amount = float(match[1])
    return amount / 1000 if match[2] == "m" else amount * UNITS[match[2] or ""]
