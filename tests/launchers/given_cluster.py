"""The Kubernetes cluster of WINDLASS_TEST_KUBECONFIG, for tests that otherwise run on kubernetes_api.py.

Jobs exchange files with the tests in WINDLASS_TEST_FOLDER, which the nodes must have under the same path: any folder if
the cluster runs on this machine as k3s does, a mounted one for kind (extraMounts) and minikube (minikube mount).
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KUBECONFIG = os.environ.get("WINDLASS_TEST_KUBECONFIG")
NAMESPACE = os.environ.get("WINDLASS_TEST_NAMESPACE", "default")
IMAGE = os.environ.get("WINDLASS_TEST_IMAGE", "python:3.12-slim")  # with a shell and Windlass
FOLDER = os.environ.get("WINDLASS_TEST_FOLDER")


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Create a folder to which jobs of any user can write."""
    with tempfile.TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def options(kubeconfig: Path, folder: Path) -> dict[str, Any]:
    """Return the options of a pool whose jobs mount a folder of the node."""
    return {
        "namespace": NAMESPACE,
        "kubeconfig": str(kubeconfig),
        "pod": {"volumes": [{"name": "shared", "hostPath": {"path": str(folder), "type": "Directory"}}]},
        "container": {"volumeMounts": [{"name": "shared", "mountPath": str(folder)}]},
    }


def elsewhere(kubeconfig: str, address: str) -> str:
    """Return a kubeconfig with the address of its server replaced."""
    return re.sub(r"(\bserver\"?: *\"?https?://)[^\s\"/]+", rf"\g<1>{address}", kubeconfig)
