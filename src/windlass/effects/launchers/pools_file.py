"""Reads the file that WINDLASS_POOLS names: the pools that this process launches jobs on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from windlass.core import duration
from windlass.core.launches import LOCAL, Limits, is_pool_name
from windlass.effects.launchers import PoolOptions, Resources
from windlass.errors import Invalid

MOST_PARALLEL = 10_000
OWN_KEYS = ("launcher", "max_parallel", "image", "resources", "env", "start_within", "heartbeat_within")


def read_pools(path: Path) -> tuple[PoolOptions, ...]:
    """Return the pools; raise `Invalid`, naming file and field, if the file is missing or wrong."""
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", field="WINDLASS_POOLS") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not YAML: {error}", field="WINDLASS_POOLS") from None
    pools = document.get("pools") if isinstance(document, dict) else None
    if not isinstance(pools, dict) or len(document) > 1:
        raise Invalid(f"{path} must have one key, `pools`, with a pool for each name", field="pools")
    return tuple(_pool(path, name, options) for name, options in pools.items())


def _pool(path: Path, name: Any, options: Any) -> PoolOptions:
    at = f"pools.{name}"
    if not isinstance(name, str) or not is_pool_name(name) or name == LOCAL:
        raise _wrong(path, at, "a pool's name has lower-case letters, digits and hyphens, and is not `local`")
    if not isinstance(options, dict) or not isinstance(options.get("launcher", name), str):
        raise _wrong(path, at, "it must be an object such as {launcher: kubernetes, max_parallel: 50}")
    parallel = options.get("max_parallel", 10)
    if not isinstance(parallel, int) or not 1 <= parallel <= MOST_PARALLEL:
        raise _wrong(path, f"{at}.max_parallel", f"it is {parallel!r}: it must be between 1 and {MOST_PARALLEL}")
    image = options.get("image")
    if image is not None and not isinstance(image, str):
        raise _wrong(path, f"{at}.image", f"it is {image!r}: it must be a string")
    return PoolOptions(
        name=name,
        launcher=options.get("launcher", name),
        max_parallel=parallel,
        image=image,
        resources=_resources(path, f"{at}.resources", options.get("resources") or {}),
        env=_env(path, f"{at}.env", options.get("env") or {}),
        start_within=_seconds(path, f"{at}.start_within", options.get("start_within"), Limits.start_within),
        heartbeat_within=_seconds(
            path, f"{at}.heartbeat_within", options.get("heartbeat_within"), Limits.heartbeat_within
        ),
        options={str(key): value for key, value in options.items() if key not in OWN_KEYS},
    )


def _resources(path: Path, at: str, values: Any) -> Resources:
    if not isinstance(values, Mapping) or not values.keys() <= {"cpu", "memory", "gpu"}:
        raise _wrong(path, at, "it must be an object with cpu, memory and gpu")
    cpu, memory, gpu = (values.get(key) for key in ("cpu", "memory", "gpu"))
    return Resources(
        cpu=None if cpu is None else str(cpu),
        memory=None if memory is None else str(memory),
        gpu=None if gpu is None else int(gpu),
    )


def _seconds(path: Path, at: str, value: Any, default: float) -> float:
    if value is None:
        return default
    try:
        seconds = duration.parse(value).total_seconds() if isinstance(value, str) else float(value)
    except (Invalid, TypeError, ValueError):
        seconds = 0.0
    if seconds <= 0:
        raise _wrong(path, at, f"it is {value!r}: it must be a duration such as 5m, or a number of seconds")
    return seconds


def _env(path: Path, at: str, values: Any) -> dict[str, str]:
    if not isinstance(values, Mapping):
        raise _wrong(path, at, "it must be an object of strings")
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _wrong(path, f"{at}.{name}", f"it is {value!r}: it must be a string")
    return dict(values)


def _wrong(path: Path, at: str, message: str) -> Invalid:
    return Invalid(f"{path}, {at}: {message}", field=at)
