"""The options of a pool on Kubernetes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from windlass.effects.launchers import PoolOptions
from windlass.errors import Invalid

OWN_FIELDS: Mapping[str, Mapping[str, str]] = {
    "pod": {
        "containers": "Windlass; fields of its container belong in `container`",
        "restartPolicy": "Windlass, which retries itself",
        "serviceAccountName": "the option `service_account`",
        "nodeSelector": "the option `node_selector`",
        "tolerations": "the option `tolerations`",
        "imagePullSecrets": "the option `image_pull_secrets`",
    },
    "container": {
        "name": "Windlass",
        "image": "the option `image`",
        "command": "the option `command`",
        "env": "the option `env`",
        "envFrom": "the option `env_from`",
        "resources": "the option `resources`",
    },
}
COMMAND = ("python", "-m", "windlass.exec")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    namespace: str = "default"
    kubeconfig: str | None = None  # path; None: the account of our own pod, else the default of kubectl
    context: str | None = None
    service_account: str | None = None  # of the launched pods
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    image_pull_secrets: Sequence[str] = ()
    env_from: Sequence[str] = ()  # names of Secrets of the namespace whose values the launched processes get
    pod: Mapping[str, Any] = field(
        default_factory=dict
    )  # more fields of the pod's specification: volumes, affinity, ...
    container: Mapping[str, Any] = field(default_factory=dict)  # and of its container: volumeMounts, ...
    instance: str = "windlass"  # set by workers: an installation stops unknown jobs that have its name
    command: Sequence[str] = COMMAND


def read_options(pool: PoolOptions) -> KubernetesOptions:
    """Return the options of a pool; raise `Invalid` that names the first wrong one."""
    known = [option.name for option in fields(KubernetesOptions)]
    for name, value in pool.options.items():
        if name not in known:
            raise Invalid(
                f"pool {pool.name}: kubernetes has no option {name!r}; the options are {', '.join(known)}", field=name
            )
        is_valid, expected = _CHECKS.get(name, _TEXT)
        if not is_valid(value):
            raise Invalid(f"pool {pool.name}: {name} must be {expected}, not {value!r}", field=name)
        for key, owner in OWN_FIELDS.get(name, {}).items():
            if key in value:
                raise Invalid(f"pool {pool.name}: {name}.{key} is set by {owner}", field=f"{name}.{key}")
    return KubernetesOptions(**pool.options)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_label(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value) is not None


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(_is_text(item) for item in value)


def _is_labels(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(item, str) for pair in value.items() for item in pair)


def _is_fields(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_mappings(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)


_TEXT: tuple[Callable[[object], bool], str] = (_is_text, "a string that is not empty")
_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "node_selector": (_is_labels, 'a mapping of strings, such as {accelerator: "a100"}'),
    "tolerations": (_is_mappings, "a list of tolerations, such as [{key: gpu, operator: Exists}]"),
    "image_pull_secrets": (_is_texts, "a list of names of secrets"),
    "env_from": (_is_texts, "a list of names of secrets"),
    "pod": (_is_fields, "a mapping with fields of a pod's specification"),
    "container": (_is_fields, "a mapping with fields of a container"),
    "instance": (_is_label, "a label: at most 63 letters, digits, hyphens, dots and underscores"),
    "command": (lambda value: _is_texts(value) and bool(value), 'a list of strings, such as ["python", "-m", "app"]'),
}
