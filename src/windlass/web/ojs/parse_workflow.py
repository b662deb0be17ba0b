"""Parses requests for workflows, in several dialects, into compositions. Reports all errors with their paths."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from windlass.core import ids
from windlass.core.compositions import MAX_LEVELS, MAX_PARTS, Composition, Part
from windlass.core.definition.fields import step_name_mistake
from windlass.core.definition.parser import checked
from windlass.core.jobs.spec import JobTemplate, OnConflict, Unique
from windlass.core.json_value import PAYLOAD_LIMIT, encode
from windlass.core.workflows.graph import CALLBACKS
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine.compositions import control as compositions
from windlass.errors import Invalid, InvalidWorkflow
from windlass.web.ojs import parse_job, times

CONTAINERS: Mapping[str, str] = {"chain": "steps", "group": "jobs", "batch": "jobs", "dag": "steps"}
# Fields that the server sets. A client may send them back; they are ignored.
SYSTEM = frozenset({"specversion", "state", "metadata", "created_at", "started_at", "completed_at", "cancelled_at"})
KEYS = SYSTEM | {"type", "id", "name", "steps", "jobs", "callbacks"}
TOP_KEYS = KEYS | {"timeout_ms"}
LISTED_KEYS = SYSTEM | {"id", "name", "steps", "options", "timeout_ms"}
CALLBACK_LABELS = {word.replace("_", "-"): word for word in CALLBACKS} | {word: word for word in CALLBACKS}
STEP_KEYS = ("depends_on", "if", "map")  # of a step; they are not part of its job
MAX_ID = 255


@dataclass
class Reader:
    """Parses one request. `stored` returns a job template in the form in which a workflow stores it."""

    stored: Callable[[JobTemplate], dict[str, Any]]
    mistakes: list[tuple[str, str]] = field(default_factory=list)

    def read(self, body: Mapping[str, Any]) -> Composition:
        if "type" in body:
            self._check_keys(body, TOP_KEYS, "$")
            composition = self._typed(body, "$")
        else:
            self._check_keys(body, LISTED_KEYS, "$")
            composition = self._listed(body)
        composition = replace(composition, timeout=self._timeout(body))
        if not self.mistakes and composition.levels > MAX_LEVELS:
            self._wrong("$", f"nested {composition.levels} levels deep, the limit is {MAX_LEVELS}")
        if not self.mistakes:
            self._check(composition, "$")
        if self.mistakes:
            raise InvalidWorkflow(self.mistakes)
        return composition

    # The dialect with a type: chain, group, batch, dag

    def _typed(self, body: Mapping[str, Any], path: str) -> Composition:
        kind = body.get("type")
        if not isinstance(kind, str) or kind not in CONTAINERS:
            self._wrong(f"{path}.type", "type must be one of chain, group, batch")
            return Composition(kind=CompositionKind.GROUP, parts=())
        container = CONTAINERS[kind]
        items = self._items(body, kind, path)
        if kind != "batch":
            self._none_of(body, ["callbacks"], path, f"a {kind} cannot have callbacks: use a batch")
        parts = tuple(self._item(item, f"{path}.{container}[{n}]", kind) for n, item in enumerate(items))
        return Composition(
            kind=CompositionKind(kind),
            parts=self._named(dict(enumerate(parts)), f"{path}.{container}") if kind == "dag" else parts,
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
            return ()
        self._none_of(body, [other], path, f"a {kind} has `{container}`, not `{other}`")
        if not isinstance(items, list):
            self._wrong(f"{path}.{container}", f"{container} must be an array of jobs")
        elif not items:
            self._wrong(f"{path}.{container}", f"{container} array must contain at least one element")
        elif len(items) > MAX_PARTS:
            self._wrong(f"{path}.{container}", f"{container} has {len(items)} elements, the limit is {MAX_PARTS}")
        else:
            return items
        return ()

    def _item(self, item: Any, path: str, kind: str) -> Part | Composition:
        if not isinstance(item, dict):
            self._wrong(path, "must be an object: a job, or a nested workflow")
            return Part(type="?")
        if kind != "dag":
            message = f"a {kind} has no dependencies: omit `type` of the workflow, or make it a dag"
            self._none_of(item, ["depends_on"], path, message)
        for word in ("if", "map") if kind in ("group", "batch") else ():
            if word in item:
                self._wrong(f"{path}.{word}", f"`{word}` needs a step before this one, and a {kind} has no order")
        if _is_workflow(item):
            self._none_of(item, ["map"], path, "only a job can be mapped over a list")
            self._check_keys(item, KEYS.union(STEP_KEYS), path)
            inner = self._typed(item, path)
            needs, condition = self._needs(item, path), self._condition(item, path)
            return replace(inner, label=inner.id, needs=needs, condition=condition)
        if kind == "dag":  # its id is the name by which other steps depend on it
            return replace(self._job({**item, "id": None}, path), label=self._label(item, path))
        label = self._id(item, path)
        if label is None or _is_own(label):
            return replace(self._job({**item, "id": label}, path), label=label)
        return replace(self._job({**item, "id": None}, path, alias=label), label=label)

    def _callbacks(self, body: Mapping[str, Any], path: str) -> dict[str, Part]:
        callbacks = body.get("callbacks")
        if not isinstance(callbacks, dict) or not any(callbacks.get(word) is not None for word in CALLBACKS):
            self._wrong(f"{path}.callbacks", f"callbacks must contain at least one of {', '.join(CALLBACKS)}")
            return {}
        for word in callbacks:
            if word not in CALLBACKS:
                self._wrong(f"{path}.callbacks.{word}", f"must be one of {', '.join(CALLBACKS)}")
        parts: dict[str, Part] = {}
        for word in CALLBACKS:
            if (item := callbacks.get(word)) is not None:
                where = f"{path}.callbacks.{word}"
                if not isinstance(item, dict) or _is_workflow(item):
                    self._wrong(where, "a callback must be a job")
                else:
                    self._none_of(item, STEP_KEYS, where, "not allowed: a callback runs when all jobs have ended")
                    body = {name: value for name, value in item.items() if name != "id" or _is_own(value)}
                    parts[word] = self._job(body, where)
        return parts

    # The dialect without a type: steps with ids that depend on each other

    def _listed(self, body: Mapping[str, Any]) -> Composition:
        if not isinstance(body.get("steps"), list):
            self._wrong("$.type", "type must be one of chain, group, batch")
            return Composition(kind=CompositionKind.GROUP, parts=())
        items = self._items(body, "chain", "$")
        usual = body.get("options")
        if usual is not None and not isinstance(usual, dict):
            self._wrong("$.options", "options must be an object: the defaults of all steps")
            usual = None
        parts: dict[int, Part | Composition] = {}
        callbacks: dict[str, Part] = {}
        for n, item in enumerate(items):
            path = f"$.steps[{n}]"
            if not isinstance(item, dict):
                self._wrong(path, "must be an object")
                continue
            whole, word = _merged(item, usual or {})
            if word is None:
                parts[n] = self._item(whole, path, "dag")
            else:
                self._callback_step(whole, word, path, callbacks)
        named = self._named(parts, "$.steps")
        kind = CompositionKind.BATCH if callbacks else _kind(named)
        if kind is CompositionKind.BATCH:
            for n, part in parts.items():
                message = "not allowed in a workflow with callbacks: all its other steps start immediately"
                self._none_of({"depends_on": part.needs or None}, ["depends_on"], f"$.steps[{n}]", message)
        if kind is not CompositionKind.DAG:
            named = tuple(replace(part, needs=()) for part in named)
        return Composition(
            kind=kind, parts=named, callbacks=callbacks, name=self._name(body, "$"), id=self._id(body, "$")
        )

    def _callback_step(self, item: Mapping[str, Any], word: str, path: str, callbacks: dict[str, Part]) -> None:
        """Read a step that is a callback. Its own dependencies are ignored: it depends on all jobs."""
        if word not in CALLBACKS:
            self._wrong(f"{path}.options.callback_type", f"must be one of {', '.join(CALLBACKS)}")
        elif word in callbacks:
            self._wrong(path, f"duplicate callback {word}")
        else:
            self._none_of(item, ("if", "map"), path, "not allowed: a callback runs when all jobs have ended")
            callbacks[word] = self._job({**item, "id": None}, path)

    def _named(self, parts: Mapping[int, Part | Composition], path: str) -> tuple[Part | Composition, ...]:
        """Name the steps that have no id, and check that names are unique and dependencies exist."""
        named = {
            place: part if part.label else replace(part, label=f"step-{n}")
            for n, (place, part) in enumerate(parts.items())
        }
        seen: set[str] = set()
        for place, part in named.items():
            if part.label in seen:
                self._wrong(f"{path}[{place}].id", f"duplicate step {part.label!r}")
            seen.add(str(part.label))
        for place, part in named.items():
            for need in part.needs:
                if need not in seen:
                    self._wrong(f"{path}[{place}].depends_on", f"there is no step {need!r}")
        return tuple(named.values())

    # Checks

    def _check_keys(self, body: Mapping[str, Any], known: Collection[str], path: str) -> None:
        for name in body:
            if name not in known:
                self._wrong(f"{path}.{name}", _unknown(name))

    def _check(self, composition: Composition, path: str) -> None:
        """Check the composition as a whole: cycles, expressions, the sources of maps, and sizes."""
        container = CONTAINERS[composition.kind]
        for n, part in enumerate(composition.parts):
            where = f"{path}.{container}[{n}]"
            if isinstance(part, Part) and part.items is not None:
                before = 1 if composition.kind is CompositionKind.CHAIN and n else len(part.needs)
                if before != 1:
                    self._wrong(f"{where}.map", "map needs exactly one step before it, which returns the list")
            if isinstance(part, Composition):
                self._check(part, where)
                if len(encode(part.input, field=where, limit=2**40)) > PAYLOAD_LIMIT:
                    self._wrong(where, f"a nested workflow must not exceed {PAYLOAD_LIMIT} bytes")
        if not self.mistakes and _has_expressions(composition):
            self._check_definition(composition, f"{path}.{container}")

    def _check_definition(self, composition: Composition, path: str) -> None:
        for n, part in enumerate(composition.parts):
            if composition.kind is CompositionKind.DAG and (mistake := step_name_mistake(part.label)):
                self._wrong(f"{path}[{n}].id", mistake)
        if self.mistakes:
            return
        places = {f"tasks.{step.name}": n for n, step in enumerate(composition.workflow.steps)}
        try:
            checked(composition.workflow)
        except InvalidWorkflow as refusal:
            for place, message in refusal.errors:
                task, _, rest = place.rpartition(".")
                word = {"needs": "depends_on", "foreach": "map"}.get(rest, rest)
                self._wrong(f"{path}[{places[task]}].{word}" if task in places else path, message)

    # Jobs and fields

    def _job(self, item: Mapping[str, Any], path: str, *, alias: str | None = None) -> Part:
        before = len(self.mistakes)
        for name, check in (("type", parse_job.job_type), ("args", parse_job.check_args)):
            try:
                check(item.get(name))
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
            fields = self.stored(replace(template, spec=spec))
        except Invalid as error:
            self._wrong(f"{path}.{error.field}" if error.field else path, str(error))
            return Part(type="?")
        try:
            encode(fields, field="a job with its options", limit=PAYLOAD_LIMIT)
        except Invalid as error:
            self._wrong(path, str(error))
        return Part(
            type=spec.type,
            queue=spec.queue,
            fields=fields,
            needs=self._needs(item, path),
            condition=self._condition(item, path),
            items=self._map(item, path),
            limit=spec.limit,
            unique=self._unique(spec.unique, path),
        )

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


def _unknown(name: str) -> str:
    match name:
        case "timeout_ms":
            return "only the outermost workflow can have a timeout"
        case "jobs" | "callbacks":
            return "a workflow without `type` has only `steps`; a callback is a step with options.callback_type"
        case "options":
            return "a workflow with `type` has no options: set them on its jobs"
        case _:
            return "unknown key"


def _is_workflow(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("chain", "group", "batch") and ("steps" in item or "jobs" in item)


def _is_own(value: object) -> bool:
    """Return whether a client's id can be the job's id; any other is stored as an alias."""
    return isinstance(value, str) and compositions.own_id(value) is not None and value[14] == "7"


def _merged(item: Mapping[str, Any], usual: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return a step with the default options, and the name of its callback if it is one."""
    own = item.get("options")
    if own is not None and not isinstance(own, dict):
        return dict(item), None
    options = {**usual, **(own or {})}
    word = options.pop("callback_type", None) or CALLBACK_LABELS.get(str(item.get("id")))
    whole = {**item, "options": options} if options else {key: value for key, value in item.items() if key != "options"}
    return whole, None if word is None else str(word)


def _kind(parts: Sequence[Part | Composition]) -> CompositionKind:
    if not any(part.needs for part in parts):
        return CompositionKind.GROUP
    before = [(), *((str(part.label),) for part in parts[:-1])]
    return CompositionKind.CHAIN if [part.needs for part in parts] == before else CompositionKind.DAG


def _has_expressions(composition: Composition) -> bool:
    if composition.kind is CompositionKind.DAG:
        return True
    return any(part.condition or (isinstance(part, Part) and part.items is not None) for part in composition.parts)
