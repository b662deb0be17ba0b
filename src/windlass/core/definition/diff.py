"""Line diff of two definitions: what a new version would change.

Steps are matched by name, so the cost grows with the number of steps, whatever changed in them.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from typing import Any

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import TRIGGER, hidden, secrets
from windlass.core.json_value import HIDDEN
from windlass.errors import InvalidWorkflow

Document = dict[str, Any]

CONTEXT = 3
ANOTHER = f"{HIDDEN} (another)"
MAX_LINES = 2000  # of one step; beyond this, computing a line diff takes too long


def difference(old: Document, new: Document) -> list[str]:
    """Return hunks: `@@ where @@`, then lines that begin with a blank, - or +; empty if nothing differs."""
    old, new = _canonical(old), _canonical(new)
    old_secrets, new_secrets = secrets(old), secrets(new)
    old, new = hidden(old), hidden(new)
    before, after = _steps(old), _steps(new)
    for name in old_secrets.keys() & new_secrets.keys():
        if old_secrets[name] == new_secrets[name]:
            continue
        if name == TRIGGER:  # show that it changed, not the value
            new["trigger"] = {"webhook": {**new["trigger"]["webhook"], "secret": ANOTHER}}
        else:
            after[name] = {**after[name], "wait_for_webhook": {**after[name]["wait_for_webhook"], "secret": ANOTHER}}
    found = [*_hunks("workflow", _lines(_head(old)), _lines(_head(new)))]
    for name in {**before, **after}:
        found += _hunks(f"tasks.{name}", _lines(before.get(name)), _lines(after.get(name)))
    return [*found, *_moved(list(before), list(after))]


def _moved(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield a hunk if the order changed: steps are numbered by it in a run's state, so it is part of the definition."""
    stayed = [[name for name in names if name in others] for names, others in ((before, {*after}), (after, {*before}))]
    if stayed[0] != stayed[1]:
        yield "@@ order of tasks @@"
        yield f"-{', '.join(before)}"
        yield f"+{', '.join(after)}"


def _hunks(where: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if old == new:
        return
    if max(len(old), len(new)) > MAX_LINES:
        yield f"@@ {where} @@"
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for line in list(unified_diff(old, new, n=CONTEXT, lineterm=""))[2:]:
        yield f"@@ {where} @@" if line.startswith("@@") else line


def _canonical(document: Document) -> Document:
    with suppress(InvalidWorkflow):  # published under older rules: compare it unchanged
        return parse(document).to_document()
    return document


def _head(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "tasks"}


def _steps(document: Document) -> dict[str, Document]:
    return {step["name"]: step for step in document.get("tasks", ())}


def _lines(fields: Document | None) -> list[str]:
    """Return the fields as JSON lines; keys of nested values are sorted, because jsonb does not keep their order."""
    if fields is None:
        return []
    ordered = {key: json.loads(json.dumps(value, sort_keys=True)) for key, value in fields.items()}
    return json.dumps(ordered, indent=2, ensure_ascii=False).splitlines()
