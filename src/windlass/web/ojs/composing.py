"""Workflows as they are asked for: every dialect becomes a composition. All mistakes are told, each with its path."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.definition import checked
from windlass.core.definition_names import step_name_mistake
from windlass.core.document import PAYLOAD_LIMIT, encode
from windlass.core.primitives import CALLBACKS, MAX_LEVELS, MAX_PARTS, Composition, Part
from windlass.core.workflow import Primitive
from windlass.engine import compositions
from windlass.errors import InvalidWorkflow
from windlass.web.ojs import asking
from windlass.web.ojs.composing_items import Items

CONTAINERS: Mapping[str, str] = {"chain": "steps", "group": "jobs", "batch": "jobs", "dag": "steps"}
CALLBACK_LABELS = {word.replace("_", "-"): word for word in CALLBACKS} | {word: word for word in CALLBACKS}


class Reader(Items):
    """Reads one request."""

    def read(self, body: Mapping[str, Any]) -> Composition:
        found = self._typed(body, "$") if "type" in body else self._listed(body)
        found = replace(found, timeout=self._timeout(body))
        if self.mistakes:
            raise InvalidWorkflow(self.mistakes)
        if found.levels > MAX_LEVELS:
            raise InvalidWorkflow([("$", f"it is nested {found.levels} levels deep, the limit is {MAX_LEVELS}")])
        self._check(found, "$")
        if self.mistakes:
            raise InvalidWorkflow(self.mistakes)
        return found

    # The dialect with a type

    def _typed(self, body: Mapping[str, Any], path: str) -> Composition:
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in CONTAINERS:
            self._wrong(f"{path}.type", "type must be one of chain, group, batch")
            return Composition(kind=Primitive.GROUP, parts=())
        container = CONTAINERS[kind]
        items = self._items(body, kind, path)
        parts = tuple(self._item(item, f"{path}.{container}[{n}]", kind) for n, item in enumerate(items))
        return Composition(
            kind=Primitive(kind),
            parts=self._named(parts, f"{path}.{container}") if kind == "dag" else parts,
            callbacks=self._callbacks(body, path) if kind == "batch" else {},
            name=self._name(body, path),
            id=self._id(body, path),
        )

    def _items(self, body: Mapping[str, Any], kind: str, path: str) -> Sequence[Any]:
        container = CONTAINERS[kind]
        other = "jobs" if container == "steps" else "steps"
        items = body.get(container)
        if items is None and other in body:
            self._wrong(f"{path}.{container}", f"a {kind} has `{container}`, not `{other}`")
        elif not isinstance(items, list):
            self._wrong(f"{path}.{container}", f"{container} must be an array of jobs")
        elif not items:
            self._wrong(f"{path}.{container}", f"{container} array must contain at least one element")
        elif len(items) > MAX_PARTS:
            self._wrong(f"{path}.{container}", f"there are {len(items)} of them, the limit is {MAX_PARTS}")
        else:
            return items
        return ()

    def _item(self, item: Any, path: str, kind: str) -> Part | Composition:
        if not isinstance(item, dict):
            self._wrong(path, "it must be an object: a job, or a workflow inside this one")
            return Part(type="?")
        for word in ("if", "map") if kind in ("group", "batch") else ():
            if word in item:
                self._wrong(f"{path}.{word}", f"`{word}` asks for what came before: in a {kind} nothing does")
        if _is_workflow(item):
            if "map" in item:
                self._wrong(f"{path}.map", "only a job can be made for each item of a list")
            inner = self._typed(item, path)
            needs, condition = self._needs(item, path), self._condition(item, path)
            return replace(inner, label=inner.id, needs=needs, condition=condition)
        label = self._id(item, path)
        if kind == "dag":  # there an id is what others depend on
            return replace(self._job({**item, "id": None}, path), label=label)
        if label is None or _is_own(label):
            return replace(self._job(item, path), label=label)
        return replace(self._job({**item, "id": None}, path, alias=label), label=label)

    def _callbacks(self, body: Mapping[str, Any], path: str) -> dict[str, Part]:
        given = body.get("callbacks")
        if not isinstance(given, dict) or not any(given.get(word) is not None for word in CALLBACKS):
            self._wrong(f"{path}.callbacks", f"callbacks must contain at least one of {', '.join(CALLBACKS)}")
            return {}
        for word in given:
            if word not in CALLBACKS:
                self._wrong(f"{path}.callbacks.{word}", f"it is none of {', '.join(CALLBACKS)}")
        found: dict[str, Part] = {}
        for word in CALLBACKS:
            if (item := given.get(word)) is not None:
                where = f"{path}.callbacks.{word}"
                if not isinstance(item, dict) or _is_workflow(item):
                    self._wrong(where, "a callback must be a job")
                else:
                    body = {name: value for name, value in item.items() if name != "id" or _is_own(value)}
                    found[word] = self._job(body, where)
        return found

    # The dialect without: steps with ids that depend on each other

    def _listed(self, body: Mapping[str, Any]) -> Composition:
        if not isinstance(body.get("steps"), list):
            self._wrong("$.type", "type must be one of chain, group, batch")
            return Composition(kind=Primitive.GROUP, parts=())
        items = self._items(body, "chain", "$")
        usual = body.get("options")
        if usual is not None and not isinstance(usual, dict):
            self._wrong("$.options", "options must be an object: what holds for every step that does not say otherwise")
            usual = None
        parts: list[Part | Composition] = []
        callbacks: dict[str, Part] = {}
        for n, item in enumerate(items):
            path = f"$.steps[{n}]"
            if not isinstance(item, dict):
                self._wrong(path, "it must be an object")
                continue
            whole, word = _merged(item, usual or {})
            if word is not None:
                callbacks[word] = self._job({**whole, "id": None}, path)
            else:
                parts.append(self._item(whole, path, "dag"))
        found = self._named(tuple(parts), "$.steps")
        kind = Primitive.BATCH if callbacks else _kind(found)
        if kind is not Primitive.DAG:
            found = tuple(replace(part, needs=()) for part in found)
        return Composition(
            kind=kind, parts=found, callbacks=callbacks, name=self._name(body, "$"), id=self._id(body, "$")
        )

    def _named(self, parts: tuple[Part | Composition, ...], path: str) -> tuple[Part | Composition, ...]:
        """Every step of a graph has a name of its own; those left out are counted."""
        named = tuple(part if part.label else replace(part, label=f"step-{n}") for n, part in enumerate(parts))
        seen: set[str] = set()
        for n, part in enumerate(named):
            if part.label in seen:
                self._wrong(f"{path}[{n}].id", f"there is another step {part.label!r}")
            seen.add(str(part.label))
        for n, part in enumerate(named):
            for need in part.needs:
                if need not in seen:
                    self._wrong(f"{path}[{n}].depends_on", f"there is no step {need!r}")
        return named

    # What only the whole can tell

    def _check(self, found: Composition, path: str) -> None:
        """What only the whole can tell: circles, expressions, where a list comes from, and whether it fits."""
        container = CONTAINERS[found.kind]
        for n, part in enumerate(found.parts):
            where = f"{path}.{container}[{n}]"
            if isinstance(part, Part) and part.items is not None:
                before = 1 if found.kind is Primitive.CHAIN and n else len(part.needs)
                if before != 1:
                    self._wrong(f"{where}.map", "map needs exactly one step before it, whose list it goes over")
            if isinstance(part, Composition):
                self._check(part, where)
                if len(encode(part.input, field=where, limit=2**40)) > PAYLOAD_LIMIT:
                    self._wrong(where, f"a workflow inside another may have {PAYLOAD_LIMIT} bytes at most")
        if not self.mistakes and _needs_a_look(found):
            self._look(found, f"{path}.{container}")

    def _look(self, found: Composition, path: str) -> None:
        for n, part in enumerate(found.parts):
            if found.kind is Primitive.DAG and (mistake := step_name_mistake(part.label)):
                self._wrong(f"{path}[{n}].id", mistake)
        if self.mistakes:
            return
        places = {f"tasks.{step.name}": n for n, step in enumerate(found.workflow.steps)}
        try:
            checked(found.workflow)
        except InvalidWorkflow as refusal:
            for place, message in refusal.errors:
                task, _, rest = place.rpartition(".")
                word = {"needs": "depends_on", "foreach": "map"}.get(rest, rest)
                self._wrong(f"{path}[{places[task]}].{word}" if task in places else path, message)


def needs_clock(body: Mapping[str, Any]) -> bool:
    """Does a job anywhere in it name a time from now?"""
    if asking.needs_clock(body):
        return True
    calls = body.get("callbacks")
    listed = [body.get("steps"), body.get("jobs"), [*calls.values()] if isinstance(calls, dict) else None]
    items = [item for some in listed if isinstance(some, list) for item in some]
    return any(isinstance(item, dict) and needs_clock(item) for item in items)


def _is_workflow(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("chain", "group", "batch") and ("steps" in item or "jobs" in item)


def _is_own(value: object) -> bool:
    """An id that a job can have as it stands; any other is kept beside the job's own."""
    return isinstance(value, str) and compositions.own_id(value) is not None and value[14] == "7"


def _merged(item: Mapping[str, Any], usual: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """A step with what holds for all, and which callback it is, if it is one."""
    own = item.get("options")
    if own is not None and not isinstance(own, dict):
        return dict(item), None
    options = {**usual, **(own or {})}
    word = options.pop("callback_type", None) or CALLBACK_LABELS.get(str(item.get("id")))
    whole = {**item, "options": options} if options else {key: value for key, value in item.items() if key != "options"}
    return whole, word if word in CALLBACKS else None


def _kind(parts: Sequence[Part | Composition]) -> Primitive:
    if not any(part.needs for part in parts):
        return Primitive.GROUP
    before = [(), *((str(part.label),) for part in parts[:-1])]
    return Primitive.CHAIN if [part.needs for part in parts] == before else Primitive.DAG


def _needs_a_look(found: Composition) -> bool:
    if found.kind is Primitive.DAG:
        return True
    return any(part.condition or (isinstance(part, Part) and part.items is not None) for part in found.parts)
