"""The how-to guide "Run steps on Kubernetes": its documents are valid, and its role has the rights that launches
need."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import validate  # type: ignore[import-untyped]

from tests.launchers.kubernetes_api import Cluster
from tests.launchers.test_kubernetes import request, running, seen
from tests.launchers.test_kubernetes_faults import opened
from windlass.core.definition.parser import parse
from windlass.effects.launchers.kubernetes.options import read_options
from windlass.effects.launchers.pools_file import read_pools
from windlass.errors import Invalid


def guide() -> list[dict[str, Any]]:
    """Return the documents of the how-to guide."""
    text = (Path(__file__).parents[2] / "docs/how-to/run-steps-on-kubernetes.md").read_text("utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [document for block in blocks for document in yaml.safe_load_all(block)]


def test_the_documents_of_the_guide_are_valid(tmp_path: Path) -> None:
    manifests = [document for document in guide() if "kind" in document]
    assert [manifest["kind"] for manifest in manifests] == ["ServiceAccount", "Role", "RoleBinding"]
    for manifest in manifests:
        validate(manifest, "1.31", strict=True)
    (pools,) = [document for document in guide() if "pools" in document]
    path = tmp_path / "pools.yaml"
    path.write_text(yaml.safe_dump(pools))
    (pool,) = read_pools(path)
    assert read_options(pool).env_from == ["bucket-credentials"]
    (workflow,) = [document for document in guide() if "tasks" in document]
    assert [step.name for step in parse(workflow).steps] == ["train"]


async def test_the_role_of_the_guide_is_sufficient(cluster: Cluster) -> None:
    (role,) = [document for document in guide() if document.get("kind") == "Role"]
    cluster.rules = role["rules"]
    job = request(secret_env={"TOKEN": "x"})
    async with opened(cluster) as launcher:
        await launcher.check()
        await launcher.start(job)
        await launcher.start(job)
        await running(launcher)
        await launcher.logs(job.name)
        await launcher.stop(job.name)
        await seen(launcher, lambda jobs: not jobs)


async def test_the_check_reports_each_missing_permission_of_the_role(cluster: Cluster) -> None:
    (role,) = [document for document in guide() if document.get("kind") == "Role"]
    rights = [(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]]
    async with opened(cluster) as launcher:
        for verb, resource in rights:
            cluster.forbidden = {(verb, resource)}
            if verb == "watch" or resource == "events":  # without them, changes are seen later, or not explained
                await launcher.check()
                continue
            with pytest.raises(Invalid, match=f"not allowed to {verb} {resource} in namespace"):
                await launcher.check()
