"""Reads the jobs of a workflow and the fields that are not part of a job. Mistakes are collected, with their paths."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from windlass.core import ids
from windlass.core.compositions import Part
from windlass.core.jobs.spec import JobTemplate, OnConflict, Unique
from windlass.core.json_value import PAYLOAD_LIMIT, encode
from windlass.errors import Invalid
from windlass.web.ojs import parse_job, times

STEP_KEYS = ("depends_on", "if", "map")  # of a step; they are not part of its job
MAX_ID = 255
Given = Callable[[JobTemplate], dict[str, Any]]


@dataclass
class Items:
    """`given` renders a job template as it is stored in a workflow."""

    given: Given
    mistakes: list[tuple[str, str]] = field(default_factory=list)

    def _job(self, item: Mapping[str, Any], path: str, *, alias: str | None = None) -> Part:
        before = len(self.mistakes)
        for name, read in (("type", _type), ("args", _args)):
            try:
                read(item)
            except Invalid as error:
                self._wrong(f"{path}.{name}", str(error))
        if len(self.mistakes) > before:
            return Part(type="?")
        body = {name: value for name, value in item.items() if name not in STEP_KEYS and value is not None}
        try:
            template = parse_job.read_later(body)
            spec = template.spec
            if alias is not None:
                spec = replace(spec, id=ids.of_name(alias), envelope={**(spec.envelope or {}), "alias": alias})
            given = self.given(replace(template, spec=spec))
            self._check_size(given, path)
        except Invalid as error:
            self._wrong(f"{path}.{error.field}" if error.field else path, str(error))
            return Part(type="?")
        return Part(
            type=spec.type,
            queue=spec.queue,
            given=given,
            needs=self._needs(item, path),
            condition=self._condition(item, path),
            items=self._map(item, path),
            limit=spec.limit,
            unique=self._unique(spec.unique, path),
        )

    def _check_size(self, given: Mapping[str, Any], path: str) -> None:
        try:
            encode(given, field="a job with its options", limit=PAYLOAD_LIMIT)
        except Invalid as error:
            self._wrong(path, str(error))

    def _unique(self, unique: Unique | None, path: str) -> Unique | None:
        if unique is not None and unique.on_conflict is OnConflict.REPLACE_EXCEPT_SCHEDULE:
            message = "replace_except_schedule is not possible in a workflow: use reject or replace"
            self._wrong(f"{path}.options.unique.on_conflict", message)
        return unique

    def _needs(self, item: Mapping[str, Any], path: str) -> tuple[str, ...]:
        needs = item.get("depends_on") or []
        if isinstance(needs, list) and all(isinstance(need, str) for need in needs):
            return tuple(dict.fromkeys(needs))
        self._wrong(f"{path}.depends_on", "depends_on must be a list of step ids")
        return ()

    def _condition(self, item: Mapping[str, Any], path: str) -> str | None:
        condition = item.get("if")
        if condition is None or (isinstance(condition, str) and condition.strip()):
            return condition
        self._wrong(f"{path}.if", "if must be an expression, for example tasks.step-0.body.ok")
        return None

    def _map(self, item: Mapping[str, Any], path: str) -> str | None:
        value = item.get("map")
        if value in (None, False):
            return None
        if value is True:
            return ""
        if isinstance(value, str) and value:
            return value
        self._wrong(f"{path}.map", "map must be true, or the path of a list in the result of the step before")
        return None

    def _name(self, body: Mapping[str, Any], path: str) -> str:
        name = body.get("name")
        if name is None or (isinstance(name, str) and len(name) <= MAX_ID):
            return name or ""
        self._wrong(f"{path}.name", f"name must be a string of at most {MAX_ID} characters")
        return ""

    def _id(self, body: Mapping[str, Any], path: str) -> str | None:
        id_ = body.get("id")
        if id_ is None:
            return None
        if mistake := id_mistake(id_):
            self._wrong(f"{path}.id", mistake)
            return None
        return str(id_)

    def _label(self, body: Mapping[str, Any], path: str) -> str | None:
        """Return the name by which other steps of a graph depend on this one; it is never part of a URL."""
        label = body.get("id")
        if label is None or (isinstance(label, str) and 0 < len(label) <= MAX_ID and label.isprintable()):
            return label
        self._wrong(f"{path}.id", f"id must be a printable string of at most {MAX_ID} characters")
        return None

    def _none_of(self, item: Mapping[str, Any], names: Iterable[str], path: str, why: str) -> None:
        """Refuse keys that would otherwise be ignored."""
        for name in names:
            if item.get(name) not in (None, [], {}, False):
                self._wrong(f"{path}.{name}", why)

    def _timeout(self, body: Mapping[str, Any]) -> timedelta | None:
        try:
            value = body.get("timeout_ms")
            return None if value is None else times.milliseconds(value, field="timeout_ms")
        except Invalid as error:
            self._wrong("$.timeout_ms", str(error))
            return None

    def _wrong(self, path: str, message: str) -> None:
        self.mistakes.append((path, message))


def id_mistake(id_: object) -> str | None:
    """Return why this cannot be the id of a workflow or job, which must be one segment of a URL; None if it can."""
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID or not id_.isprintable():
        return f"id must be a printable string of at most {MAX_ID} characters"
    if "/" in id_ or id_ in (".", ".."):
        return f"id is {id_!r}: it is part of a URL, so it must not contain '/' or be '.' or '..'"
    return None


def _type(item: Mapping[str, Any]) -> None:
    parse_job.job_type(item.get("type"))


def _args(item: Mapping[str, Any]) -> None:
    if not isinstance(item.get("args"), list):
        raise Invalid("args must be a JSON array")
