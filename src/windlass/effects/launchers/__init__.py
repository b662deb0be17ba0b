"""Launchers: start, list and stop jobs of a pool. Each kind is a module; other packages add kinds by entry points.

All operations are idempotent: a process may die after any of them, and its successor repeats it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol

from windlass.core.launches import SUBPROCESS, Limits, RemoteJob
from windlass.effects.objects import is_folder
from windlass.errors import Invalid

GROUP = "windlass.launchers"  # entry points of launchers in other packages: NAME = "module:open_launcher"
KINDS = ("subprocess", "kubernetes", "ray", "dask")
SHARED = ("kubernetes", "ray", "dask")  # clusters, which several installations may use


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of a job, in the notation of Kubernetes: cpu "500m", memory "512Mi", gpu 1."""

    cpu: str | None = None
    memory: str | None = None
    gpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """The configuration of a pool."""

    name: str
    launcher: str
    max_parallel: int = 10
    image: str | None = None
    resources: Resources = Resources()
    env: Mapping[str, str] = field(default_factory=dict)
    start_within: float = Limits.start_within  # seconds from the start to the first status
    heartbeat_within: float = Limits.heartbeat_within  # seconds without a heartbeat
    options: Mapping[str, Any] = field(default_factory=dict)  # of its launcher: address, namespace, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A job to start: `python -m windlass.exec` with this environment, which names the specification."""

    name: str
    env: Mapping[str, str]
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    image: str | None = None
    resources: Resources = Resources()
    deadline: float | None = None  # seconds after which the pool may end the job, as a last resort
    labels: Mapping[str, str] = field(default_factory=dict)  # pool, run, step: for people


class Launcher(Protocol):
    """Starts, lists and stops the jobs of a pool. Raises `Unavailable` if the pool does not answer, `Invalid` if it
    rejects a request permanently."""

    hint: asyncio.Event  # set when something may have changed, so that the next list need not wait
    list_every: float  # seconds between two lists without a hint

    async def start(self, request: LaunchRequest) -> None:
        """Start a job; do nothing if a job with this name exists, running or ended."""

    async def list(self) -> Sequence[RemoteJob]:
        """Return all jobs of this pool that have not been removed."""

    async def stop(self, name: str) -> None:
        """Stop a job and remove it; it may still be listed for a while. An unknown name is ignored."""

    async def remove(self, name: str) -> None:
        """Remove what is left of a job that has ended."""

    async def logs(self, name: str) -> str:
        """Return the last output of a job, to explain one that wrote no status; "" if there is none."""

    async def check(self) -> None:
        """Raise an error with the reason if the pool is unreachable, denies access or is misconfigured."""

    async def close(self) -> None: ...


class StoreWarning(NamedTuple):
    problem: str
    fix: str


def store_warning(launcher: str, objects_url: str) -> StoreWarning | None:
    """Return a warning if jobs on other machines may be unable to reach the object store; otherwise None."""
    if launcher == SUBPROCESS or not is_folder(objects_url):
        return None
    return StoreWarning(
        f"its jobs may run on other machines, and the object store is a folder of this one ({objects_url})",
        "set WINDLASS_OBJECTS_URL to s3://BUCKET, gs://BUCKET or az://CONTAINER, unless they share the folder",
    )


def open_launcher(pool: PoolOptions) -> Launcher:
    """Return the launcher of a pool; raise `Invalid` if its kind is unknown or its options are wrong."""
    if pool.launcher in KINDS:
        make: Callable[[PoolOptions], Launcher] = import_module(f"{__name__}.{pool.launcher}").open_launcher
        return make(pool)
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if pool.launcher not in found:
        known = ", ".join([*KINDS, *sorted(found)])
        raise Invalid(f"pool {pool.name}: there is no launcher {pool.launcher!r}; there are {known}", field="launcher")
    make = found[pool.launcher].load()
    return make(pool)
