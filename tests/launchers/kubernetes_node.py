"""The part of the cluster that runs pods: one node, on which a pod is a local process with the environment of the pod.

It is also the controller of Jobs and the garbage collector: a Job has one pod, and its pod and Secret are deleted with
it.
"""

import asyncio
import base64
import copy
import os
import re
import secrets
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import windlass

if TYPE_CHECKING:
    from tests.launchers.kubernetes_api import Cluster

Document = dict[str, Any]

ACCOUNTS = ("default", "steps")
LABELS = {"kubernetes.io/os": "linux"}
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
LOOK_EVERY = 0.02  # seconds between two checks of the memory of a process


class Node:
    def __init__(self, cluster: "Cluster", folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs: dict[str, asyncio.Task[None]] = {}  # name of the pod
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._verdicts: dict[str, str] = {}  # why a process was killed
        self._lost: set[str] = set()

    def admit(self, job: Document) -> None:
        """Create the pod of a Job and run it."""
        template, metadata = copy.deepcopy(job["spec"]["template"]), job["metadata"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **template["metadata"],
                "name": f"{metadata['name']}-{secrets.token_hex(3)}",
                "namespace": metadata["namespace"],
                "uid": secrets.token_hex(16),
                "creationTimestamp": timestamp(),
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"]}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending", "conditions": []},
        }
        if (account := pod["spec"].get("serviceAccountName", "default")) not in ACCOUNTS:
            self._warn(job, "FailedCreate", f'Error creating: pods is forbidden: serviceaccount "{account}" not found')
            return
        self._cluster.put("pods", pod)
        self._runs[pod["metadata"]["name"]] = self._spawn(self._run(job, pod))
        if seconds := job["spec"].get("activeDeadlineSeconds"):
            self._spawn(self._end_at_deadline(job, pod, seconds))

    def delete(self, resource: str, document: Document, propagation: str) -> None:
        if resource == "secrets":
            self._cluster.drop(resource, document)
        elif resource == "pods":
            self._spawn(self._remove_pod(document))
        else:
            self._spawn(self._remove_job(document))
            if propagation == "Background":
                self._cluster.drop("jobs", document)

    def log(self, pod: Document) -> bytes | None:
        path = self._log_path(pod)
        return path.read_bytes() if path.exists() else None

    # For tests

    def pod(self, launch: str) -> Document:
        pods = self._cluster.named("pods").values()
        return next(pod for pod in pods if pod["metadata"]["labels"]["windlass.dev/launch"] == launch)

    def kill_out_of_memory(self, launch: str) -> None:
        self._kill(self.pod(launch), "OOMKilled")

    def evict(self, launch: str) -> None:
        """End a pod because its node lacks memory. The pod stays."""
        pod = self.pod(launch)
        pod["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self._disrupt(pod, "TerminationByKubelet", "The node was low on resource: memory.")
        self._kill(pod, "Error")

    def preempt(self, launch: str) -> None:
        """Delete a pod, as the scheduler does for a pod of higher priority."""
        pod = self.pod(launch)
        self._disrupt(
            pod, "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"
        )
        self._spawn(self._remove_pod(pod))

    def lose(self, launch: str) -> None:
        """Disconnect the node of a pod: its process keeps running, but its end is not reported."""
        pod = self.pod(launch)
        self._lost.add(pod["metadata"]["name"])
        pod["status"] |= {"reason": "NodeLost", "message": "Node node-1 which was running pod is unresponsive"}
        pod["metadata"]["deletionTimestamp"] = timestamp(30)
        self._cluster.put("pods", pod)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for process in [process for process in self._processes.values() if process.returncode is None]:
            signal_group(process, signal.SIGKILL)
            await process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # The life of a pod

    async def _run(self, job: Document, pod: Document) -> None:
        spec, status = pod["spec"], pod["status"]
        container = spec["containers"][0]
        if any(LABELS.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
            unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            status["conditions"].append(unschedulable)
            self._cluster.put("pods", pod)
            return
        spec["nodeName"] = "node-1"
        if ".invalid/" in container["image"]:
            message = f'failed to pull image "{container["image"]}": not found'
            self._set(pod, "Pending", {"waiting": {"reason": "ErrImagePull", "message": message}})
            return
        while (environment := self._environment(pod, container)) is None:
            changed = self._cluster.changed
            message = f'secret "{job["metadata"]["name"]}" not found'
            waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
            if "deletionTimestamp" in pod["metadata"]:
                return
            if status.get("containerStatuses", [{}])[0].get("state") != waiting:
                self._set(pod, "Pending", waiting)
                continue
            await changed.wait()
        with self._log_path(pod).open("wb") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *container["command"],
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                self._finish(job, pod, {"exitCode": 128, "reason": "StartError", "message": str(error)})
                return
        self._processes[pod["metadata"]["name"]] = process
        if "deletionTimestamp" in pod["metadata"]:
            signal_group(process, signal.SIGKILL)  # deleted while it started
        self._set(pod, "Running", {"running": {"startedAt": timestamp()}})
        if limit := container.get("resources", {}).get("limits", {}).get("memory"):
            self._spawn(self._limit_memory(pod, process, number(limit)))
        code = await process.wait()
        signal_group(process, signal.SIGKILL)  # kill what the container has left running
        code = code if code >= 0 else 128 - code
        reason = self._verdicts.get(pod["metadata"]["name"], "Error" if code else "Completed")
        self._finish(job, pod, {"exitCode": code, "reason": reason})

    def _finish(self, job: Document, pod: Document, terminated: Document) -> None:
        if pod["metadata"]["name"] in self._lost:
            return
        failed = terminated["exitCode"] != 0
        self._set(pod, "Failed" if failed else "Succeeded", {"terminated": terminated})
        if not failed:
            self._conclude(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif any(condition["type"] == "DisruptionTarget" for condition in pod["status"]["conditions"]):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            message = f"Pod {name} has condition DisruptionTarget matching FailJob rule at index 0"
            self._conclude(job, "Failed", "PodFailurePolicy", message)
        else:
            self._conclude(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    async def _end_at_deadline(self, job: Document, pod: Document, seconds: int) -> None:
        await asyncio.wait([self._runs[pod["metadata"]["name"]]], timeout=seconds)
        if pod["status"]["phase"] in ("Pending", "Running"):
            message = "Job was active longer than specified deadline"
            self._conclude(job, "Failed", "DeadlineExceeded", message)
            await self._remove_pod(pod)

    async def _remove_job(self, job: Document) -> None:
        self._mark_deleted("jobs", job)
        for pod in [pod for pod in self._cluster.named("pods").values() if owned(pod, job)]:
            await self._remove_pod(pod)
        if not any(owned(pod, job) for pod in self._cluster.named("pods").values()):
            self._cluster.drop("jobs", job)

    async def _remove_pod(self, pod: Document) -> None:
        name = pod["metadata"]["name"]
        self._mark_deleted("pods", pod)
        if name in self._lost:
            return
        process = self._processes.get(name)
        for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
            if process is not None and process.returncode is None:
                signal_group(process, number)
            await asyncio.wait([self._runs[name]], timeout=seconds)
        self._cluster.drop("pods", pod)

    async def _limit_memory(self, pod: Document, process: asyncio.subprocess.Process, limit: int) -> None:
        path = Path(f"/proc/{process.pid}/statm")
        while process.returncode is None:
            with suppress(OSError, IndexError):
                if int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > limit:
                    self._kill(pod, "OOMKilled")
            await asyncio.sleep(LOOK_EVERY)

    # Documents

    def _set(self, pod: Document, phase: str, state: Document) -> None:
        pod["status"] |= {"phase": phase, "containerStatuses": [{"name": "windlass", "state": state}]}
        self._store("pods", pod)

    def _conclude(self, job: Document, kind: str, reason: str, message: str) -> None:
        conditions = job.setdefault("status", {}).setdefault("conditions", [])
        if not conditions:
            conditions.append({"type": kind, "status": "True", "reason": reason, "message": message})
            self._store("jobs", job)

    def _warn(self, job: Document, reason: str, message: str) -> None:
        about = {"kind": "Job", "name": job["metadata"]["name"]}
        metadata = {"name": f"{about['name']}.{secrets.token_hex(4)}", "namespace": job["metadata"]["namespace"]}
        event = {"metadata": metadata, "type": "Warning", "reason": reason, "message": message, "involvedObject": about}
        self._cluster.put("events", event)

    def _mark_deleted(self, resource: str, document: Document) -> None:
        if "deletionTimestamp" not in document["metadata"]:
            document["metadata"]["deletionTimestamp"] = timestamp(GRACE)
            self._store(resource, document)

    def _disrupt(self, pod: Document, reason: str, message: str) -> None:
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        pod["status"]["conditions"].append(disruption)
        self._store("pods", pod)

    def _store(self, resource: str, document: Document) -> None:
        """Store a document, unless it was deleted meanwhile."""
        metadata = document["metadata"]
        if self._cluster.objects.get((resource, metadata["namespace"], metadata["name"])) is document:
            self._cluster.put(resource, document)

    def _environment(self, pod: Document, container: Document) -> dict[str, str] | None:
        """Return the environment of a container; None if a Secret is missing."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        values = {"PATH": path, "PYTHONPATH": str(Path(windlass.__file__).parents[1])}  # of the image
        for source in container.get("envFrom", ()):
            stored = self._cluster.objects["secrets", pod["metadata"]["namespace"], source["secretRef"]["name"]]
            values |= {name: base64.b64decode(value).decode() for name, value in stored["data"].items()}
        for entry in container["env"]:
            if reference := entry.get("valueFrom", {}).get("secretKeyRef"):
                secret = self._cluster.objects.get(("secrets", pod["metadata"]["namespace"], reference["name"]))
                if secret is None:
                    return None
                values[entry["name"]] = base64.b64decode(secret["data"][reference["key"]]).decode()
            else:
                values[entry["name"]] = expanded(entry.get("value", ""), values)
        return values

    def _kill(self, pod: Document, reason: str) -> None:
        self._verdicts[pod["metadata"]["name"]] = reason
        signal_group(self._processes[pod["metadata"]["name"]], signal.SIGKILL)

    def _log_path(self, pod: Document) -> Path:
        return self._folder / f"{pod['metadata']['name']}.log"

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def expanded(value: str, values: dict[str, str]) -> str:
    """Replace $(NAME), and $$ by $, as the node does."""
    return re.sub(
        r"\$(?:\$|\(([^)]*)\))", lambda match: values.get(match[1], match[0]) if match[1] is not None else "$", value
    )


def owned(pod: Document, job: Document) -> bool:
    return any(owner["name"] == job["metadata"]["name"] for owner in pod["metadata"]["ownerReferences"])


def number(quantity: str) -> int:
    return int(quantity[:-2]) * UNITS[quantity[-2:]] if quantity[-2:] in UNITS else int(quantity)


def timestamp(seconds: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def signal_group(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to a process and its group; SIGKILL also to its descendants outside of the group."""
    runs = process.returncode is None  # after its end the processes that it started cannot be found
    started = descendants(process.pid) if runs and number == signal.SIGKILL else []
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the pids of all descendants of a process."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for known in found:
        found += children.get(known, [])
    return found[1:]
