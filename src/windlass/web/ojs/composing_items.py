"""The items of a workflow as they are asked for: jobs, and what is said about them. Mistakes are gathered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from windlass.core import ids
from windlass.core.document import PAYLOAD_LIMIT, encode
from windlass.core.primitives import Part
from windlass.core.submission import JobSpec
from windlass.errors import Invalid
from windlass.web.ojs import asking, times

OUR_WORDS = ("depends_on", "if", "map")  # of an item of a workflow; the job itself has no such fields
MAX_ID = 255
Given = Callable[[JobSpec], dict[str, Any]]


@dataclass
class Items:
    """`given` makes a part of what a job says."""

    now: datetime
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
        body = {name: value for name, value in item.items() if name not in OUR_WORDS and value is not None}
        try:
            spec = asking.read_job(body, self.now)
            if alias is not None:
                spec = replace(spec, id=ids.of_name(alias), envelope={**(spec.envelope or {}), "alias": alias})
            given = self.given(spec)
            encode(given, field="the job", limit=PAYLOAD_LIMIT)
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
        )

    def _needs(self, item: Mapping[str, Any], path: str) -> tuple[str, ...]:
        needs = item.get("depends_on") or []
        if isinstance(needs, list) and all(isinstance(need, str) for need in needs):
            return tuple(dict.fromkeys(needs))
        self._wrong(f"{path}.depends_on", "depends_on must be a list of ids of steps")
        return ()

    def _condition(self, item: Mapping[str, Any], path: str) -> str | None:
        condition = item.get("if")
        if condition is None or (isinstance(condition, str) and condition.strip()):
            return condition
        self._wrong(f"{path}.if", "if must be an expression, for example tasks.step-0.body.ok")
        return None

    def _map(self, item: Mapping[str, Any], path: str) -> str | None:
        asked = item.get("map")
        if asked in (None, False):
            return None
        if asked is True:
            return ""
        if isinstance(asked, str) and asked:
            return asked
        self._wrong(f"{path}.map", "map must be true, or the path of a list in what the step before gave")
        return None

    def _name(self, body: Mapping[str, Any], path: str) -> str:
        name = body.get("name")
        if name is None or (isinstance(name, str) and len(name) <= MAX_ID):
            return name or ""
        self._wrong(f"{path}.name", f"name must be a text of at most {MAX_ID} characters")
        return ""

    def _id(self, body: Mapping[str, Any], path: str) -> str | None:
        id_ = body.get("id")
        if id_ is None or (isinstance(id_, str) and 0 < len(id_) <= MAX_ID and id_.isprintable()):
            return id_
        self._wrong(f"{path}.id", f"id must be a printable text of at most {MAX_ID} characters")
        return None

    def _timeout(self, body: Mapping[str, Any]) -> timedelta | None:
        try:
            value = body.get("timeout_ms")
            return None if value is None else times.milliseconds(value, field="timeout_ms")
        except Invalid as error:
            self._wrong("$.timeout_ms", str(error))
            return None

    def _wrong(self, path: str, message: str) -> None:
        self.mistakes.append((path, message))


def _type(item: Mapping[str, Any]) -> None:
    asking.job_type(item.get("type"))


def _args(item: Mapping[str, Any]) -> None:
    if not isinstance(item.get("args"), list):
        raise Invalid("args must be a JSON array")
