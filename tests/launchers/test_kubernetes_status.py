"""The status of a Job and its pods, and its interpretation. The documents are shortened ones of real clusters."""

from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.core.launches import Cause, Phase, RemoteJob
from windlass.effects.launchers.kubernetes.status import classify

NAME = "windlass-0198f1a0-0000-7000-8000-000000000001-3"
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def job(*conditions: tuple[str, str, str], deleted: bool = False) -> dict[str, Any]:
    metadata = {"name": NAME} | ({"deletionTimestamp": "2026-11-16T11:59:59Z"} if deleted else {})
    listed = [{"type": kind, "status": "True", "reason": reason, "message": text} for kind, reason, text in conditions]
    return {"metadata": metadata, "status": {"conditions": listed} if listed else {}}


def pod(phase: str, state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """`disruption` is (reason, message) of a DisruptionTarget; `unscheduled` the message of the scheduler."""
    conditions = []
    if disruption := more.pop("disruption", None):
        reason, message = disruption
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message})
    if unscheduled := more.pop("unscheduled", None):
        conditions.append(
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unscheduled}
        )
    metadata = {"name": NAME + "-x7k2p", "creationTimestamp": more.pop("created", "2026-11-16T11:50:00Z")}
    if deleted := more.pop("deleted", None):
        metadata["deletionTimestamp"] = deleted
    limits = {"limits": {"memory": limit}} if (limit := more.pop("limit", None)) else {}
    statuses = [{"name": "windlass", "state": state}] if state is not None else []
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": "windlass", "resources": limits}]},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses, **more},
    }


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-11-16T11:50:01Z"}}
EXCEEDED = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
NO_POD = f"the job has no pod yet; the reason is shown by `kubectl describe job {NAME}`"

CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], RemoteJob]] = {
    "no pod yet": (job(), [], RemoteJob(NAME, Phase.WAITING, None, NO_POD)),
    "suspended": (
        job(("Suspended", "JobSuspended", "Job suspended")),
        [],
        RemoteJob(NAME, Phase.WAITING, None, "the job is suspended"),
    ),
    "being created": (job(), [pod("Pending", waiting("ContainerCreating"))], RemoteJob(NAME, Phase.WAITING)),
    "no node": (
        job(),
        [pod("Pending", unscheduled="0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")],
        RemoteJob(NAME, Phase.WAITING, Cause.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
    ),
    "image cannot be pulled": (
        job(),
        [pod("Pending", waiting("ErrImagePull", "not found"))],
        RemoteJob(NAME, Phase.WAITING, Cause.IMAGE, "ErrImagePull: not found"),
    ),
    "image is not pulled again yet": (
        job(),
        [pod("Pending", waiting("ImagePullBackOff", 'Back-off pulling image "x"'))],
        RemoteJob(NAME, Phase.WAITING, Cause.IMAGE, 'ImagePullBackOff: Back-off pulling image "x"'),
    ),
    "image of an injected container": (
        job(),
        [
            pod(
                "Pending",
                waiting("PodInitializing"),
                initContainerStatuses=[{"name": "proxy", "state": waiting("InvalidImageName", "bad")}],
            )
        ],
        RemoteJob(NAME, Phase.WAITING, Cause.IMAGE, "InvalidImageName: bad"),
    ),
    "secret missing": (
        job(),
        [pod("Pending", waiting("CreateContainerConfigError", 'secret "s" not found'))],
        RemoteJob(NAME, Phase.WAITING, None, 'CreateContainerConfigError: secret "s" not found'),
    ),
    "running": (job(), [pod("Running", RUNNING)], RemoteJob(NAME, Phase.RUNNING)),
    "being stopped": (
        job(deleted=True),
        [pod("Running", RUNNING, deleted="2026-11-16T12:00:20Z")],
        RemoteJob(NAME, Phase.RUNNING),
    ),
    "stopped": (job(deleted=True), [], RemoteJob(NAME, Phase.ENDED, None, "the job is being deleted")),
    "success": (
        job(("Complete", "CompletionsReached", "")),
        [pod("Succeeded", ended(0, "Completed"))],
        RemoteJob(NAME, Phase.ENDED, Cause.EXITED, "exit code 0", 0),
    ),
    "success, pod removed": (
        job(("Complete", "CompletionsReached", "")),
        [],
        RemoteJob(NAME, Phase.ENDED, Cause.EXITED, "exit code 0", 0),
    ),
    "failure": (
        job(EXCEEDED),
        [pod("Failed", ended(3))],
        RemoteJob(NAME, Phase.ENDED, Cause.EXITED, "exit code 3", 3),
    ),
    "container has ended, a sidecar has not": (
        job(),
        [pod("Running", ended(3))],
        RemoteJob(NAME, Phase.ENDED, Cause.EXITED, "exit code 3", 3),
    ),
    "command not in the image": (
        job(EXCEEDED),
        [pod("Failed", ended(128, "StartError", 'exec: "python": executable file not found in $PATH'))],
        RemoteJob(
            NAME,
            Phase.ENDED,
            Cause.EXITED,
            'exit code 128: exec: "python": executable file not found in $PATH',
            128,
        ),
    ),
    "out of memory": (
        job(EXCEEDED),
        [pod("Failed", ended(137, "OOMKilled"), limit="512Mi")],
        RemoteJob(NAME, Phase.ENDED, Cause.OUT_OF_MEMORY, "limit 512Mi", 137),
    ),
    "out of memory without a limit": (
        job(EXCEEDED),
        [pod("Failed", ended(137, "OOMKilled"))],
        RemoteJob(NAME, Phase.ENDED, Cause.OUT_OF_MEMORY, "the job has no limit, its node ran out of memory", 137),
    ),
    "evicted by its node": (
        job(EXCEEDED),
        [
            pod(
                "Failed",
                ended(137),
                reason="Evicted",
                message="The node was low on resource: ephemeral-storage.",
                disruption=("TerminationByKubelet", "low"),
            )
        ],
        RemoteJob(NAME, Phase.ENDED, Cause.EVICTED, "The node was low on resource: ephemeral-storage.", 137),
    ),
    "evicted before it ran": (
        job(EXCEEDED),
        [pod("Failed", reason="Evicted", message="low on memory")],
        RemoteJob(NAME, Phase.ENDED, Cause.EVICTED, "low on memory"),
    ),
    "evicted through the API": (
        job(EXCEEDED),
        [pod("Failed", ended(143), disruption=("EvictionByEvictionAPI", "Eviction API: evicting"))],
        RemoteJob(NAME, Phase.ENDED, Cause.EVICTED, "Eviction API: evicting", 143),
    ),
    "evicted, pod removed": (
        job(
            ("Failed", "PodFailurePolicy", "Pod jobs/x has condition DisruptionTarget matching FailJob rule at index 0")
        ),
        [],
        RemoteJob(
            NAME,
            Phase.ENDED,
            Cause.EVICTED,
            "Pod jobs/x has condition DisruptionTarget matching FailJob rule at index 0",
        ),
    ),
    "preempted": (
        job(EXCEEDED),
        [pod("Failed", ended(143), disruption=("PreemptionByScheduler", "preempting to accommodate a higher"))],
        RemoteJob(NAME, Phase.ENDED, Cause.PREEMPTED, "preempting to accommodate a higher", 143),
    ),
    "about to be preempted": (
        job(),
        [pod("Running", RUNNING, disruption=("PreemptionByScheduler", "preempting"), deleted="2026-11-16T12:00:20Z")],
        RemoteJob(NAME, Phase.RUNNING, Cause.PREEMPTED, "preempting"),
    ),
    "refused by its node": (
        job(EXCEEDED),
        [pod("Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu")],
        RemoteJob(NAME, Phase.ENDED, Cause.UNSCHEDULABLE, "Node didn't have enough resource: cpu"),
    ),
    "node removed": (
        job(EXCEEDED),
        [pod("Failed", disruption=("DeletionByPodGC", "PodGC: node no longer exists"))],
        RemoteJob(NAME, Phase.ENDED, Cause.NODE_LOST, "PodGC: node no longer exists"),
    ),
    "container unknown after a restart of its node": (
        job(EXCEEDED),
        [pod("Failed", ended(137, "ContainerStatusUnknown", "The container could not be located"))],
        RemoteJob(NAME, Phase.ENDED, Cause.NODE_LOST, "The container could not be located", 137),
    ),
    "node is silent": (
        job(),
        [pod("Running", RUNNING, reason="NodeLost", message="Node node-1 is unresponsive")],
        RemoteJob(NAME, Phase.RUNNING, Cause.NODE_LOST, "Node node-1 is unresponsive"),
    ),
    "node is lost": (
        job(),
        [pod("Running", RUNNING, reason="NodeLost", deleted="2026-11-16T12:00:20Z")],
        RemoteJob(
            NAME,
            Phase.ENDED,
            Cause.NODE_LOST,
            "node-1 does not answer: the pod was to end at 2026-11-16T12:00:20Z",
        ),
    ),
    "pod is not deleted although its time is over": (
        job(deleted=True),
        [pod("Running", RUNNING, deleted="2026-11-16T11:58:00Z")],
        RemoteJob(
            NAME,
            Phase.ENDED,
            Cause.NODE_LOST,
            "node-1 does not answer: the pod was to end at 2026-11-16T11:58:00Z",
        ),
    ),
    "deadline": (
        job(DEADLINE),
        [pod("Failed", ended(143))],
        RemoteJob(NAME, Phase.ENDED, Cause.DEADLINE, "Job was active longer than specified deadline", 143),
    ),
    "deadline, pod removed": (
        job(DEADLINE),
        [],
        RemoteJob(NAME, Phase.ENDED, Cause.DEADLINE, "Job was active longer than specified deadline"),
    ),
    "deadline, process still ends": (
        job(DEADLINE),
        [pod("Running", RUNNING, deleted="2026-11-16T12:00:20Z")],
        RemoteJob(NAME, Phase.RUNNING, Cause.DEADLINE, "Job was active longer than specified deadline"),
    ),
    "deadline before the image was pulled": (
        job(DEADLINE),
        [pod("Pending", waiting("ErrImagePull", "not found"))],
        RemoteJob(NAME, Phase.ENDED, Cause.IMAGE, "ErrImagePull: not found"),
    ),
    "pod deleted by hand": (job(EXCEEDED), [], RemoteJob(NAME, Phase.ENDED, None, "its pod was deleted")),
    "the last pod decides": (
        job(),
        [pod("Running", RUNNING, created="2026-11-16T11:55:00Z"), pod("Failed", ended(1))],
        RemoteJob(NAME, Phase.RUNNING),
    ),
    "failed for an unknown reason": (
        job(EXCEEDED),
        [pod("Failed", reason="SomethingNew", message="in words")],
        RemoteJob(NAME, Phase.ENDED, None, "SomethingNew: in words"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_phase_and_the_cause_follow_from_the_job_and_its_pods(case: str) -> None:
    document, pods, expected = CASES[case]
    assert classify(document, pods, now=NOW) == expected
