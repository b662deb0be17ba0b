"""Builds the documents of a launch: a Job, and a Secret for the secret part of its environment."""

import math
from typing import Any

from windlass.effects.launchers import LaunchRequest, PoolOptions, Resources
from windlass.effects.launchers.kubernetes.options import KubernetesOptions
from windlass.errors import Invalid

PREFIX = "windlass.dev/"
POOL, LAUNCH = PREFIX + "pool", PREFIX + "launch"
MANAGED_BY, INSTANCE = "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"
CONTAINER = "windlass"
GPU = "nvidia.com/gpu"
REMOVED_AFTER = 3600  # seconds after its end: long after its status was read, unless all workers are down


def labels(pool: PoolOptions, options: KubernetesOptions) -> dict[str, str]:
    """Return the labels of all objects of a pool."""
    return {MANAGED_BY: "windlass", INSTANCE: options.instance, POOL: pool.name}


def job_manifest(request: LaunchRequest, pool: PoolOptions, options: KubernetesOptions) -> dict[str, Any]:
    """Return the Job of a launch; raise `Invalid` if it has no image."""
    image = request.image or pool.image
    if not image:
        raise Invalid(f"pool {pool.name} has no image: set `image` on the step or on the pool", field="image")
    resources = _resources(request.resources, pool.resources)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": image,
        "command": list(options.command),
        "env": _environment(request, pool),
        "resources": {"requests": resources, "limits": resources},
        **options.container,
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        # The variables of the namespace's services would be mixed with those of the step.
        "enableServiceLinks": False,
        "containers": [container],
        **options.pod,
    }
    if options.env_from:
        container["envFrom"] = [{"secretRef": {"name": name}} for name in options.env_from]
    if options.service_account is not None:
        pod["serviceAccountName"] = options.service_account
    else:
        pod.setdefault("automountServiceAccountToken", False)
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        pod["tolerations"] = [dict(toleration) for toleration in options.tolerations]
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.image_pull_secrets]
    metadata = _metadata(request, pool, options)
    job: dict[str, Any] = {
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": REMOVED_AFTER,
        # Does not change when the job fails, but records why in the Job: an evicted pod is soon removed.
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "template": {"metadata": {k: metadata[k] for k in ("labels", "annotations")}, "spec": pod},
    }
    if request.deadline is not None:
        job["activeDeadlineSeconds"] = max(1, math.ceil(request.deadline))
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}


def secret_manifest(
    request: LaunchRequest, pool: PoolOptions, options: KubernetesOptions, *, job_uid: str
) -> dict[str, Any]:
    """Return the Secret of a launch. Its owner is the Job, so Kubernetes removes it with the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": request.name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {**_metadata(request, pool, options), "ownerReferences": [owner]},
        "stringData": dict(request.secret_env),
    }


def _metadata(request: LaunchRequest, pool: PoolOptions, options: KubernetesOptions) -> dict[str, Any]:
    return {
        "name": request.name,
        "labels": {**labels(pool, options), LAUNCH: request.name},
        # Names of runs and steps may be longer than a label, and have characters that a label must not have.
        "annotations": {PREFIX + key: value for key, value in request.labels.items()},
    }


def _environment(request: LaunchRequest, pool: PoolOptions) -> list[dict[str, Any]]:
    plain = {name: value for name, value in {**pool.env, **request.env}.items() if name not in request.secret_env}
    references = {name: {"secretKeyRef": {"name": request.name, "key": name}} for name in request.secret_env}
    # Kubernetes replaces $(NAME) in values, and $$ by $.
    return [
        *({"name": name, "value": value.replace("$", "$$")} for name, value in plain.items()),
        *({"name": name, "valueFrom": reference} for name, reference in references.items()),
    ]


def _resources(requested: Resources, default: Resources) -> dict[str, str]:
    gpu = requested.gpu if requested.gpu is not None else default.gpu
    values = {
        "cpu": requested.cpu or default.cpu,
        "memory": requested.memory or default.memory,
        GPU: str(gpu) if gpu else None,
    }
    return {name: value for name, value in values.items() if value is not None}
