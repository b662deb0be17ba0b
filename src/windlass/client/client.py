"""The blocking and the async client. Both have the same operations, which are defined once, in the groups."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from windlass.client.approvals import Approvals
from windlass.client.descriptors import Group, W, operation, streaming
from windlass.client.jobs import DeadLetters, Jobs, JobTypes, Pools, Quarantine, Queues, Workers
from windlass.client.messages import Messages
from windlass.client.orgs import Audit, Keys, Members, Orgs, Secrets, SqlRoles
from windlass.client.plans import OrgUsage, Plans
from windlass.client.request import NOTHING, Call, one, present
from windlass.client.runs import Runs, Tasks
from windlass.client.transport import AsyncTransport, Options, SyncTransport
from windlass.client.workflows import Schedules, Workflows
from windlass.errors import Invalid
from windlass.schemas.monitoring import Stats
from windlass.schemas.plans import UsageDetail
from windlass.schemas.runs import StartedRun

DEFAULT_URL = "http://127.0.0.1:8080"


class Operations(Group[W]):
    """All operations of a server, grouped by resource."""

    def __init__(self, transport: W) -> None:
        super().__init__(transport)
        self.workflows = Workflows(transport)
        self.runs = Runs(transport)
        self.tasks = Tasks(transport)
        self.jobs = Jobs(transport)
        self.job_types = JobTypes(transport)
        self.messages = Messages(transport)
        self.approvals = Approvals(transport)
        self.dead_letters = DeadLetters(transport)
        self.schedules = Schedules(transport)
        self.queues = Queues(transport)
        self.workers = Workers(transport)
        self.pools = Pools(transport)
        self.quarantine = Quarantine(transport)
        self.orgs = Orgs(transport)
        self.sql_roles = SqlRoles(transport)
        self.keys = Keys(transport)
        self.members = Members(transport)
        self.audit = Audit(transport)
        self.plans = Plans(transport)
        self.org_usage = OrgUsage(transport)
        self.secrets = Secrets(transport)

    @operation
    def start(
        self,
        workflow: str,
        input: Any = NOTHING,  # noqa: A002
        *,
        idempotency_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        max_duration: timedelta | float | str | None = None,
        wait: float | None = None,
    ) -> Call[StartedRun]:
        """Start a run and return it; if a run with this idempotency key exists, return that run.

        `wait`: seconds to wait for the end of the run (at most 60); the result then has its tasks and its output.
        """
        order = present({"labels": labels, "max_duration": max_duration})
        if input is not NOTHING:
            order["input"] = input
        return one(
            StartedRun,
            "POST",
            "/workflows/{ref}/runs",
            {"ref": workflow},
            query={"wait": wait},
            body=order,
            headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
            patience=wait or 0.0,
        )

    @operation
    def stats(self) -> Call[Stats]:
        """Return an overview of runs, jobs, queues, workers and schedules."""
        return one(Stats, "GET", "/stats")

    @operation
    def usage(self) -> Call[UsageDetail]:
        """Return the usage of the caller's org and the limits of its plan."""
        return one(UsageDetail, "GET", "/usage")

    @streaming
    def stream(self, *, workflow: str | None = None, kind: Sequence[str] = (), after: str | None = None) -> Call[None]:
        """Yield events of runs, tasks and jobs as they occur; `kind` selects `run`, `task` or `job`.

        A lost connection is resumed after the last event.
        """
        query = present({"workflow": workflow, "kind": kind, "after": after})
        return Call("GET", "/stream", lambda _: None, query=query)


class Client(Operations[SyncTransport]):
    """The blocking client. `url`, `key` and `org` default to WINDLASS_URL, WINDLASS_API_KEY and WINDLASS_ORG. Only the
    operator's key needs an `org`: the key of an org always acts for that org."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        org: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        super().__init__(SyncTransport(_options(url, key, org, timeout, retries)))

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(Operations[AsyncTransport]):
    """The async client: operations are awaited, lists and streams are read with `async for`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        org: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        super().__init__(AsyncTransport(_options(url, key, org, timeout, retries)))

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _options(url: str | None, key: str | None, org: str | None, timeout: float, retries: int) -> Options:
    address = (url or os.environ.get("WINDLASS_URL", "") or DEFAULT_URL).strip().rstrip("/")
    secret = key or os.environ.get("WINDLASS_API_KEY", "").partition(",")[0].strip() or None
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise Invalid("the key has characters that are not allowed in a header", field="key")
    name = org or os.environ.get("WINDLASS_ORG", "").strip() or None
    if name is not None and not (name.isascii() and name.isprintable()):
        raise Invalid("org has characters that are not allowed in a header", field="org")
    return Options(url=server_url(address), key=secret, org=name, timeout=timeout, retries=retries)


def server_url(url: str) -> str:
    """Return the URL of a server without the path of the API; raise `Invalid` if it is not a server's URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Invalid(f"url is {url!r}: {error}", field="url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Invalid(f"url is {url!r}: it must look like http://127.0.0.1:8080", field="url")
    return url.removesuffix("/api/v1")
