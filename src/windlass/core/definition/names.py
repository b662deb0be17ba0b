"""Rules for the names of steps and workflows. Names are used in paths, URLs, expressions and shells."""

import re

from windlass.core.definition.fields import shown

MAX_NAME = 100
STEP_NAME = r"^[A-Za-z0-9_-]{1,100}$"
WORKFLOW_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"

_step = re.compile(STEP_NAME.strip("^$")).fullmatch
_workflow = re.compile(WORKFLOW_NAME.strip("^$")).fullmatch
_id = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch


def step_name_mistake(name: object) -> str | None:
    if isinstance(name, str) and _step(name):
        return None
    return f"{shown(name)} is no name for a step: up to {MAX_NAME} letters, digits, _ and -"


def workflow_name_mistake(name: object) -> str | None:
    if not isinstance(name, str) or not _workflow(name):
        rule = f"up to {MAX_NAME} letters, digits, _, - and ., the first a letter or a digit"
        return f"{shown(name)} is no name for a workflow: {rule}"
    if _id(name):
        return f"{shown(name)} looks like an id: the two must not be mistaken for each other"
    return None
