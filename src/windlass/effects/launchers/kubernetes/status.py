"""Derives the state of a launched job from the documents of its Job and its pods.

A process counts as ended once its container has terminated, or once its pod cannot run any more. Until then the attempt
must not be repeated, whatever the conditions of the Job are.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from windlass.core.launches import Cause, Phase, RemoteJob
from windlass.effects.launchers.kubernetes.manifests import CONTAINER

Document = Mapping[str, Any]

NODE_SILENT = timedelta(minutes=1)  # a pod is deleted within its grace period, unless its node does not answer
IMAGE_REASONS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
POD_REASONS: Mapping[str, Cause] = {
    "Evicted": Cause.EVICTED,
    "Terminated": Cause.EVICTED,  # its node was shut down
    "NodeShutdown": Cause.EVICTED,
    "Shutdown": Cause.EVICTED,
    "Preempting": Cause.PREEMPTED,
    "NodeLost": Cause.NODE_LOST,
    "DeadlineExceeded": Cause.DEADLINE,
    # The node refused the pod after it was scheduled.
    "UnexpectedAdmissionError": Cause.UNSCHEDULABLE,
    "NodeAffinity": Cause.UNSCHEDULABLE,
    "TopologyAffinityError": Cause.UNSCHEDULABLE,
    "OutOfcpu": Cause.UNSCHEDULABLE,
    "OutOfmemory": Cause.UNSCHEDULABLE,
    "OutOfpods": Cause.UNSCHEDULABLE,
    "OutOfephemeral-storage": Cause.UNSCHEDULABLE,
    "OutOfnvidia.com/gpu": Cause.UNSCHEDULABLE,
}
DISRUPTIONS: Mapping[str, Cause] = {
    "PreemptionByScheduler": Cause.PREEMPTED,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "TerminationByKubelet": Cause.EVICTED,
    "DeletionByTaintManager": Cause.NODE_LOST,
    "DeletionByPodGC": Cause.NODE_LOST,
}


class _State(NamedTuple):
    phase: Phase
    cause: Cause | None = None
    detail: str = ""
    exit_code: int | None = None


def classify(job: Document, pods: Sequence[Document], *, now: datetime) -> RemoteJob:
    """Return the state of a job. `now` is the time of the API server, which decides if a deleted pod is overdue."""
    name = job["metadata"]["name"]
    end = _condition(job, "Complete") or _condition(job, "Failed")
    if not pods:
        return RemoteJob(name, *_without_pod(job, end))
    # There is one pod, because Kubernetes retries nothing here. If there are several, the latest one decides.
    state = _of_pod(max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", "")), now)
    if end.get("reason") == "DeadlineExceeded" and state.cause in (None, Cause.EXITED):
        state = state._replace(cause=Cause.DEADLINE, detail=end.get("message", ""))
    if end and state.phase is Phase.WAITING:
        state = state._replace(phase=Phase.ENDED)  # a pod of a failed job is deleted, so it will not start
    return RemoteJob(name, *state)


def _without_pod(job: Document, end: Document) -> _State:
    message = end.get("message", "")
    if end.get("type") == "Complete":
        return _State(Phase.ENDED, Cause.EXITED, "exit code 0", 0)
    if end.get("reason") == "DeadlineExceeded":
        return _State(Phase.ENDED, Cause.DEADLINE, message)
    if end.get("reason") == "PodFailurePolicy":
        return _State(Phase.ENDED, Cause.EVICTED, message)
    if end:
        return _State(Phase.ENDED, None, "its pod was deleted")
    if "deletionTimestamp" in job["metadata"]:
        return _State(Phase.ENDED, None, "the job is being deleted")
    if _condition(job, "Suspended"):
        return _State(Phase.WAITING, None, "the job is suspended")
    name = job["metadata"]["name"]
    return _State(Phase.WAITING, None, f"the job has no pod yet; the reason is shown by `kubectl describe job {name}`")


def _of_pod(pod: Document, now: datetime) -> _State:
    status = pod.get("status", {})
    container = _container(status.get("containerStatuses", ()))
    terminated = container.get("terminated")
    if terminated or status.get("phase") in ("Succeeded", "Failed"):
        return _ended(pod, terminated or {})
    disruption = _disruption(pod)
    if deleted_at := pod["metadata"].get("deletionTimestamp"):
        lost = status.get("reason") == "NodeLost" or status.get("phase") == "Unknown"
        if lost or now - datetime.fromisoformat(deleted_at) > NODE_SILENT:
            node = pod.get("spec", {}).get("nodeName", "its node")
            return _State(Phase.ENDED, Cause.NODE_LOST, f"{node} does not answer: the pod was to end at {deleted_at}")
    if "running" in container or status.get("phase") in ("Running", "Unknown"):
        if status.get("reason") == "NodeLost":
            disruption = _State(Phase.RUNNING, Cause.NODE_LOST, status.get("message", ""))
        return disruption._replace(phase=Phase.RUNNING) if disruption else _State(Phase.RUNNING)
    return _waiting(status, container)


def _waiting(status: Document, container: Document) -> _State:
    starting = [container, *(init.get("state", {}) for init in status.get("initContainerStatuses", ()))]
    for waiting in (state["waiting"] for state in starting if "waiting" in state):
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        if reason in IMAGE_REASONS:
            return _State(Phase.WAITING, Cause.IMAGE, _joined(reason, message))
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return _State(Phase.WAITING, None, _joined(reason, message))
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _State(Phase.WAITING, Cause.UNSCHEDULABLE, condition.get("message") or condition.get("reason", ""))
    return _State(Phase.WAITING)


def _ended(pod: Document, terminated: Document) -> _State:
    status, code = pod.get("status", {}), terminated.get("exitCode")
    reason = terminated.get("reason", "")
    if reason == "OOMKilled":
        limit = _memory_limit(pod)
        detail = f"limit {limit}" if limit else "the job has no limit, its node ran out of memory"
        return _State(Phase.ENDED, Cause.OUT_OF_MEMORY, detail, code)
    if cause := POD_REASONS.get(status.get("reason", "")):
        return _State(Phase.ENDED, cause, status.get("message", ""), code)
    if disruption := _disruption(pod):
        return disruption._replace(phase=Phase.ENDED, exit_code=code)
    if reason == "ContainerStatusUnknown":
        return _State(Phase.ENDED, Cause.NODE_LOST, terminated.get("message", ""), code)
    if code is None:
        return _State(Phase.ENDED, None, _joined(status.get("reason", ""), status.get("message", "")))
    return _State(Phase.ENDED, Cause.EXITED, _joined(f"exit code {code}", terminated.get("message", "")), code)


def _disruption(pod: Document) -> _State | None:
    condition = _condition(pod, "DisruptionTarget")
    if not condition:
        return None
    cause = DISRUPTIONS.get(condition.get("reason", ""), Cause.PREEMPTED)
    return _State(Phase.RUNNING, cause, condition.get("message", ""))


def _condition(document: Document, kind: str) -> Document:
    """Return the condition of a kind that is true; {} if there is none."""
    conditions = document.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c.get("type") == kind and c.get("status") == "True"), {})


def _container(statuses: Sequence[Document]) -> Document:
    """Return the state of our container: others may have been added to the pod, such as a proxy."""
    return next((status.get("state", {}) for status in statuses if status.get("name") == CONTAINER), {})


def _memory_limit(pod: Document) -> str | None:
    for container in pod.get("spec", {}).get("containers", ()):
        if container.get("name") == CONTAINER:
            limit = container.get("resources", {}).get("limits", {}).get("memory")
            return None if limit is None else str(limit)
    return None


def _joined(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, message) if part)
