"""Versions of the argument schemas of job types: their order, and how a job refers to one."""

import re
from enum import StrEnum

from windlass.errors import Invalid

_SEMVER = re.compile(
    r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
).fullmatch
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,63}").fullmatch


class Mode(StrEnum):
    """What happens to a job whose arguments do not match the schema."""

    STRICT = "strict"  # it is refused
    WARN = "warn"  # it is accepted with a warning; a job that names its schema is still refused
    OFF = "off"  # arguments are not checked: the schema is documentation only


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
    """Return a sort key in SemVer order; other version strings come before all SemVer versions."""
    found = _SEMVER(version)
    if found is None:
        return False, (), False, (), version
    numbers = tuple(int(part or 0) for part in found.groups()[:3])
    early = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in (found[4] or "").split(".")
    )
    return True, numbers, found[4] is None, early if found[4] else (), version


def names_of(type_: str, version: str, uri: str | None) -> frozenset[str]:
    """Return the values of a job's `schema` field that refer to this schema."""
    found = {f"{type_}@{version}", f"{type_}/{version}", f"{type_}:{version}", version}
    return frozenset(found | ({uri} if uri else set()))
