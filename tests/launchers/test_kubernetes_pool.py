"""The options of a pool on Kubernetes, and the documents of a launch."""

import pytest
from kubernetes_validate.utils import all_versions, validate  # type: ignore[import-untyped]
from packaging.version import Version

from tests.launchers.test_kubernetes import request
from windlass.effects.launchers import PoolOptions, Resources, open_launcher
from windlass.effects.launchers.kubernetes.manifests import job_manifest, secret_manifest
from windlass.effects.launchers.kubernetes.options import KubernetesOptions
from windlass.errors import Invalid


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("namespaces", "x", "kubernetes has no option 'namespaces'; the options are namespace, kubeconfig,"),
        ("namespace", "", "namespace must be a string that is not empty, not ''"),
        ("kubeconfig", 7, "kubeconfig must be a string that is not empty, not 7"),
        ("node_selector", {"gpu": True}, "node_selector must be a mapping of strings"),
        ("tolerations", {"key": "gpu"}, "tolerations must be a list of tolerations"),
        ("image_pull_secrets", "registry", "image_pull_secrets must be a list of names of secrets"),
        ("env_from", {"bucket": "x"}, "env_from must be a list of names of secrets"),
        ("pod", [], "pod must be a mapping with fields of a pod's specification"),
        ("instance", "a b", "instance must be a label"),
        ("command", [], "command must be a list of strings"),
        ("command", "python -m app", "command must be a list of strings"),
    ],
)
def test_invalid_options_are_refused_by_name(name: str, value: object, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_launcher(PoolOptions(name="gpu", launcher="kubernetes", options={name: value}))
    assert f"pool gpu: {message}" in str(refused.value)
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("name", "key", "owner"),
    [("pod", "containers", "Windlass"), ("pod", "nodeSelector", "node_selector"), ("container", "env", "option `env`")],
)
def test_fields_that_windlass_sets_cannot_be_overridden(name: str, key: str, owner: str) -> None:
    with pytest.raises(Invalid, match=rf"pool gpu: {name}\.{key} is set by .*{owner}") as refused:
        open_launcher(PoolOptions(name="gpu", launcher="kubernetes", options={name: {key: []}}))
    assert refused.value.field == f"{name}.{key}"


def test_additional_fields_of_the_pod_and_its_container_can_be_set() -> None:
    pool = PoolOptions(name="gpu", launcher="kubernetes", image="app:1")
    options = KubernetesOptions(pod={"priorityClassName": "low"}, container={"securityContext": {"runAsUser": 1000}})
    spec = job_manifest(request(), pool, options)["spec"]["template"]["spec"]
    assert spec["priorityClassName"] == "low"
    assert spec["containers"][0]["securityContext"] == {"runAsUser": 1000}
    assert spec["containers"][0]["image"] == "app:1"


VERSIONS = sorted({version.rsplit(".", 1)[0] for version in all_versions() if Version(version) >= Version("1.26")})


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documents_are_valid_in_each_version_of_kubernetes(version: str) -> None:
    pool = PoolOptions(name="gpu", launcher="kubernetes", image="app:1", env={"A": "1"}, resources=Resources(gpu=1))
    every = KubernetesOptions(
        service_account="steps",
        node_selector={"accelerator": "a100"},
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        image_pull_secrets=["registry"],
        env_from=["bucket"],
        pod={"priorityClassName": "low", "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
        container={"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]},
    )
    job = request(
        env={"B": "2"},
        secret_env={"C": "3"},
        deadline=90.5,
        labels={"run": "x" * 200},
        resources=Resources(cpu="500m", memory="512Mi"),
    )
    validate(job_manifest(job, pool, every), version, strict=True)
    validate(secret_manifest(job, pool, every, job_uid="1"), version, strict=True)
