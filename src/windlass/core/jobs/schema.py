"""Versions of what the arguments of a job type must look like: which is the latest, and how a job names one."""

import re
from enum import StrEnum

from windlass.errors import Invalid

_SEMVER = re.compile(
    r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
).fullmatch
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,63}").fullmatch


class Mode(StrEnum):
    """What becomes of a job whose arguments do not fit."""

    STRICT = "strict"  # it is refused
    WARN = "warn"  # it is taken, with a warning; a job that names its schema is refused all the same
    OFF = "off"  # nothing: the schema is there to be read


def check_version(version: object) -> str:
    if not isinstance(version, str) or not _NAME(version):
        raise Invalid("version must be a short text such as 1.0.0", field="version")
    return version


def mode_of(value: object) -> Mode:
    if value is None:
        return Mode.WARN
    try:
        return Mode(str(value))
    except ValueError:
        raise Invalid(f"mode is {value!r}: one of {', '.join(Mode)}", field="mode") from None


def precedence(version: str) -> tuple[bool, tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], str]:
    """Sorts as SemVer does; what is no such version comes before all that are."""
    found = _SEMVER(version)
    if found is None:
        return False, (), False, (), version
    numbers = tuple(int(part or 0) for part in found.groups()[:3])
    early = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in (found[4] or "").split(".")
    )
    return True, numbers, found[4] is None, early if found[4] else (), version


def names_of(type_: str, version: str, uri: str | None) -> frozenset[str]:
    """How a job may name a schema in its field `schema`."""
    found = {f"{type_}@{version}", f"{type_}/{version}", f"{type_}:{version}", version}
    return frozenset(found | ({uri} if uri else set()))
